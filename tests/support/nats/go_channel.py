"""Streams and consumers as the Go channel leaves them on a server, and its dispatcher as far as NATS sees it.

Structured CloudEvents, `KN_SUB_<UID>`, a deliver group of the same name. Events are numbered in their id.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import nats.aio.client
from nats.aio.msg import Msg

from headrace.core.event import nats_codec
from headrace.core.event.event import make_event
from tests.support.functions.reconciling import Hook
from tests.support.waiting import until

STREAM, SUBJECT = "KN_SHOP__ORDERS", "shop.orders._knative"
THEIRS, OURS = "KN_SUB_AAAA1", "KN_SUB_AAAA1_pull"
DELIVER = "shop.orders._knative_consumer.aaaa1"
PUSH = {"deliver_subject": DELIVER, "deliver_group": THEIRS}
RETENTION = {"limits": "Limits", "interest": "Interest", "workqueue": "Work"}


class GoChannel:
    """What the Go channel leaves on a server, and its dispatcher while it runs."""

    def __init__(self, hook: Hook, connection: nats.aio.client.Client) -> None:
        self._hook = hook
        self._connection = connection
        self.published: list[int] = []
        self.acked: set[int] = set()
        self.delivered: Counter[int] = Counter()
        self.busy = True

    async def make(self, retention: str, **consumer: Any) -> None:
        config = {"name": STREAM, "subjects": [SUBJECT], "retention": retention, "storage": "file", "num_replicas": 1}
        await self._hook.api.call(f"STREAM.CREATE.{STREAM}", config)
        await self.consume("all", **consumer)

    async def consume(self, policy: str, **consumer: Any) -> None:
        """Make its consumer, on a stream that is there."""
        durable = {
            "durable_name": THEIRS,
            "name": THEIRS,
            "ack_policy": "explicit",
            "deliver_policy": policy,
            "replay_policy": "instant",
            "ack_wait": 30_000_000_000,
            **consumer,
        }
        body = {"stream_name": STREAM, "config": durable}
        await self._hook.api.call(f"CONSUMER.CREATE.{STREAM}.{THEIRS}", body)

    async def publish(self, count: int, store: Callable[[int], tuple[Mapping[str, str], bytes]] | None = None) -> None:
        """Store so many events, as it does or as `store` says."""
        for _ in range(count):
            number = len(self.published)
            headers, data = (store or as_go)(number)
            ack = await self._connection.jetstream().publish(SUBJECT, data, headers=dict(headers))
            assert ack.stream == STREAM
            self.published.append(number)

    @asynccontextmanager
    async def publishing(
        self, store: Callable[[int], tuple[Mapping[str, str], bytes]] | None = None
    ) -> AsyncIterator[None]:
        """Events flow all the while."""
        self.busy = True
        task = asyncio.create_task(self._flow(store))
        try:
            yield
        finally:
            self.busy = False
            await task

    @asynccontextmanager
    async def dispatching(self, every: int = 1) -> AsyncIterator[None]:
        """Its dispatcher gets messages pushed, and acknowledges one out of so many."""

        async def deliver(message: Msg) -> None:
            number = int(read_by_go(message)["id"])
            self.delivered[number] += 1
            if number % every == 0:
                # Noted first: the dispatcher may be stopped while it waits for the server's word.
                self.acked.add(number)
                await message.ack_sync()

        subscription = await self._connection.subscribe(DELIVER, queue=THEIRS, cb=deliver)
        try:
            await self._connection.flush()
            yield
        finally:
            # What has come is delivered and acknowledged, as it does when it is stopped.
            await subscription.drain()  # type: ignore[no-untyped-call]  # nats-py leaves it untyped

    async def pulled(self, durable: str) -> list[int]:
        """All that our consumer delivers, settled."""
        bound = await self._connection.jetstream().pull_subscribe_bind(durable, STREAM)
        found: list[int] = []
        async with asyncio.timeout(60):
            while await self._left(durable):
                for message in await bound.fetch(50, timeout=10):
                    found.append(int(read_by_go(message)["id"]))
                    await message.ack_sync()
        return found

    async def unbound(self, durable: str = THEIRS) -> None:
        """Wait until the server has noticed that no dispatcher is there any more."""

        async def idle() -> bool:
            info = await self._hook.api.call(f"CONSUMER.INFO.{STREAM}.{durable}")
            return not info.get("push_bound")

        await until("the dispatcher is gone", idle, 30)

    async def _left(self, durable: str) -> int:
        info = await self._hook.api.call(f"CONSUMER.INFO.{STREAM}.{durable}")
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def _flow(self, store: Callable[[int], tuple[Mapping[str, str], bytes]] | None) -> None:
        while self.busy:
            await self.publish(1, store)


def as_go(number: int) -> tuple[Mapping[str, str], bytes]:
    """An event as it stores it."""
    event = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", "data": number}
    return {"Nats-Msg-Id": str(number)}, json.dumps(event).encode()


def as_ours(number: int) -> tuple[Mapping[str, str], bytes]:
    """An event as `receive` stores it."""
    attributes = {"specversion": "1.0", "id": str(number), "source": "/s", "type": "t", "datacontenttype": "text/plain"}
    message = nats_codec.to_binary(make_event(attributes, b"%d" % number), SUBJECT)
    return message.headers, message.data


def read_by_go(message: Msg) -> dict[str, str]:
    """The attributes that it reads from a stored message: header names count to the letter, values are as they stand.

    Raises:
        ValueError, KeyError: it is no event to it.
    """
    headers = message.headers or {}
    if not headers.get("ce-specversion"):
        body = json.loads(message.data)
        return {name: body[name] for name in ("specversion", "id", "source", "type")}
    found = {name.removeprefix("ce-"): value for name, value in headers.items() if name.startswith("ce-")}
    if "content-type" in headers:
        found["datacontenttype"] = headers["content-type"]
    return found
