"""The figures of a run, and their places in docs.

A run with `--write` writes the rows of the tests that ran into the document; without it they are only printed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from infra import document_place

DOCS = Path(__file__).resolve().parents[3] / "docs"
# A bar within a cell has a backslash before it.
_BETWEEN_CELLS = re.compile(r"(?<!\\)\|")


class Figures:
    """Tables by name; a row is its cells."""

    def __init__(self) -> None:
        self._heads: dict[str, Sequence[str]] = {}
        self._rows: dict[str, list[Sequence[object]]] = {}

    def row(self, table: str, head: Sequence[str], cells: Sequence[object]) -> None:
        """Add one, and print it at once."""
        assert len(head) == len(cells), f"{table}: {len(head)} columns, {len(cells)} cells"
        assert self._heads.setdefault(table, head) == head, f"{table} has another head"
        self._rows.setdefault(table, []).append(cells)
        print(f"{table}: " + ", ".join(f"{name} {cell}" for name, cell in zip(head, cells, strict=True)))

    def write(self, document: Path) -> None:
        """Into the document, beside the rows of what was not run this time."""
        for name, rows in self._rows.items():
            write(name, together(name, self._heads[name], rows, document), document)


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table, without a line break at its end."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def write(name: str, text: str, document: Path) -> None:
    """Put a text between the marks of this name, which the document has once."""
    document.write_text(document_place.filled(document.read_text(encoding="utf-8"), name, text), encoding="utf-8")


def rows_of(name: str, document: Path) -> dict[str, tuple[object, ...]]:
    """The rows that stand between the marks of this name, by their first cell."""
    table = document_place.content(document.read_text(encoding="utf-8"), name).splitlines()
    lines = [line.strip().removeprefix("|").removesuffix("|") for line in table[2:]]
    cells = [[cell.strip().replace("\\|", "|") for cell in _BETWEEN_CELLS.split(line)] for line in lines if line]
    return {row[0]: tuple(row) for row in cells}


def together(name: str, head: Sequence[str], rows: Sequence[Sequence[object]], document: Path) -> str:
    """The table of this name with these rows in place of theirs; what was not run this time stays as it was."""
    kept = {key: row for key, row in rows_of(name, document).items() if len(row) == len(head)}
    return markdown(head, list({**kept, **{str(row[0]): row for row in rows}}.values()))


def _cell(cell: object) -> str:
    text = f"{cell:.2f}".rstrip("0").rstrip(".") if isinstance(cell, float) else str(cell)
    return text.replace("|", "\\|").replace("\n", " ")
