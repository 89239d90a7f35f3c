"""The tokens of one lease: which POSTs show them, and what a 401 says of one.

The operator makes tokens, and hands them to `forward` in the request for a lease: they are in memory and on that
connection, and nowhere else. So nothing here shows one in its repr, and no error quotes one (ADR 065). Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import InvalidSpec
from headrace.core.http import Headers
from headrace.core.quoting import quoted

MEMBER = "tokens"
"""The member of a lease's request that holds them."""
MOST, LONGEST = 3, 16 * 1024
"""An entry has three addresses; the tokens of an API server have one or two kilobytes."""
FRESH_SECONDS = 60.0
"""A token that was made within this time before it is refused would not be bettered by a new one."""
HEADER = b"authorization"
_LONGEST_AGE = 1e9
# The first part of a token is the same for all of an issuer; so few bytes of it tell nothing.
_TELLING = 16
_ASCII = range(0x21, 0x7F)


@dataclass(frozen=True, slots=True)
class Bearer:
    """A token for one audience.

    Attributes:
        age: how many seconds ago it was made, when it was handed over.
    """

    text: str = field(repr=False)
    age: float = 0.0

    @property
    def mark(self) -> str:
        """A name for the token, from which nobody learns it."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]


Bearers = Mapping[str, Bearer]
"""Tokens by audience."""


def to_json(bearers: Bearers) -> dict[str, Any]:
    return {audience: {"token": one.text, "age": one.age} for audience, one in bearers.items()}


def from_json(value: object) -> Bearers:
    """Read that member of a request.

    Raises:
        InvalidSpec: it is not of this form; the error quotes no token.
    """
    if not isinstance(value, dict) or len(value) > MOST:
        raise InvalidSpec(f"{MEMBER} is no object of at most {MOST} audiences with a token each", field=MEMBER)
    return {audience: _read(audience, one) for audience, one in value.items()}


def is_token(text: object) -> bool:
    """May it stand in a header?"""
    return isinstance(text, str) and 0 < len(text) <= LONGEST and all(ord(char) in _ASCII for char in text)


def hidden(text: bytes, bearers: Bearers) -> bytes:
    """An answer without the tokens that it may repeat: a server may echo what it gets."""
    for one in bearers.values():
        token = one.text.encode()
        text = text.replace(token, b"***")
        # Only the beginning of a long answer is kept, and whoever has nearly all of a token can guess the rest.
        at = text.rfind(token[:_TELLING])
        if at >= 0 and token.startswith(text[at:]):
            text = text[:at] + b"***"
    return text


def _read(audience: str, one: object) -> Bearer:
    match one:
        case {"token": str(text), "age": int() | float() as age} if is_token(text) and 0 <= age < float("inf"):
            # `min` comes first: an integer of JSON may be larger than any float.
            return Bearer(text, float(min(age, _LONGEST_AGE)))
        case _:
            raise InvalidSpec(f"{MEMBER} has no token and age for the audience {quoted(audience)}", field=MEMBER)


class Shown:
    """The tokens as one lease shows them.

    Attributes:
        outdated: audiences whose token was refused though it was not fresh: the lease ends, the next has others.
    """

    def __init__(
        self,
        bearers: Bearers | None = None,
        monotonic: Callable[[], float] = lambda: 0.0,
        on_outdated: Callable[[], None] = lambda: None,
    ) -> None:
        """Args:
        on_outdated: called with the first token that is outdated.
        """
        self._bearers = bearers or {}
        self._monotonic = monotonic
        self._began = monotonic()
        self._on_outdated = on_outdated
        self.outdated: set[str] = set()

    def headers(self, to: Destination) -> Headers:
        """The header of a POST to an address; none for one without an audience."""
        one = self._of(to)
        return ((HEADER, b"Bearer " + one.text.encode()),) if one is not None else ()

    def mark(self, to: Destination) -> str:
        """The name of the token for an address; empty where it needs none."""
        one = self._of(to)
        return one.mark if one is not None else ""

    def refused(self, to: Destination) -> bool:
        """Note that an address answered 401; was that for a token that is not fresh?"""
        one = self._of(to)
        if one is None or not to.audience or one.age + self._monotonic() - self._began < FRESH_SECONDS:
            return False
        self._give_up(to.audience)
        return True

    def hidden(self, body: bytes) -> bytes:
        """An answer without the tokens that it may repeat."""
        return hidden(body, self._bearers)

    def withheld(self, to: Destination, outdated: str) -> bool:
        """Is nothing to be sent to an address by this lease, since it has no better token than a refused one?

        Args:
            outdated: the name of the token that was refused with this event.
        """
        if to.audience and outdated and outdated == self.mark(to):
            self._give_up(to.audience)
        return to.audience in self.outdated

    def _give_up(self, audience: str) -> None:
        self.outdated.add(audience)
        self._on_outdated()

    def _of(self, to: Destination) -> Bearer | None:
        return self._bearers.get(to.audience) if to.audience else None
