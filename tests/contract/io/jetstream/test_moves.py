"""A client that moves to another connection, while the old one lives on a little: nothing comes twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from itertools import count

import pytest

from headrace.core.event.nats_codec import NatsMessage, encoded
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.jetstream import Message
from headrace.core.nats.pull_status import PullEnd
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.jetstream.pull import PullInbox
from headrace.io.nats.client import Client
from tests.support.waiting import until

LONG = timedelta(seconds=20)


class Mover:
    """A client with a pull inbox on a stream, a question that stays open, and another client that publishes."""

    def __init__(self, client: Client, other: Client) -> None:
        self.client = client
        self.other = JetStream(other, JetStreamApi(other))
        self.got: list[tuple[int, int]] = []
        self.ends: list[PullEnd] = []
        self.moved: list[bool] = []
        self.inbox: PullInbox
        self._serials = count(1)

    async def begin(self) -> None:
        api = JetStreamApi(self.client)
        await api.call("STREAM.CREATE.S", {"name": "S", "subjects": ["a.b"], "storage": "memory"})
        consumer = {"name": "C", "durable_name": "C", "ack_policy": "explicit"}
        await api.call("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": consumer})
        self.client.on_disconnect.append(lambda: self.moved.append(True))
        self.inbox = await JetStream(self.client, api).pull_inbox("S", "C", self._take, self.ends.append)
        await self.client.subscribe("deaf", lambda _: None)
        await self.client.flush(5)

    def _take(self, message: Message) -> None:
        self.got.append((message.sequence, message.delivered))

    async def publish(self, number: int) -> None:
        for _ in range(number):
            event = NatsMessage("a.b", {"Nats-Msg-Id": str(next(self._serials))}, b"x")
            await self.other.publish(encoded(event), 5)

    async def move(self) -> None:
        """The way out of a lame duck and of a silent server; where the name stands for one server, to that one."""
        self.client._upkeep.leave()
        await until("it has moved", lambda: bool(self.moved))


@pytest.fixture
async def mover(nats_server) -> AsyncIterator[Mover]:
    # A name, and no address: it may stand for several servers, so it is dialled again.
    clients = [Client(NatsSettings(url=f"nats://localhost:{nats_server.port}")) for _ in range(2)]
    mover = Mover(*clients)
    try:
        for client in clients:
            await client.ready(10)
        await mover.begin()
        yield mover
        await mover.inbox.close()
    finally:
        for client in clients:
            await client.close()


@asynccontextmanager
async def open_question(client: Client) -> AsyncIterator[None]:
    """The old connection lives as long as one of its questions may be answered."""
    asked = asyncio.create_task(client.request("deaf", timeout=5))
    await asyncio.sleep(0.05)
    yield
    assert not asked.done()
    asked.cancel()


async def test_a_message_that_is_pulled_after_a_move_comes_once(mover):
    async with open_question(mover.client):
        await mover.move()
        await mover.inbox.pull(10, LONG, 0)
        await mover.publish(5)
        await asyncio.sleep(0.3)
        assert mover.got == [(number, 1) for number in range(1, 6)]
        assert mover.ends == []
        await mover.publish(5)
        await until("it is filled", lambda: mover.ends == [PullEnd.FILLED])
    assert mover.got == [(number, 1) for number in range(1, 11)]


async def test_a_message_that_is_on_its_way_over_the_old_connection_at_a_move_comes_once(mover):
    await mover.inbox.pull(10, LONG, 0)
    await mover.client.flush(5)
    async with open_question(mover.client):
        transport = mover.client._upkeep.link._transport
        transport.pause_reading()
        await mover.publish(5)
        await mover.move()
        assert (mover.got, mover.ends) == ([], [PullEnd.BROKEN])
        await mover.inbox.pull(10, LONG, 0)
        await mover.publish(5)
        await until("what was pulled over the new one came", lambda: len(mover.got) == 5)
        transport.resume_reading()
        await until("what was on its way came", lambda: len(mover.got) == 10)
        await asyncio.sleep(0.2)
    assert sorted(mover.got) == [(number, 1) for number in range(1, 11)]
