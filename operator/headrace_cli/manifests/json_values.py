"""What YAML can say and JSON can't: it is found before it is on its way to `reconcile`.

This module knows values, no files and no kinds. `headrace_cli.manifests.documents` calls it for every document.
"""

from __future__ import annotations

import math

from headrace.core.errors import InvalidSpec

# Python's own recursions (copy, JSON) end near 300 levels; no object of Kubernetes comes near this.
DEEPEST = 100
# Values are counted with aliases written out: a few lines of YAML can stand for more than fits into memory.
MOST_VALUES = 1_000_000
# The wider of the two kinds of integer that Kubernetes reads.
WIDEST_BITS = 64


def check(body: object) -> None:
    """Raises InvalidSpec when a value can't be written as JSON; `field` and the message have its path."""
    _Walk().visit(body, "", ())


class _Walk:
    def __init__(self) -> None:
        self._left = MOST_VALUES

    def visit(self, value: object, path: str, above: tuple[int, ...]) -> None:
        """Look at one value and all below it; `above` are the ids of the containers that it is in."""
        self._left -= 1
        if self._left < 0:
            problem = f"stands for more than {MOST_VALUES:,} values, its aliases written out: split the document"
            raise _fault(path.split(".")[0], problem)
        if not isinstance(value, dict | list):
            _check_scalar(value, path)
            return
        if id(value) in above:
            raise _fault(path, "is an alias to something that it is in itself: write out what is meant")
        if len(above) == DEEPEST:
            raise _fault(path, f"is {DEEPEST} levels deep: nothing that is served is as deep as that")
        within = (*above, id(value))
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.visit(item, f"{path}[{index}]", within)
            return
        for key, item in value.items():
            _check_key(key, path)
            self.visit(item, f"{path}.{key}" if path else str(key), within)


def _check_scalar(value: object, path: str) -> None:
    match value:
        case str():
            _check_text(value, path, "is")
        case None | bool():
            pass
        case int():
            if value.bit_length() > WIDEST_BITS:
                raise _fault(path, f"is a number of {value.bit_length()} bits: give one of {WIDEST_BITS} at most")
        case float():
            if not math.isfinite(value):
                raise _fault(path, f"is {value}, which JSON can't hold: give a finite number")
        case _:
            raise _fault(path, f"is a {type(value).__name__}, {_cut(value)}, which JSON can't hold: write it as text")


def _check_key(key: object, path: str) -> None:
    if isinstance(key, str):
        _check_text(key, path, "has the key")
    elif not isinstance(key, int) or key.bit_length() > WIDEST_BITS:
        raise _fault(path, f"has a key that is a {type(key).__name__}, {_cut(key)}: write it as text")


def _check_text(text: str, path: str, verb: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _fault(path, f"{verb} {_cut(text)}, which holds half a character: write the whole one") from None


def _cut(value: object) -> str:
    # Python refuses to write a large integer in decimal digits.
    text = f"{value:#x}" if isinstance(value, int) else ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"


def _fault(path: str, problem: str) -> InvalidSpec:
    return InvalidSpec(f"{path or 'it'} {problem}", field=path or "-f")
