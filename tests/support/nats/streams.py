"""Streams, aside streams and consumers made by raw API calls, and their contents.

Subjects, header names and the consumer's metadata are written out instead of taken from the code under test, since
other programs see them. The module has a client of its own, plain nats-py.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import aiohttp
import nats
from nats.aio.client import Client

from tests.support.functions.functions import TOKEN

METADATA_KEY = "headrace.dev/subscriber"
NANOSECONDS = 1_000_000_000
DATA = b'{"n": 1}'
OUTCOMES = ("delivered", "retried", "dead_lettered", "parked", "returned", "stuck", "unsettled")


class Serving(Protocol):
    """A function at work, in whatever process."""

    @property
    def url(self) -> str: ...


class ApiError(Exception):
    """JetStream said no."""


@dataclass(frozen=True)
class Stored:
    """One message in a stream; header names as stored."""

    subject: str
    sequence: int
    headers: dict[str, str]
    data: bytes


@dataclass(frozen=True)
class Channel:
    """A channel's names, as the grammar gives them for a plain name."""

    namespace: str
    name: str

    @property
    def stream(self) -> str:
        return f"KN_{self.namespace}__{self.name}".replace("-", "_").upper()

    @property
    def aside(self) -> str:
        return f"{self.stream}_aside"

    @property
    def subject(self) -> str:
        return f"{self.namespace}.{self.name}._knative"

    @property
    def path(self) -> str:
        return f"/{self.namespace}/{self.name}"

    @property
    def host(self) -> str:
        return f"{self.name}-kn-jsm-channel.{self.namespace}.svc.cluster.local"


