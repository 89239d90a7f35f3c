"""Stacked bars over time as SVG, made by hand: no chart library in an image that is there to run Spark. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from headrace.core.plural import counted

WIDTH = 900
HEIGHT = 320
LEFT, RIGHT, TOP, BOTTOM = 60, 20, 40, 40
# Colours that print and most eyes tell apart; all further kinds share the last one.
COLOURS = ("#2f6f9f", "#d9a441", "#7a9e5f", "#a3506b", "#6b6fa8", "#999999")
_MOST_LABELS = 8


def stacked_bars(title: str, times: Sequence[str], counts: Mapping[str, Sequence[int]]) -> str:
    """Args:
    times: one per bar, in order.
    counts: per kind, one number per time.
    """
    kinds = _merged(counts)
    totals = [sum(numbers[at] for numbers in kinds.values()) for at in range(len(times))]
    highest = max(totals, default=0) or 1
    step = (WIDTH - LEFT - RIGHT) / max(len(times), 1)
    parts = [_text(LEFT, 24, title, size=16), *_axis(highest)]
    for at, time in enumerate(times):
        parts += _bar(LEFT + at * step, step, [numbers[at] for numbers in kinds.values()], highest)
        if at % max(1, -(-len(times) // _MOST_LABELS)) == 0:
            parts.append(_text(LEFT + at * step, HEIGHT - BOTTOM + 18, time, size=11))
    height = HEIGHT + 20 * len(kinds)
    for at, (kind, colour) in enumerate(zip(kinds, COLOURS, strict=False)):
        y = HEIGHT + 20 * at
        parts.append(f'<rect x="{LEFT}" y="{y - 10}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(LEFT + 20, y, f"{kind} ({sum(kinds[kind])})", size=12))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" role="img" aria-label="{escape(title, quote=True)}">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _merged(counts: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    """The largest kinds by name, and all others as one."""
    ordered = sorted(counts, key=lambda kind: (-sum(counts[kind]), kind))
    most = len(COLOURS)
    kept = ordered if len(ordered) <= most else ordered[: most - 1]
    found = {kind: list(counts[kind]) for kind in kept}
    others = ordered[len(kept) :]
    if others:
        found[counted(len(others), "other")] = [
            sum(column) for column in zip(*(counts[kind] for kind in others), strict=True)
        ]
    return found


def _axis(highest: int) -> list[str]:
    found = []
    for part in (0.0, 0.5, 1.0):
        y = _y(highest * part, highest)
        found.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}" stroke="#dddddd"/>')
        found.append(_text(LEFT - 8, y + 4, f"{highest * part:,.0f}", size=11, anchor="end"))
    return found


def _bar(x: float, step: float, numbers: Sequence[int], highest: int) -> list[str]:
    found, below = [], 0
    for number, colour in zip(numbers, COLOURS, strict=False):
        if number:
            top = _y(below + number, highest)
            height = _y(below, highest) - top
            found.append(
                f'<rect x="{x + step * 0.1:.1f}" y="{top:.1f}" width="{step * 0.8:.1f}" height="{height:.1f}" '
                f'fill="{colour}"/>'
            )
        below += number
    return found


def _y(value: float, highest: int) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / highest


def _text(x: float, y: float, words: str, *, size: int, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="#222" text-anchor="{anchor}">{escape(words)}</text>'
