"""What panels show: their queries, answered by Prometheus over the time of a run, and kept as one JSON file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.pictures.prometheus import Prometheus

FOLDER = Path(__file__).resolve().parents[2] / "infra" / "grafana"
STEP = 2

Points = Sequence[tuple[float, float]]
# Legend and points of each line.
Lines = Sequence[tuple[str, Points]]


@dataclass(frozen=True)
class Run:
    """One run.

    Attributes:
        began, ended: seconds since the epoch.
        facts: of the machine and the versions.
        acts: second of the run and sentence of what happened.
        panels: by dashboard's uid and panel's title.
        screens: commands and what they said, by picture.
    """

    began: float
    ended: float
    facts: Mapping[str, str]
    acts: Sequence[tuple[float, str]]
    panels: Mapping[str, Mapping[str, Lines]]
    screens: Mapping[str, Sequence[tuple[str, str]]]

    def text(self) -> str:
        return json.dumps(self.__dict__)

    @classmethod
    def of(cls, text: str) -> Run:
        return cls(**json.loads(text))

    def empty(self) -> list[str]:
        """Panels without a single value, as `uid: title`."""
        return [
            f"{uid}: {title}"
            for uid, panels in self.panels.items()
            for title, lines in panels.items()
            if not any(points for _, points in lines)
        ]


def dashboards() -> list[dict[str, Any]]:
    """The committed ones, as Grafana imports them."""
    return [json.loads(file.read_text(encoding="utf-8")) for file in sorted(FOLDER.glob("*.json"))]


def asked(prometheus: Prometheus, began: float, ended: float) -> dict[str, dict[str, Lines]]:
    """The lines of every panel of every dashboard."""
    return {
        each["uid"]: {panel["title"]: _lines(prometheus, panel, began, ended) for panel in each["panels"]}
        for each in dashboards()
    }


def _lines(prometheus: Prometheus, panel: Mapping[str, Any], began: float, ended: float) -> Lines:
    found = [
        (_legend(target["legendFormat"], line.labels), line.points)
        for target in panel["targets"]
        for line in prometheus.range(target["expr"], began, ended, STEP)
    ]
    return sorted(found, key=lambda each: each[0])


def _legend(form: str, labels: Mapping[str, str]) -> str:
    return re.sub(r"{{(\w+)}}", lambda label: labels.get(label[1], ""), form)
