"""The results as a bar chart: hand-made SVG, CPU per event, shorter is better. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from bench.report import Result

WIDTH = 760
LEFT = 170
RIGHT = 110
TOP = 56
BAR = 22
GAP = 14
FLOOR, OURS, THEIRS = "#b8c2cc", "#2f6f9f", "#d9a441"


# Starts cost that much each: beside them no event would have a bar that can be seen.
MOST_MICROSECONDS = 1_000


def svg(results: Sequence[Result], facts: Mapping[str, str | int]) -> str:
    """One bar per row of events, and a second, thinner one where the Go channel's figure is known."""
    found = [result for result in results if result.cpu_us_per_event < MOST_MICROSECONDS]
    longest = max(max(result.cpu_us_per_event, result.go_channel_cpu_us_per_event or 0.0) for result in found)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts: list[str] = []
    y = TOP
    for result in found:
        colour = OURS if result.floor else FLOOR
        parts.append(_text(LEFT - 10, y + 16, result.bench, anchor="end"))
        parts.append(_bar(y, BAR, result.cpu_us_per_event * scale, colour, f"{result.cpu_us_per_event:.1f} µs"))
        y += BAR
        if result.go_channel_cpu_us_per_event is not None:
            theirs = result.go_channel_cpu_us_per_event
            parts.append(_bar(y + 2, BAR // 2, theirs * scale, THEIRS, f"{theirs:.1f} µs"))
            y += BAR // 2 + 2
        y += GAP
    about = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
    legend = "grey: floor; blue: headrace; yellow: Go channel, measured elsewhere on a machine like this one"
    return _framed("CPU per event (shorter is better)", legend, about, parts, y)


def rates(title: str, legend: str, about: str, found: Sequence[tuple[str, float, str]]) -> str:
    """One bar for each name, with its events per second and its colour."""
    scale = (WIDTH - LEFT - RIGHT) / max(rate for _, rate, _ in found)
    parts: list[str] = []
    y = TOP
    for name, rate, colour in found:
        parts.append(_text(LEFT - 10, y + 16, name, anchor="end"))
        parts.append(_bar(y, BAR, rate * scale, colour, f"{rate:,.0f}"))
        y += BAR + GAP
    return _framed(title, legend, about, parts, y)


def _framed(title: str, legend: str, about: str, parts: Sequence[str], y: float) -> str:
    head = [_text(16, 24, title, size=16), _text(16, 42, legend, colour="#555")]
    foot = [_text(16, y + 12, about, size=11, colour="#777")]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y + 26}" '
        f'viewBox="0 0 {WIDTH} {y + 26}" font-family="sans-serif" role="img" aria-label="{title}">\n'
        f'<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join([*head, *parts, *foot]) + "\n</svg>\n"
    )


def _bar(y: int, height: int, length: float, colour: str, label: str) -> str:
    size = 13 if height >= BAR else 11
    return f'<rect x="{LEFT}" y="{y}" width="{max(length, 1):.1f}" height="{height}" rx="2" fill="{colour}"/>' + _text(
        LEFT + length + 6, y + height - (6 if height >= BAR else 2), label, size=size
    )


def _text(x: float, y: float, words: str, *, size: int = 13, colour: str = "#222", anchor: str = "start") -> str:
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(words)}</text>'
