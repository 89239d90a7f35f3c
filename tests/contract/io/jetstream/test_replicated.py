"""Pulling from a consumer with three replicas, of a real cluster: statuses overtake messages there, and stop nobody."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

from headrace.core.errors import Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.jetstream import ACK, Message
from headrace.core.nats.pull_status import PullEnd
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from tests.faults.processes import Cluster
from tests.support.nats.streams import ApiError, Channel, Nats
from tests.support.waiting import until

EVENTS, WINDOW = 60, 20


async def _replicated(nats: Nats) -> tuple[Channel, str]:
    """A channel with three replicas and its consumer, in a cluster that may still be electing."""
    channel = nats.name_channel()
    for _ in range(10):
        with suppress(ApiError, TimeoutError):
            await nats.make_channel(channel, num_replicas=3)
            return channel, await nats.make_consumer(channel, {})
        await asyncio.sleep(1)
    raise AssertionError("the cluster elected nobody")


async def test_each_pull_of_a_full_window_ends_with_its_last_message_and_is_filled(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    await asyncio.to_thread(cluster.start)
    # Whoever leads the consumer: of three clients two are on other servers.
    clients = [Client(NatsSettings(url=node.url)) for node in cluster.nodes]
    try:
        async with Nats(cluster.nodes[0].url) as nats:
            channel, consumer = await _replicated(nats)
            for client in clients:
                for _ in range(EVENTS):
                    await nats.client.publish(channel.subject, b"{}")
                await nats.client.flush()
                assert await _pulls(client, channel.stream, consumer) == [(WINDOW, PullEnd.FILLED)] * (EVENTS // WINDOW)
    finally:
        for client in clients:
            await client.close()
        await asyncio.to_thread(cluster.kill)


async def _pulls(client: Client, stream: str, consumer: str) -> list[tuple[int, PullEnd]]:
    """How many messages each pull had brought when it ended, and how it ended."""
    jetstream = JetStream(client, JetStreamApi(client))
    messages, ended = list[Message](), list[tuple[int, PullEnd]]()
    inbox = await jetstream.pull_inbox(
        stream, consumer, messages.append, lambda end: ended.append((len(messages), end))
    )
    try:
        for number in range(1, EVENTS // WINDOW + 1):
            messages.clear()
            with suppress(Unavailable):
                await inbox.pull(WINDOW, timedelta(seconds=5), 2**20)
            await until("the pull ended", lambda: len(ended) == number)  # noqa: B023  # within the loop
            for message in messages:
                await jetstream.settle(message, ACK)
        return ended
    finally:
        await inbox.close()
