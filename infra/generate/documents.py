"""Writes what documents say of the code: settings, metrics, the verbs of the kn plugin, the picture of the house.

`task docs` runs it; a unit test holds the committed documents against it.
"""

from __future__ import annotations

from pathlib import Path

from infra import document_place
from infra.generate import kn_reference, metrics_tables, rooms, settings_tables

DOCS = Path(__file__).resolve().parents[2] / "docs"


def pages() -> dict[Path, str]:
    """Each document as it has to be."""
    contents = {
        **settings_tables.contents(),
        **metrics_tables.contents(),
        **kn_reference.contents(),
        **rooms.contents(),
    }
    found: dict[Path, str] = {}
    for (document, name), text in contents.items():
        path = DOCS / document
        found[path] = document_place.filled(found.get(path) or path.read_text(encoding="utf-8"), name, text)
    return found


def main() -> None:
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
