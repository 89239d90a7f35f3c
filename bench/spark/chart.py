"""The results as a bar chart: hand-made SVG, rows per second, longer is better, with the CPU behind them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from bench.spark.report import Result

WIDTH, LEFT, RIGHT, TOP, STEP, BAR = 820, 170, 280, 62, 34, 22
WITHOUT_SPARK, OURS = "#b8c2cc", "#2f6f9f"


def svg(found: Sequence[Result], facts: Mapping[str, str | int]) -> str:
    scale = (WIDTH - LEFT - RIGHT) / max(one.rows_per_second for one in found)
    title = "Rows per second with Spark (longer is better)"
    parts = [
        _text(16, 24, title, 16),
        _text(
            16,
            42,
            "grey: without Spark, on as many processes; MiB: the most that one Python process has held so far",
            12,
            "#555",
        ),
    ]
    for at, one in enumerate(found):
        y = TOP + at * STEP
        length = max(one.rows_per_second * scale, 1)
        colour = OURS if one.jvm_us else WITHOUT_SPARK
        parts.append(_text(LEFT - 10, y + 16, one.bench, 13, anchor="end"))
        parts.append(f'<rect x="{LEFT}" y="{y}" width="{length:.1f}" height="{BAR}" rx="2" fill="{colour}"/>')
        words = f"{one.rows_per_second:,.0f} ({one.python_us:.1f} µs of Python CPU per row, {one.peak_mib} MiB)"
        parts.append(_text(LEFT + length + 6, y + 16, words, 12))
    height = TOP + len(found) * STEP + 28
    about = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())
    parts.append(_text(16, height - 10, about, 11, "#777"))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="sans-serif" role="img" aria-label="{title}">\n'
        '<rect width="100%" height="100%" fill="#ffffff"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(x: float, y: float, words: str, size: int, colour: str = "#222", anchor: str = "start") -> str:
    style = f'font-size="{size}" fill="{colour}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y}" {style}>{escape(words)}</text>'
