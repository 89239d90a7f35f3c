"""A screen of a terminal as a picture: commands, and what they said. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from bench.pictures import shapes

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "screens"
FACE = "'DejaVu Sans Mono', ui-monospace, Menlo, Consolas, monospace"
SIZE, ROW, EDGE, HEAD = 13, 19, 18, 46
# Sentences are so wide at most; rows of tables are left as they are.
COLUMNS = 126
# Of a letter of a monospaced face to its size.
LETTER = 0.62
BOLD = ' font-weight="600"'
PROMPT, TYPED = "#73bf69", "#ffffff"
_HEADING = re.compile(r"[A-Z][A-Z ]+ {2,}|[A-Z]+$")
_LEVELS = (("PROBLEM", "#f2495c"), ("RISK", "#ff9830"), ("NOTE", "#5794f2"), ("To do:", "#73bf69"))


def file(name: str) -> Path:
    return FOLDER / f"{name}.svg"


def svg(said: Sequence[tuple[str, str]]) -> str:
    """The picture: each command behind a prompt, and the lines as they came, but for those that are too long."""
    lines: list[tuple[str, str]] = []
    for command, text in said:
        lines += [("", "")] if lines else []
        lines += [("$ ", command), *(("", line) for line in _folded(text))]
    width = max(560, max(len(prompt + line) for prompt, line in lines) * SIZE * LETTER + 2 * EDGE)
    parts = [
        f'<circle cx="{EDGE + 6 + 20 * place}" cy="20" r="6" fill="{colour}"/>'
        for place, colour in enumerate(("#f2495c", "#f2cc0c", "#73bf69"))
    ]
    for number, (prompt, line) in enumerate(lines):
        y = HEAD + 8 + number * ROW
        pieces = [(prompt, PROMPT, ""), (line, TYPED, BOLD)] if prompt else _coloured(line)
        words = "".join(f'<tspan fill="{colour}"{more}>{escape(piece)}</tspan>' for piece, colour, more in pieces)
        parts.append(f'<text x="{EDGE}" y="{y}" font-size="{SIZE}" xml:space="preserve">{words}</text>')
    title = "; ".join(command for command, _ in said)
    return shapes.whole(width, HEAD + len(lines) * ROW + 12, title, parts, FACE)


def _folded(text: str) -> Iterator[str]:
    """Lines; a sentence, which is indented, goes on below where it is too long, as far to the right as it began."""
    for line in text.rstrip("\n").expandtabs().split("\n"):
        indented = " " * (len(line) - len(line.lstrip()))
        if len(line) <= COLUMNS or not indented:
            yield line
        else:
            yield from textwrap.wrap(line.lstrip(), COLUMNS, initial_indent=indented, subsequent_indent=indented)


def _coloured(line: str) -> list[tuple[str, str, str]]:
    """Headings of tables are faint, and the words that a finding begins with have its colour."""
    for word, colour in _LEVELS:
        if line.lstrip().startswith(word):
            before, _, after = line.partition(word)
            return [(before, shapes.PLAIN, ""), (word, colour, BOLD), (after, shapes.PLAIN, "")]
    return [(line, shapes.FAINT if _HEADING.match(line) else shapes.PLAIN, "")]
