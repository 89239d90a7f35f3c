"""The condition about wishes beyond the administrator's bounds: it is there only while there is one. Pure.

The channel works all the same: what goes beyond is not obeyed, or only as far as the bound.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.core.conditions import Condition

TYPE, REASON = "WithinBounds", "BeyondBounds"
_SHOWN = 5


def condition(sentences: Iterable[str]) -> Iterator[Condition]:
    """The condition, where there is a sentence."""
    told = list(dict.fromkeys(sentences))
    if told:
        more = [f"and {len(told) - _SHOWN} more"] if len(told) > _SHOWN else []
        yield Condition(TYPE, False, REASON, "; ".join((*told[:_SHOWN], *more)), informative=True)
