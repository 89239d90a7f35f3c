"""Grafana's form of a dashboard, made of a short description: a row of numbers, below it graphs in two columns, and
three variables at the top.

The module knows the JSON that Grafana imports; `infra.generate.dashboards` says what is shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "grafana"
# Of the dashboard format; newer Grafanas migrate it by themselves.
SCHEMA = 39
# The page is so wide, in Grafana's units.
PAGE = 24
WIDTH, HEIGHT, LOW = 12, 8, 4
GOOD, DOUBTFUL, BAD = "green", "orange", "red"
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """One graph.

    Attributes:
        why: shown when one points at the title.
        queries: expression and legend of each line.
        unit: Grafana's name of it.
    """

    title: str
    why: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    stacked: bool = False


@dataclass(frozen=True)
class Number:
    """One number, as it is now.

    Attributes:
        query: of one series.
        doubtful: from here on it is orange.
        bad: from here on it is red.
    """

    title: str
    why: str
    query: str
    unit: str = "short"
    doubtful: float | None = None
    bad: float | None = None

    @property
    def queries(self) -> tuple[tuple[str, str], ...]:
        """As those of a graph."""
        return ((self.query, ""),)


@dataclass(frozen=True)
class Dashboard:
    """One page; `panels` are its graphs, and `numbers` what is above them."""

    uid: str
    title: str
    graphs: tuple[Panel, ...]
    numbers: tuple[Number, ...] = field(default=())

    @property
    def panels(self) -> tuple[Number | Panel, ...]:
        """All of them, from the top."""
        return (*self.numbers, *self.graphs)


def rendered(dashboard: Dashboard) -> dict[str, Any]:
    """As Grafana imports it."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "tags": ["headrace", "knative", "nats"],
        "schemaVersion": SCHEMA,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables()},
        "panels": [
            *(_number(place, each, len(dashboard.numbers)) for place, each in enumerate(dashboard.numbers)),
            *(_graph(place, each, len(dashboard.numbers)) for place, each in enumerate(dashboard.graphs)),
        ],
    }


def _variables() -> list[dict[str, Any]]:
    source: dict[str, Any] = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    chosen: list[str] = []
    found = [source]
    for name in ("namespace", "channel", "subscription"):
        above = f"{{{', '.join(chosen)}}}" if chosen else ""
        query = f"label_values(headrace_consumer_pending_events{above}, {name})"
        found.append(
            {
                "name": name,
                "label": name.capitalize(),
                "type": "query",
                "datasource": SOURCE,
                "query": {"query": query, "refId": name},
                "refresh": 2,
                "multi": True,
                "includeAll": True,
                "allValue": ".*",
                "sort": 1,
                "current": {"text": ["All"], "value": ["$__all"]},
            }
        )
        chosen.append(f'{name}=~"${name}"')
    return found


def _number(place: int, number: Number, of: int) -> dict[str, Any]:
    width = PAGE // of
    steps: list[dict[str, Any]] = [{"color": GOOD, "value": None}]
    steps += [
        {"color": colour, "value": bound}
        for colour, bound in ((DOUBTFUL, number.doubtful), (BAD, number.bad))
        if bound is not None
    ]
    return {
        **_any(place + 1, "stat", number),
        "gridPos": {"x": place * width, "y": 0, "w": width, "h": LOW},
        "fieldConfig": {
            "defaults": {"unit": number.unit, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "options": {
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
            "colorMode": "value",
            "graphMode": "area",
            "textMode": "value",
        },
    }


def _graph(place: int, panel: Panel, numbers: int) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    top = LOW if numbers else 0
    return {
        **_any(numbers + place + 1, "timeseries", panel),
        "gridPos": {"x": place % 2 * WIDTH, "y": top + place // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
    }


def _any(id: int, kind: str, panel: Number | Panel) -> dict[str, Any]:
    return {
        "id": id,
        "type": kind,
        "title": panel.title,
        "description": panel.why,
        "datasource": SOURCE,
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expression, "legendFormat": legend, "datasource": SOURCE}
            for place, (expression, legend) in enumerate(panel.queries)
        ],
    }


def text(dashboard: Dashboard) -> str:
    """The file."""
    return json.dumps(rendered(dashboard), indent=2) + "\n"


def file(dashboard: Dashboard) -> Path:
    return FOLDER / f"{dashboard.uid}.json"
