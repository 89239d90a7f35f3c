"""The header block of a NATS message, to and from bytes.

A block is `NATS/1.0`, perhaps a status and its description on the same line, then `name: value` lines, then an empty
line. Reading forgives everything: the server checks no block that it stores, so one that is faulty would otherwise
break the connection again at each redelivery. Writing forgives nothing: a line break in a value would be a header more.
"""

from __future__ import annotations

import re
from collections.abc import ItemsView, Iterator, Mapping

from headrace.core.errors import Refused

VERSION = b"NATS/1.0"
PLAIN_START = b"NATS/1.0\r\n"

# Names that we send all the time need no look at their characters.
_KNOWN = frozenset(
    {
        "Nats-Msg-Id",
        "content-type",
        "ce-specversion",
        "ce-id",
        "ce-source",
        "ce-type",
        "ce-subject",
        "ce-time",
        "ce-dataschema",
        "ce-partitionkey",
        "traceparent",
        "tracestate",
    }
)


# What ends a line for some reader, or the text that it is in.
_ENDS = re.compile("[\r\n\0]")
# Characters of a stranger's header name in a message.
_SHOWN = 60

_LOWER = {name: name.lower() for name in _KNOWN}


class Headers(Mapping[str, str]):
    """A received block as a mapping, names in lower case; read at the first look, which few messages but events get.

    Of a name that comes twice the first value counts. Bytes that are not UTF-8 come as surrogate escapes.

    Attributes:
        block: as it came.
    """

    __slots__ = ("_values", "block")

    block: bytes
    # Not there before the first look; so a new one is made without a call to Python code.
    _values: dict[str, str]

    def __init__(self, block: bytes) -> None:
        self.block = block

    def __getitem__(self, name: str) -> str:
        return self._parsed()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parsed())

    def __len__(self) -> int:
        return len(self._parsed())

    def items(self) -> ItemsView[str, str]:
        return self._parsed().items()

    def __repr__(self) -> str:
        return f"Headers({self._parsed()!r})"

    def _parsed(self) -> dict[str, str]:
        try:
            return self._values
        except AttributeError:
            self._values = _values(self.block)
            return self._values


NO_HEADERS = Headers(b"")


def pairs(block: bytes) -> Iterator[tuple[str, str]]:
    """Names as they were sent, and values, of every line that has both; nothing for what is no header block."""
    if not block.startswith(VERSION):
        return
    for line in block.decode("utf-8", "surrogateescape").split("\r\n")[1:]:
        name, colon, value = line.partition(":")
        if colon and name:
            yield name, value.strip(" \t")


def _values(block: bytes) -> dict[str, str]:
    values: dict[str, str] = {}
    if block.startswith(VERSION):
        # As `pairs`, written out: this is done for every event.
        for line in block.decode("utf-8", "surrogateescape").split("\r\n")[1:]:
            name, colon, value = line.partition(":")
            if colon and name:
                name = _LOWER.get(name) or name.lower()
                if name not in values:
                    values[name] = value.strip(" \t")
    return values


def status_of(block: bytes) -> tuple[str, str]:
    """Status and description of the first line, as `503` and `No Responders`; both empty in a message from a client."""
    if not block.startswith(VERSION):
        return "", ""
    first = block[len(VERSION) :].split(b"\r\n", 1)[0].decode("utf-8", "surrogateescape").strip(" \t")
    status, _, description = first.partition(" ")
    return status, description.strip(" \t")


def header_block(headers: Mapping[str, str]) -> bytes:
    """The block that carries these headers, names as they are given; surrogate escapes become their bytes again.

    Raises:
        Refused: 400, a name or value that a header line can't carry.
    """
    try:
        lines = "\r\n".join(map(": ".join, headers.items()))
        block = f"NATS/1.0\r\n{lines}\r\n\r\n".encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Refused(f"a header can't be encoded ({error}): send text", status=400) from None
    line_ends = len(headers) + 2
    if (
        block.count(b"\n") != line_ends
        or block.count(b"\r") != line_ends
        or b"\0" in block
        or not _KNOWN.issuperset(headers)
    ):
        _check(headers)
    return block


def can_carry(name: str, value: str) -> bool:
    """Whether `header_block` takes such a header."""
    try:
        value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return _is_legal(name) and not _ENDS.search(value)


def _check(headers: Mapping[str, str]) -> None:
    # Values stay unsaid: what a header holds may be secret, and this goes to logs.
    for name, value in headers.items():
        if not _is_legal(name):
            beginning = f"{name[:_SHOWN]!r}"
            raise Refused(f"header name {beginning} is not legal: use printable ASCII, no colon, no blank", status=400)
        if _ENDS.search(value):
            raise Refused(f"header {name[:_SHOWN]} has a line break or NUL in its value: remove it", status=400)


def _is_legal(name: str) -> bool:
    return bool(name) and name.isascii() and name.isprintable() and ":" not in name and " " not in name
