"""Grafana's form of a dashboard, made of a short description: panels in two columns, three variables at the top.

Knows the JSON that Grafana imports; what is shown is in `infra.generate.dashboards`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "grafana"
# Of the dashboard format; newer Grafanas migrate it by themselves.
SCHEMA = 39
WIDTH, HEIGHT = 12, 8
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
class Dashboard:
    uid: str
    title: str
    panels: tuple[Panel, ...] = field(default=())


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
        "panels": [_panel(number, panel) for number, panel in enumerate(dashboard.panels)],
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


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    custom: dict[str, Any] = {"lineWidth": 1, "fillOpacity": 10, "showPoints": "never"}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal", "group": "A"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.why,
        "datasource": SOURCE,
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0, "custom": custom}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
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
