"""A scaler at work on a real nats-server, with a stand-in for `forward` that records the leases it is asked for.

The stand-in pulls nothing: stored events stay pending, and the test decides each answer. The fixtures are in
`tests.support.functions.scaled`.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace_operator.scaling.scaler import Scaler
from tests.support.http.subscriber import Place, Received, Say
from tests.support.nats.streams import METADATA_KEY, Channel, Nats, metadata
from tests.support.waiting import until

NEVER = 3_600.0
TOKEN = "the-shared-token"


def ended(delay: float = 0.0, **answer: Any) -> Say:
    """The answer of a lease that lasted that long."""
    body = {"pending": 0, "ack_pending": 0, "next_due_seconds": None, **answer}
    return Say(200, {"content-type": "application/json"}, json.dumps(body).encode(), delay)


def leases(forward: Place) -> list[dict[str, Any]]:
    return [json.loads(request.body) for request in forward.received]


async def none_within(forward: Place, seconds: float, *, after: int = 0) -> None:
    await asyncio.sleep(seconds)
    assert len(forward.received) == after


@dataclass
class Running:
    """A scaler at work, and what it has told."""

    scaler: Scaler
    task: asyncio.Task[None]
    missing: list[str] = field(default_factory=list)
    troubled: list[str] = field(default_factory=list)

    async def told_of_trouble(self, stream: str, times: int) -> None:
        await until("it is told of", lambda: len(self.troubled) >= times)
        assert self.troubled == [stream] * times

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])


Scale = Callable[..., Any]


async def settled(running: Running, channels: tuple[Channel, ...]) -> None:
    """Hints are heard, and consumers have been looked at: what a scaler needs a moment for."""
    for channel in channels:
        await running.scaler.refresh(channel.stream)
    await asyncio.sleep(0.2)
    assert not running.task.done()


async def subscribed(nats: Nats, **subscriber: Any) -> tuple[Channel, str]:
    """A channel with one consumer of ours."""
    channel = await nats.make_channel()
    return channel, await nats.make_consumer(channel, {METADATA_KEY: json.dumps(metadata(channel, **subscriber))})


async def store(nats: Nats, channel: Channel, count: int) -> None:
    for _ in range(count):
        await nats.store(channel.subject, b"{}")


async def hint(nats: Nats, channel: Channel) -> None:
    await nats.client.publish(f"headrace.wake.{channel.stream}")
    await nats.client.flush()


async def pull(nats: Nats, channel: Channel, durable: str, count: int) -> list[Any]:
    """What a lease that died has taken: pulled, and never settled."""
    context = nats.client.jetstream()
    subscription = await context.pull_subscribe_bind(durable, channel.stream)
    return await subscription.fetch(count)


def gaps(requests: list[Received]) -> list[float]:
    """Seconds between one request and the next."""
    return [later.at - earlier.at for earlier, later in itertools.pairwise(requests)]
