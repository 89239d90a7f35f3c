"""Prometheus itself, beside a run: it scrapes what a cluster's would, and answers what Grafana would ask."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.programs import tool_binaries
from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running

INTERVAL = 5
# Grafana takes four scrapes of 15 s as a rule: a minute, in which each lease of 20 s ends. Two thirds of it will do for
# a day of five minutes.
RATE_INTERVAL = 40
ROOT = Path(__file__).resolve().parents[2]
ALERTS = ROOT / "infra/prometheus/alerts.yaml"


class Refused(Exception):
    """Prometheus does not take a query; has its words, and the query."""


@dataclass(frozen=True)
class Line:
    """One series of an answer; `points` are seconds since the epoch, and values that are numbers."""

    labels: Mapping[str, str]
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Prometheus:
    """One that runs."""

    url: str

    def range(self, expression: str, begin: float, end: float, step: float) -> list[Line]:
        """A query as a graph asks it, Grafana's variables included.

        Raises:
            Refused: it is not taken.
        """
        query = expression.replace("$__rate_interval", f"{RATE_INTERVAL}s").replace("$__range", f"{end - begin:.0f}s")
        for name in ("namespace", "channel", "subscription"):
            query = query.replace(f"${name}", ".*")
        given = {"query": query, "start": begin, "end": end, "step": step}
        answer = self._asked("query_range", given)
        return [
            Line(
                {name: value for name, value in each["metric"].items() if name != "__name__"},
                [(float(at), float(value)) for at, value in each["values"] if value not in ("NaN", "+Inf", "-Inf")],
            )
            for each in answer["result"]
        ]

    def version(self) -> str:
        return str(self._asked("status/buildinfo", {}).get("version"))

    def down(self) -> list[str]:
        """Why targets could not be scraped, last."""
        return [each["lastError"] for each in self._asked("targets", {})["activeTargets"] if each["health"] != "up"]

    def _asked(self, what: str, given: Mapping[str, Any]) -> Any:
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{what}?{urllib.parse.urlencode(given)}", timeout=60) as got:
                return json.load(got)["data"]
        except urllib.error.HTTPError as refused:
            raise Refused(f"{refused.read().decode()} to {given}") from refused


@contextmanager
def scraping(ports: Mapping[str, int], directory: Path, namespace: str) -> Iterator[Prometheus]:
    """One that scrapes these, by job; each with the labels that a monitor of the chart would give it.

    Args:
        namespace: of the pods, which is not that of the channels.
    """
    configuration = {
        "global": {"scrape_interval": f"{INTERVAL}s", "evaluation_interval": f"{INTERVAL}s"},
        "rule_files": [str(ALERTS)],
        "scrape_configs": [
            {
                "job_name": f"headrace-{name}",
                "honor_labels": True,
                "static_configs": [{"targets": [f"127.0.0.1:{port}"], "labels": {"namespace": namespace}}],
            }
            for name, port in ports.items()
        ],
    }
    file = directory / "prometheus.yaml"
    file.write_text(json.dumps(configuration), encoding="utf-8")
    program, port = tool_binaries.found(tool_binaries.PROMETHEUS)["prometheus"], free_port()
    command: list[str | Path] = [
        program,
        f"--config.file={file}",
        f"--storage.tsdb.path={directory / 'series'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    running = Running("prometheus", command, port, directory, {}).wait_until_open()
    try:
        yield Prometheus(running.url)
    finally:
        running.stop()
