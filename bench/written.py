"""What `task bench` writes into docs/bench: the table, the chart, and what NATS clients cost beside bare ones."""

from __future__ import annotations

from pathlib import Path

README = Path("docs/bench/README.md")


def write(name: str, text: str, path: Path = README) -> None:
    """Put a text into its place, a code block between two markers.

    Raises:
        ValueError: there is no such place.
    """
    begin, end = f"<!-- {name}: written by `task bench` -->", f"<!-- /{name} -->"
    before, found, rest = path.read_text(encoding="utf-8").partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ValueError(f"{path} has no place for {name!r}: put {begin} and {end} there")
    path.write_text(f"{before}{begin}\n```\n{text.rstrip()}\n```\n{end}{after}", encoding="utf-8")
