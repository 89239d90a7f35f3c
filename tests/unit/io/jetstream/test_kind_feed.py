"""The feed of new kinds: one message for many, none while there is nothing new, each kind again after a while."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.errors import Unavailable
from headrace.core.event import event_kinds
from headrace.core.event.event_kinds import EventKinds, KindNews
from headrace.core.event.nats_codec import Encoded
from headrace.io.jetstream import kind_feed
from headrace.io.jetstream.kind_feed import KindFeed

KEY = b"the key of this place"
SECONDS = 0.02


def event(type_: str) -> Encoded:
    return Encoded("shop.orders._knative", f"NATS/1.0\r\nce-type: {type_}\r\nce-source: /s\r\n\r\n".encode(), b"")


class Wire:
    def __init__(self) -> None:
        self.kinds = EventKinds()
        self.heard: list[tuple[str, KindNews | None]] = []
        self.is_up = True
        KindFeed(self.kinds, self.send, "shop", KEY, SECONDS)

    async def send(self, subject: str, data: bytes) -> None:
        if not self.is_up:
            raise Unavailable("away")
        self.heard.append((subject, event_kinds.read(data, "shop", KEY)))

    def types(self) -> list[list[str]]:
        return [[one.type for one in news.kinds["shop.orders._knative"]] for _, news in self.heard if news is not None]


async def test_the_kinds_of_a_while_go_out_together_with_the_places_proof() -> None:
    wire = Wire()
    for type_ in ("a", "b", "a"):
        wire.kinds.note(event(type_))
    assert wire.heard == []
    await asyncio.sleep(3 * SECONDS)
    wire.kinds.note(event("a"))
    wire.kinds.note(event("c"))
    await asyncio.sleep(3 * SECONDS)
    assert [subject for subject, _ in wire.heard] == ["headrace.types.shop"] * 2
    assert wire.types() == [["a", "b"], ["c"]]


async def test_while_nothing_is_new_nothing_is_sent_and_nothing_planned() -> None:
    wire = Wire()
    assert len(asyncio.all_tasks()) == 1
    wire.kinds.note(event("a"))
    await asyncio.sleep(3 * SECONDS)
    for _ in range(5):
        wire.kinds.note(event("a"))
        await asyncio.sleep(SECONDS)
    assert wire.types() == [["a"]]
    assert len(asyncio.all_tasks()) == 1


async def test_a_message_that_was_lost_is_made_up_for_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind_feed, "FORGET_SECONDS", 5 * SECONDS)
    wire = Wire()
    wire.is_up = False
    wire.kinds.note(event("a"))
    await asyncio.sleep(2 * SECONDS)
    wire.is_up = True
    await asyncio.sleep(5 * SECONDS)
    wire.kinds.note(event("a"))
    await asyncio.sleep(3 * SECONDS)
    assert wire.types() == [["a"]]
