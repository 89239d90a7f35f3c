"""A number with its noun, as people say it. Pure."""

from __future__ import annotations


def counted(count: int, one: str, many: str = "") -> str:
    """`1 event`, `3 events`; words may follow the noun, as in `counted(n, "event waits", "events wait")`.

    Args:
        many: for any number but 1; default: `one` with an s.
    """
    return f"{count} {one if count == 1 else many or f'{one}s'}"
