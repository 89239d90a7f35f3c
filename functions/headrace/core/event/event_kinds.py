"""The kinds of events that a `receive` has stored lately, and what it tells the operator of new ones.

A kind is a type and a source, in one channel. From what is told the operator makes EventTypes (ADR 067). Producers
choose types and sources, so there may be any number of them: what is remembered, and what is told at once, have bounds.
A kind that is left out is new again with its next event. So is each one when `forget` has been called, since a message
of core NATS may be lost, and an EventType be deleted.

Pure. Written by `headrace.receive` and `headrace.io.jetstream.kind_feed`, read by the operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from headrace.core.event.http_codec import decode_value
from headrace.core.event.nats_codec import Encoded

MOST_KINDS = 10_000
"""Kinds that one process remembers, as numbers: less than a megabyte, whatever the producers choose."""
MOST_TOLD, MOST_TOLD_EACH = 250, 50
"""Kinds that one message tells of, in all, and of one channel."""
LONGEST_TYPE, LONGEST_SOURCE = 256, 512
"""Kinds with longer ones, in the bytes of their headers, are left out: no catalogue shows them."""
MOST_BYTES = 1 << 20
"""A message of core NATS is never larger than by the server's default."""

_DIGITS = 32
_PERSON = b"headrace types"


class EventKind(NamedTuple):
    """A kind of events, and the schema and version of the first event of it."""

    type: str
    source: str
    schema: str
    version: str


class KindNews(NamedTuple):
    """What one message tells.

    Attributes:
        kinds: new ones, by the subject of their channel.
        left_out: how many events had kinds for which there was no room, by subject.
    """

    kinds: Mapping[str, Sequence[EventKind]]
    left_out: Mapping[str, int]


class EventKinds:
    """The kinds of one process.

    Attributes:
        on: are they asked for? If not, the story passes no event on.
        on_news: called with the first new kind since `take`.
    """

    def __init__(self) -> None:
        self.on = False
        self.on_news: Callable[[], None] = lambda: None
        self._seen: set[int] = set()
        self._new: dict[str, list[EventKind]] = {}
        self._told = 0
        self._left_out: dict[str, int] = {}

    def note(self, message: Encoded) -> None:
        """Take notice of an event that is stored now."""
        subject, block, _ = message
        # Two values of a kind don't collide by chance in 64 bits, nor by a producer's will: the hash has a secret.
        rest = block.partition(b"\r\nce-type: ")[2]
        type_ = rest.partition(b"\r")[0]
        source = block.partition(b"\r\nce-source: ")[2].partition(b"\r")[0]
        known = hash((subject, type_, source))
        if known not in self._seen:
            self._add(known, subject, block, type_, source)

    def take(self) -> KindNews:
        """What is new since the last call."""
        news = KindNews(self._new, self._left_out)
        self._new, self._left_out, self._told = {}, {}, 0
        return news

    def ask_for(self, wanted: bool) -> None:
        """Has Knative's flag been set, or taken back?"""
        self.on = wanted
        self.forget()

    def forget(self) -> None:
        """All kinds are new again; those that are not taken yet stay."""
        self._seen.clear()

    def _add(self, known: int, subject: str, block: bytes, type_: bytes, source: bytes) -> None:
        is_first = not self._new and not self._left_out
        told = self._new.get(subject, ())
        is_long = len(type_) > LONGEST_TYPE or len(source) > LONGEST_SOURCE
        if is_long or self._told >= MOST_TOLD or len(told) >= MOST_TOLD_EACH:
            if len(self._left_out) < MOST_TOLD or subject in self._left_out:
                self._left_out[subject] = self._left_out.get(subject, 0) + 1
        elif type_ and source:
            if len(self._seen) >= MOST_KINDS:
                self._seen.clear()
            self._seen.add(known)
            self._new.setdefault(subject, []).append(_kind(block, type_, source))
            self._told += 1
        if is_first:
            self.on_news()


def write(news: KindNews, place: str, key: bytes) -> bytes:
    """The message that tells this.

    Args:
        place: the namespace of the functions that tell it.
        key: the place's (`headrace.core.caller_token.delivery_key`).
    """
    body = json.dumps([news.kinds, news.left_out], ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return _proof(body, place, key) + body


def read(data: bytes, place: str, key: bytes) -> KindNews | None:
    """What a message tells; None for one that has not this key's proof, or tells nothing that can be read."""
    proof, body = data[:_DIGITS], data[_DIGITS:]
    if len(data) > MOST_BYTES or not compare_digest(proof, _proof(body, place, key)):
        return None
    try:
        kinds, left_out = json.loads(body)
        return KindNews(
            {str(subject): [EventKind(*map(str, one)) for one in told] for subject, told in kinds.items()},
            {str(subject): int(count) for subject, count in left_out.items()},
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


def _kind(block: bytes, type_: bytes, source: bytes) -> EventKind:
    schema = _value(block, b"\r\nce-dataschema: ") or _value(block, b"\r\nce-schemaurl: ")
    return EventKind(
        _text(type_),
        _text(source),
        _text(schema) if len(schema) <= LONGEST_SOURCE else "",
        _text(_value(block, b"\r\nce-specversion: ")),
    )


def _value(block: bytes, before: bytes) -> bytes:
    return block.partition(before)[2].partition(b"\r")[0]


def _text(value: bytes) -> str:
    return decode_value(value.decode("ascii"))


def _proof(body: bytes, place: str, key: bytes) -> bytes:
    told = b"%b\n%b" % (place.encode(), body)
    # BLAKE2b with a key is a MAC by itself (RFC 7693).
    return blake2b(told, key=key, digest_size=_DIGITS // 2, person=_PERSON).hexdigest().encode()
