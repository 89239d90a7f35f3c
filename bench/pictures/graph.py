"""One graph of a dashboard: axes, acts of the run, lines or stacked areas, and the legend below. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from bench.pictures import scale, shapes
from bench.pictures.values import STEP, Lines, Points

ROW = 16
SMALL = 11
# So many rows of the legend at most.
ROWS = 3


@dataclass(frozen=True)
class Frame:
    """Where the plot is, and what it spans: seconds of the run to the right, values upwards."""

    left: float
    top: float
    right: float
    bottom: float
    seconds: float
    most: float

    def x(self, second: float) -> float:
        return self.left + (self.right - self.left) * second / self.seconds

    def y(self, value: float) -> float:
        return self.bottom - (self.bottom - self.top) * min(value, self.most) / self.most


def graph(
    place: tuple[float, float, float, float],
    panel: Mapping[str, Any],
    lines: Lines,
    seconds: float,
    acts: Sequence[tuple[float, str]],
) -> list[str]:
    """The inside of a panel, its title left to the caller.

    Args:
        place: left, top, width, height.
        lines: legend and points, by second of the run.
    """
    left, top, width, height = place
    unit = panel["fieldConfig"]["defaults"].get("unit", "short")
    stacked = "stacking" in panel["fieldConfig"]["defaults"].get("custom", {})
    shown = [(legend, points) for legend, points in lines if points]
    if not shown:
        return [shapes.text(left + width / 2, top + height / 2, "No data", size=14, colour=shapes.FAINT, more=MIDDLE)]
    legend, rows = _legend([name for name, _ in shown], left + 12, top + height, width - 24)
    drawn = _stacked(shown) if stacked else shown
    marks = scale.ticks(max(value for _, points in drawn for _, value in points), unit=unit)
    frame = Frame(left + 70, top + 10, left + width - 14, top + height - rows * ROW - 32, seconds, marks[-1])
    parts = _axes(frame, marks, unit, acts)
    if stacked:
        parts += [_area(frame, points, _colour(place)) for place, (_, points) in reversed(list(enumerate(drawn)))]
    else:
        parts += [part for place, (_, points) in enumerate(drawn) for part in _line(frame, points, _colour(place))]
    return parts + legend


MIDDLE, END = ' text-anchor="middle"', ' text-anchor="end"'


def _colour(place: int) -> str:
    return shapes.COLOURS[place % len(shapes.COLOURS)]


def _axes(frame: Frame, marks: Sequence[float], unit: str, acts: Sequence[tuple[float, str]]) -> list[str]:
    parts = []
    for mark in marks:
        y = frame.y(mark)
        words = scale.worded(mark, unit, marks[-1])
        parts.append(shapes.line(frame.left, y, frame.right, y, shapes.GRID))
        parts.append(shapes.text(frame.left - 8, y + 4, words, size=SMALL, colour=shapes.FAINT, more=END))
    for second in range(0, int(frame.seconds) + 1, 60):
        words = f"{second // 60}:00"
        parts.append(shapes.line(frame.x(second), frame.top, frame.x(second), frame.bottom, shapes.GRID))
        more = MIDDLE if second < frame.seconds else END
        parts.append(shapes.text(frame.x(second), frame.bottom + 16, words, size=SMALL, colour=shapes.FAINT, more=more))
    for number, (at, _) in enumerate(acts, 1):
        x = frame.x(at)
        parts.append(shapes.line(x, frame.top, x, frame.bottom, "#8ab8ff", ' stroke-dasharray="3 4" opacity="0.45"'))
        parts.append(shapes.text(x, frame.top - 1, str(number), size=9, colour="#8ab8ff", more=MIDDLE))
    return parts


def _line(frame: Frame, points: Points, colour: str) -> list[str]:
    """A line with a faint area below; where points are missing it is interrupted."""
    parts = []
    for piece in pieces(points):
        path = along([(frame.x(second), frame.y(value)) for second, value in piece])
        if len(piece) == 1:
            second, value = piece[0]
            parts.append(f'<circle cx="{frame.x(second):.1f}" cy="{frame.y(value):.1f}" r="2" fill="{colour}"/>')
            continue
        ground = f"L{frame.x(piece[-1][0]):.1f} {frame.bottom:.1f} L{frame.x(piece[0][0]):.1f} {frame.bottom:.1f}Z"
        parts.append(f'<path d="M{path} {ground}" fill="{colour}" opacity="0.08"/>')
        parts.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-linejoin="round"/>')
    return parts


def _area(frame: Frame, points: Points, colour: str) -> str:
    """From the ground up: those that are stacked are drawn from the highest to the lowest."""
    path = along([(frame.x(second), frame.y(value)) for second, value in points])
    ground = f"L{frame.x(points[-1][0]):.1f} {frame.bottom:.1f} L{frame.x(points[0][0]):.1f} {frame.bottom:.1f}Z"
    shape = (
        f'<path d="M{path} {ground}" fill="{shapes.PANEL}"/><path d="M{path} {ground}" fill="{colour}" opacity="0.3"/>'
    )
    return shape + f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _stacked(lines: Lines) -> Lines:
    seconds = sorted({second for _, points in lines for second, _ in points})
    below = dict.fromkeys(seconds, 0.0)
    found = []
    for legend, points in lines:
        own = dict(points)
        below = {second: under + own.get(second, 0.0) for second, under in below.items()}
        found.append((legend, list(below.items())))
    return found


def pieces(points: Points) -> list[list[tuple[float, float]]]:
    """Points that follow one another without a gap."""
    found = [[points[0]]]
    for (before, _), point in pairwise(points):
        if point[0] - before > 1.5 * STEP:
            found.append([])
        found[-1].append(point)
    return found


def along(at: Sequence[tuple[float, float]]) -> str:
    """The path through these; what lies between two of the same height is left out."""
    worded = [(f"{x:.1f}", f"{y:.1f}") for x, y in at]
    kept = [
        point
        for place, point in enumerate(worded)
        if place in (0, len(worded) - 1) or not worded[place - 1][1] == point[1] == worded[place + 1][1]
    ]
    return " L".join(f"{x} {y}" for x, y in kept)


def _legend(names: Sequence[str], left: float, bottom: float, room: float) -> tuple[list[str], int]:
    """Names behind dots, in as many rows as they need; and how many those are."""
    rows: list[list[tuple[float, int, str]]] = [[]]
    x = 0.0
    for number, name in enumerate(names):
        words = shapes.cut(name, room - 20, SMALL)
        needed = 34 + shapes.wide(words, SMALL)
        if rows[-1] and x + needed > room:
            rows.append([])
            x = 0.0
        rows[-1].append((x, number, words))
        x += needed
    shown = rows[:ROWS]
    parts = []
    for place, row in enumerate(shown):
        y = bottom - 12 - ROW * (len(shown) - 1 - place)
        for x, number, words in row:
            parts.append(shapes.box(left + x, y - 6, 12, 4, _colour(number), ' rx="2"'))
            parts.append(shapes.text(left + x + 18, y, words, size=SMALL))
    return parts, len(shown)