class Nats:
    """A client of the test's own; use it as an asynchronous context manager."""

    # Over all clients: a server that several tests share never sees a name twice.
    _serial = itertools.count(1)

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Client

    async def __aenter__(self) -> Nats:
        self.client = await nats.connect(self.url)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.client.close()

    async def call(self, subject: str, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ask `$JS.API.<subject>`."""
        payload = b"" if body is None else json.dumps(body).encode()
        answer = await self.client.request(f"$JS.API.{subject}", payload, timeout=5)
        parsed: dict[str, Any] = json.loads(answer.data)
        if "error" in parsed:
            raise ApiError(f"{subject}: {parsed['error']}")
        return parsed

    def name_channel(self, namespace: str = "demo") -> Channel:
        """The names of a channel that nobody has yet."""
        return Channel(namespace, f"orders-{next(self._serial)}")

    async def make_channel(self, channel: Channel | None = None, **config: Any) -> Channel:
        """Its stream, with these members of the configuration, and its aside stream."""
        channel = channel or self.name_channel()
        await self.make_stream(channel.stream, channel.subject, **config)
        aside = {"max_msgs_per_subject": 1, "allow_direct": True, "discard": "new"}
        await self.make_stream(channel.aside, f"{channel.namespace}.{channel.name}._knative_aside.>", **aside)
        return channel

    async def make_stream(self, name: str, *subjects: str, **config: Any) -> None:
        await self.call(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "file", **config})

    async def make_consumer(self, channel: Channel, metadata: Mapping[str, str], **config: Any) -> str:
        """A durable, as `reconcile` makes it, with any metadata."""
        durable = f"KN_SUB_{next(self._serial)}"
        wanted = {
            "durable_name": durable,
            "name": durable,
            "ack_policy": "explicit",
            "ack_wait": 8 * NANOSECONDS,
            "max_deliver": -1,
            "max_ack_pending": 10_000,
            "metadata": metadata,
            **config,
        }
        body = {"stream_name": channel.stream, "config": wanted}
        await self.call(f"CONSUMER.CREATE.{channel.stream}.{durable}", body)
        return durable

    async def edit_consumer(
        self, channel: Channel, durable: str, metadata: Mapping[str, str] | None = None, **config: Any
    ) -> None:
        """Other metadata, or other settings, for a consumer that exists."""
        info = await self.call(f"CONSUMER.INFO.{channel.stream}.{durable}")
        marks = {} if metadata is None else {"metadata": metadata}
        body = {"stream_name": channel.stream, "config": {**info["config"], **marks, **config}}
        await self.call(f"CONSUMER.CREATE.{channel.stream}.{durable}", body)

    async def store(self, subject: str, data: bytes, headers: Mapping[str, str] | None = None) -> int:
        """Publish and wait for the PubAck; the sequence."""
        answer = await self.client.request(subject, data, timeout=5, headers=dict(headers or {}))
        parsed = json.loads(answer.data)
        assert "error" not in parsed, parsed
        return int(parsed["seq"])

    async def stored(self, stream: str) -> list[Stored]:
        """All that a stream holds."""
        state = (await self.call(f"STREAM.INFO.{stream}"))["state"]
        found = []
        for sequence in range(state["first_seq"], state["last_seq"] + 1):
            try:
                answer = await self.call(f"STREAM.MSG.GET.{stream}", {"seq": sequence})
            except ApiError:
                # Deleted, as the stage record of an event that is settled.
                continue
            found.append(_stored(answer["message"]))
        return found

    async def serve(
        self,
        function: Serving,
        channel: Channel | None = None,
        consumer: Mapping[str, Any] | None = None,
        **subscriber: Any,
    ) -> Lane:
        """A channel with one consumer of this subscriber, and leases on it by `function`."""
        channel = channel or await self.make_channel()
        said = {METADATA_KEY: json.dumps(metadata(channel, **subscriber))}
        durable = await self.make_consumer(channel, said, **(consumer or {}))
        return Lane(self, function, channel, durable)


def _stored(message: Mapping[str, Any]) -> Stored:
    lines = base64.b64decode(message.get("hdrs", "")).decode("ascii").split("\r\n")[1:-2]
    headers = dict(line.split(": ", 1) for line in lines)
    return Stored(message["subject"], message["seq"], headers, base64.b64decode(message.get("data", "")))


def metadata(
    channel: Channel,
    *,
    subscriber: str | Mapping[str, str] | None = None,
    reply: str | Mapping[str, str] | None = None,
    dead_letter: str | Mapping[str, str] | None = None,
    policy: Mapping[str, object] | None = None,
    **more: object,
) -> dict[str, object]:
    """What the metadata of a consumer says: addresses, whole ones or URIs, and the policy where not default."""
    addresses = {"subscriber": subscriber, "reply": reply, "deadLetter": dead_letter}
    defaults = {
        "retry": 0,
        "backoffPolicy": "exponential",
        "backoffDelay": "PT0.2S",
        "timeout": "PT60S",
        "retryAfterMax": "PT300S",
    }
    return {
        "v": 1,
        "namespace": channel.namespace,
        "channel": channel.name,
        "name": "billing",
        "uid": "aaaa-1",
        "generation": 1,
        "aside": channel.aside,
        "subscriptionNamespace": channel.namespace,
        "policy": {**defaults, **(policy or {})},
        "rateLimitBPS": 0,
        "lagThreshold": 1000,
        "maxScale": 4,
        "state": "ready",
        **{key: {"uri": to} if isinstance(to, str) else to for key, to in addresses.items() if to is not None},
        **more,
    }


def binary_event(id: str, **attributes: str) -> dict[str, str]:
    """The headers of an event as it lies in a stream."""
    given = {"specversion": "1.0", "id": id, "source": "/shop", "type": "order.created", **attributes}
    return {**{f"ce-{name}": value for name, value in given.items()}, "content-type": "application/json"}


@dataclass(frozen=True)
class Lane:
    """One channel, one consumer, and the function that serves it."""

    nats: Nats
    function: Serving
    channel: Channel
    consumer: str

    async def store(self, *ids: str, data: bytes = DATA) -> None:
        """Events with these ids, in the stream."""
        for id in ids:
            await self.nats.store(self.channel.subject, data, binary_event(id))

    async def ask(self, **changes: Any) -> tuple[int, dict[str, Any]]:
        """Status and answer of one lease; `changes` to its arguments."""
        body = {
            "stream": self.channel.stream,
            "consumer": self.consumer,
            "seconds": 20,
            "linger": 0.15,
            "max_in_flight": 20,
            **changes,
        }
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            aiohttp.ClientSession(headers=headers) as session,
            session.post(self.function.url, json=body) as answer,
        ):
            return answer.status, await answer.json(content_type=None)

    async def lease(self, **changes: Any) -> dict[str, Any]:
        """The answer of one lease that is served."""
        status, answer = await self.ask(**changes)
        assert status == 200, answer
        return answer

    async def take_one(self) -> dict[str, Any]:
        """The answer of the lease that took the one event that waits: short leases, one after the other, until then."""
        for _ in range(100):
            answer = await self.lease(linger=0.04)
            if any(answer[outcome] for outcome in OUTCOMES):
                return answer
        raise AssertionError(f"no lease took the event that should wait for {self.consumer}")

    @asynccontextmanager
    async def leased(self, **changes: Any) -> AsyncIterator[asyncio.Task[dict[str, Any]]]:
        """A lease beside what the block does; whoever opened it goes away at the end of the block."""
        lease = asyncio.create_task(self.lease(**{"linger": 5, **changes}))
        try:
            yield lease
        finally:
            if not lease.done():
                lease.cancel()
                with suppress(asyncio.CancelledError):
                    await lease

    async def info(self) -> dict[str, Any]:
        """The consumer as the server sees it."""
        return await self.nats.call(f"CONSUMER.INFO.{self.channel.stream}.{self.consumer}")

    async def aside(self, kind: str = "parked") -> list[Stored]:
        """What is parked, or the stage records, of this consumer."""
        prefix = f"{self.channel.namespace}.{self.channel.name}._knative_aside.{kind}.{self.consumer}."
        return [one for one in await self.nats.stored(self.channel.aside) if one.subject.startswith(prefix)]
