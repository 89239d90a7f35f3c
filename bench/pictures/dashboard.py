"""A dashboard as one picture: its panels where Grafana puts them, with the values of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.pictures import scale, shapes
from bench.pictures.graph import along, graph, pieces
from bench.pictures.prometheus import RATE_INTERVAL
from bench.pictures.values import Lines, Run

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "dashboards"
FACE = "Inter, 'Segoe UI', Helvetica, Arial, sans-serif"
# A unit of Grafana's grid, and what is between panels.
ACROSS, DOWN, GAP = 58, 34, 8
EDGE, HEAD = 16, 64
WIDTH = 24 * ACROSS + 2 * EDGE
TITLE = 30
LEVELS = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}


def file(uid: str) -> Path:
    return FOLDER / f"{uid}.svg"


def svg(dashboard: Mapping[str, Any], run: Run) -> str:
    """The picture.

    Args:
        dashboard: as Grafana imports it.
    """
    bottom = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in dashboard["panels"]) * DOWN + HEAD
    foot, height = _foot(run, bottom + 22)
    parts = [
        shapes.text(EDGE, 34, dashboard["title"], size=22, colour=shapes.BRIGHT, more=' font-weight="600"'),
        shapes.text(EDGE, 54, _about(run), size=12, colour=shapes.FAINT),
    ]
    for panel in dashboard["panels"]:
        lines = _by_second(run.panels.get(dashboard["uid"], {}).get(panel["title"], []), run.began)
        parts += _panel(panel, lines, run)
    return shapes.whole(WIDTH, height, dashboard["title"], [*parts, *foot], FACE)


def _about(run: Run) -> str:
    facts = ", ".join(f"{name} {value}" for name, value in run.facts.items())
    minutes = f"{(run.ended - run.began) / 60:.0f} minutes of a real run, rates over {RATE_INTERVAL} s"
    return f"{minutes}; every query answered by Prometheus itself; {facts}"


def _by_second(lines: Lines, began: float) -> Lines:
    return [(legend, [(at - began, value) for at, value in points]) for legend, points in lines]


def _panel(panel: Mapping[str, Any], lines: Lines, run: Run) -> list[str]:
    grid = panel["gridPos"]
    left, top = EDGE + grid["x"] * ACROSS + GAP / 2, HEAD + grid["y"] * DOWN + GAP / 2
    width, height = grid["w"] * ACROSS - GAP, grid["h"] * DOWN - GAP
    title = shapes.text(left + 12, top + 20, panel["title"], size=13, colour=shapes.BRIGHT, more=' font-weight="500"')
    parts = [shapes.box(left, top, width, height, shapes.PANEL, f' rx="4" stroke="{shapes.EDGE}"'), title]
    seconds = run.ended - run.began
    if panel["type"] == "stat":
        return parts + _number((left, top, width, height), panel, lines, seconds)
    inside = (left, top + TITLE, width, height - TITLE)
    return parts + graph(inside, panel, lines, seconds, run.acts)


def _number(
    place: tuple[float, float, float, float], panel: Mapping[str, Any], lines: Lines, seconds: float
) -> list[str]:
    """The last value, coloured by its thresholds, over a faint area of how it came to be."""
    left, top, width, height = place
    points = [point for _, found in lines for point in found]
    if not points:
        return [shapes.text(left + 12, top + height / 2 + 16, "No data", size=20, colour=shapes.FAINT)]
    defaults = panel["fieldConfig"]["defaults"]
    last, most = points[-1][1], max(value for _, value in points) or 1.0
    steps = defaults.get("thresholds", {}).get("steps", [])
    colour = [LEVELS[step["color"]] for step in steps if step["value"] is None or last >= step["value"]][-1]
    floor, high = top + height - 1, height * 0.3
    parts = []
    for piece in pieces(points):
        at = [(left + 1 + (width - 2) * second / seconds, floor - high * value / most) for second, value in piece]
        path = along(at)
        ground = f"L{at[-1][0]:.1f} {floor:.1f} L{at[0][0]:.1f} {floor:.1f}Z"
        parts.append(f'<path d="M{path} {ground}" fill="{colour}" opacity="0.16"/>')
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.2" opacity="0.6"/>')
    words = scale.worded(last, defaults.get("unit", "short"))
    weight = ' font-weight="600"'
    return [*parts, shapes.text(left + 12, top + 66, words, size=30, colour=colour, more=weight)]


def _foot(run: Run, top: float) -> tuple[list[str], float]:
    """What happened, by the numbers at the tops of the graphs; and where it ends."""
    words = [f"{number}  {said} ({second // 60:.0f}:{second % 60:02.0f})" for number, (second, said) in _numbered(run)]
    parts, x, y = [], 0.0, top
    for each in words:
        needed = shapes.wide(each, 12) + 22
        if x and x + needed > WIDTH - 2 * EDGE:
            x, y = 0.0, y + 20
        parts.append(shapes.text(EDGE + x, y, each, size=12, colour="#8ab8ff"))
        x += needed
    return parts, y + 18


def _numbered(run: Run) -> Sequence[tuple[int, tuple[float, str]]]:
    return list(enumerate(run.acts, 1))
