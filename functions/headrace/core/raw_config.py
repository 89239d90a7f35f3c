"""Comparing and changing a server's raw configuration without losing the settings that we don't know.

Knows JSON values only. Called to bring an existing stream or consumer to its wanted form: only the keys that we set are
compared, and all others are sent back as they came, so that settings of newer servers survive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Config = Mapping[str, Any]

# The server leaves out a key whose value is empty or zero.
_EMPTY: tuple[Any, ...] = (None, "", 0, False, [], {})


def differs(observed: Any, wanted: Any) -> bool:
    """Whether `observed` differs from `wanted` in anything that `wanted` has."""
    if isinstance(wanted, Mapping):
        keys: Config = observed if isinstance(observed, Mapping) else {}
        return any(differs(keys.get(key), value) for key, value in wanted.items())
    if wanted in _EMPTY:
        return observed not in _EMPTY
    if isinstance(wanted, list):
        return (
            not isinstance(observed, list)
            or len(observed) != len(wanted)
            or any(differs(*pair) for pair in zip(observed, wanted, strict=True))
        )
    return bool(observed != wanted)


def merged(observed: Config, wanted: Config) -> dict[str, Any]:
    """`observed` with everything in `wanted`: objects inside are merged likewise, lists are replaced."""
    result = dict(observed)
    for key, value in wanted.items():
        before = result.get(key)
        both = isinstance(value, Mapping) and isinstance(before, Mapping)
        result[key] = merged(before, value) if both and before is not None else value
    return result
