"""The few shapes of SVG that pictures are made of. Pure."""

from __future__ import annotations

from html import escape

# Of a letter of the sans-serif faces that browsers have, to its size.
LETTER = 0.56

GROUND, PANEL, EDGE, GRID = "#111217", "#181b1f", "#2a2d33", "#2c3036"
BRIGHT, PLAIN, FAINT = "#e6e8ee", "#b4b9c4", "#7c828e"
COLOURS = (
    "#73bf69",
    "#5794f2",
    "#f2cc0c",
    "#ff7383",
    "#b877d9",
    "#ff9830",
    "#5ad3d1",
    "#c4a484",
    "#a0b8e8",
    "#d683ce",
    "#b7db7a",
    "#e0b400",
)


def text(x: float, y: float, words: str, *, size: float = 12, colour: str = PLAIN, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{colour}"{more}>{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float, fill: str, more: str = "") -> str:
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"{more}/>'


def line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{more}/>'


def wide(words: str, size: float) -> float:
    """About how much room words take."""
    return len(words) * size * LETTER


def cut(words: str, room: float, size: float) -> str:
    """As much of it as has room."""
    most = int(room / (size * LETTER))
    return words if len(words) <= most else words[: max(1, most - 1)] + "…"


def whole(width: float, height: float, title: str, parts: list[str], face: str) -> str:
    """The file."""
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{face}" role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([opening, box(0, 0, width, height, GROUND, ' rx="8"'), *parts, "</svg>", ""])
