"""When a link writes the bytes that it is told to send; contract tests show what it reads."""

from __future__ import annotations

import asyncio

import pytest

from headrace.io.nats.engine import link as links
from headrace.io.nats.engine.link import Link, Watcher
from headrace.io.nats.engine.routes import Routes


class Transport(asyncio.Transport):
    """Remembers each write."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass


@pytest.fixture
def transport() -> Transport:
    return Transport()


@pytest.fixture
async def link(transport: Transport) -> Link:
    made = Link(Routes(), Watcher(lambda *_: None, lambda *_: None, lambda *_: None))
    made.connection_made(transport)
    return made


async def test_a_frame_after_a_quiet_moment_is_written_at_once(link, transport):
    link.send(b"first")
    assert transport.writes == [b"first"]


async def test_what_follows_it_goes_together_in_its_order_at_the_end_of_the_turn(link, transport):
    for frame in (b"first", b"second", b"third"):
        link.send(frame)
    assert transport.writes == [b"first"]
    await asyncio.sleep(0)
    assert transport.writes == [b"first", b"secondthird"]


async def test_while_frames_come_one_soon_after_the_other_each_waits_for_those_of_its_turn(
    link, transport, monkeypatch
):
    monkeypatch.setattr(links, "QUIET_SECONDS", 3600.0)
    link.burst_began = link.loop.time()
    link.send(b"one")
    link.send(b"two")
    assert transport.writes == []
    await asyncio.sleep(0)
    assert transport.writes == [b"onetwo"]
