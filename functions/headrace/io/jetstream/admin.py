"""Reads streams and consumers from the server, and carries out actions on them.

It translates `headrace.core.nats.action` to calls of the JetStream API, and the server's refusals to values. It decides
nothing. The host hands it to `headrace.reconcile`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from typing import Any, assert_never

from headrace.core.errors import Refused, Unavailable
from headrace.core.event.nats_codec import Encoded
from headrace.core.nats.action import (
    Action,
    CreateConsumer,
    CreateStream,
    DeleteConsumer,
    DeleteStream,
    Done,
    KeepText,
    Outcome,
    ParkForgotten,
    PurgeSubjects,
    Rejected,
    ResetConsumer,
    UpdateConsumer,
    UpdateStream,
)
from headrace.core.nats.api_error import CONSUMER_NOT_FOUND, STREAM_NOT_FOUND, ApiError
from headrace.core.raw_config import Config
from headrace.io.jetstream import parking, positions
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.process import clock

ASK_SECONDS = 5.0
REMEMBERED_SECONDS = 30.0
"""For so long a list of all streams counts for who changes nothing: with thousands of them it takes a tenth of a
second, and each channel of a namespace with a bound asks for it."""

# The cluster elects a leader, or one of its servers is away: the same request will succeed in a moment.
_CLUSTER_NOT_AVAILABLE = 10008
_CLUSTER_NOT_LEADER = 10009
_PASSING = (_CLUSTER_NOT_AVAILABLE, _CLUSTER_NOT_LEADER)


class Admin:
    """The effects of `reconcile`. All methods raise Unavailable when JetStream does not answer."""

    def __init__(self, api: JetStreamApi, jetstream: JetStream) -> None:
        self._api = api
        self._jetstream = jetstream
        self._streams_in_use = asyncio.Lock()
        self._streams: tuple[float, list[Config]] = (-inf, [])

    async def stream(self, name: str) -> Config | None:
        """The configuration of a stream; None when there is none."""
        info = await self.info(name)
        return None if info is None else info["config"]

    async def info(self, stream: str, subjects: str = "") -> dict[str, Any] | None:
        """STREAM.INFO, with the subjects that match a filter in its state; None when there is no stream."""
        info = await self._find(f"STREAM.INFO.{stream}", {"subjects_filter": subjects} if subjects else None)
        if info is None or not subjects:
            return info
        # The server names 100,000 subjects at a time.
        found: dict[str, int] = info["state"].get("subjects") or {}
        while found and len(found) < int(info.get("total", 0)):
            page = await self._find(f"STREAM.INFO.{stream}", {"subjects_filter": subjects, "offset": len(found)})
            more = (page or {"state": {}})["state"].get("subjects")
            if not more:
                break
            found.update(more)
        return info

    async def count(self, stream: str, subjects: str) -> int:
        """How many subjects that match a filter hold messages; zero when there is no such stream."""
        info = await self.info(stream, subjects)
        return 0 if info is None else len(info["state"].get("subjects") or {})

    async def number(self, stream: str, subject: str) -> int:
        """The number that a subject holds; zero without one."""
        return await self._jetstream.number(stream, subject, ASK_SECONDS)

    async def text(self, stream: str, subject: str) -> str | None:
        """The newest message of a subject, as text; None without one."""
        data = await self._jetstream.last(stream, subject, ASK_SECONDS)
        return None if data is None else data.decode(errors="replace")

    async def first_since(self, stream: str, time: str) -> int:
        """The first sequence that was stored at a time or later; raises as `positions.first_since`."""
        return await positions.first_since(self._api, stream, time)

    async def add(self, stream: str, subject: str, number: int) -> None:
        """Add to the number that a subject holds.

        Raises:
            Refused: the stream has no room for it.
        """
        await self._jetstream.add(stream, subject, number, ASK_SECONDS)

    async def no_room(self, subject: str) -> str:
        """Why the server has no room for any message; empty where it has. Raises as `JetStream.no_room`."""
        return await self._jetstream.no_room(subject, ASK_SECONDS)

    async def max_payload(self) -> int:
        """The bytes that the server takes in one message."""
        return self._jetstream.max_payload

    @asynccontextmanager
    async def streams(self, *, to_change: bool) -> AsyncIterator[list[Config]]:
        """The configurations of all streams. One caller at a time: two that have read the same would both fit in.

        Args:
            to_change: the caller is about to change one, and needs to know them as they are now.
        """
        async with self._streams_in_use:
            if to_change or clock.monotonic() > self._streams[0] + REMEMBERED_SECONDS:
                self._streams = clock.monotonic(), [one["config"] async for one in self._api.streams(whole=True)]
            yield self._streams[1]

    async def consumers(self, stream: str) -> list[Config]:
        """The configurations of all consumers of a stream; raises as `consumer_infos`."""
        # NATS 2.10 leaves the name out of the configuration when an older client made the consumer.
        return [{**info["config"], "name": info["name"]} for info in await self.consumer_infos(stream)]

    async def consumer_infos(self, stream: str) -> list[dict[str, Any]]:
        """All consumers of a stream with their configuration and state.

        Raises:
            Unavailable: the list is incomplete, since a server of the cluster is away. From such a list we would
                create a second consumer for a subscriber that has one.
        """
        found: list[dict[str, Any]] = []
        while True:
            page = await self._find(f"CONSUMER.LIST.{stream}", {"offset": len(found)})
            if page is None:
                return found
            absent = [*(page.get("missing") or ()), *(page.get("offline") or ())]
            if absent:
                raise Unavailable(f"NATS does not know now of the consumers {', '.join(absent)} of {stream}")
            consumers = page.get("consumers") or []
            found += consumers
            if not consumers or len(found) >= page["total"]:
                return found

    async def carry_out(self, action: Action) -> Outcome:
        """Carry out one action. To delete an object that is gone already is Done."""
        try:
            return Done((await self._carry_out(action)).get("config") or {})
        except ApiError as error:
            deletion = isinstance(action, DeleteStream | DeleteConsumer | PurgeSubjects)
            if deletion and error.err_code in (STREAM_NOT_FOUND, CONSUMER_NOT_FOUND):
                return Done({})
            if error.err_code in _PASSING:
                raise Unavailable(str(error)) from error
            return Rejected(error.description)
        except Refused as error:
            return Rejected(str(error))

    async def _carry_out(self, action: Action) -> dict[str, Any]:
        call = self._api.call
        match action:
            case CreateStream(config):
                return await call(f"STREAM.CREATE.{config['name']}", config)
            case UpdateStream(config):
                return await call(f"STREAM.UPDATE.{config['name']}", config)
            case DeleteStream(stream):
                return await call(f"STREAM.DELETE.{stream}")
            case PurgeSubjects(stream, subjects):
                return await call(f"STREAM.PURGE.{stream}", {"filter": subjects})
            case CreateConsumer(stream, config):
                return await self._consumer(stream, config, "create")
            case UpdateConsumer(stream, config):
                return await self._consumer(stream, config, "update")
            case DeleteConsumer(stream, consumer):
                return await call(f"CONSUMER.DELETE.{stream}.{consumer}")
            case KeepText(_, subject, text):
                await self._jetstream.publish_aside(Encoded(subject, b"", text.encode()), ASK_SECONDS)
                return {}
            case ParkForgotten():
                await parking.park(action, self._api, self._jetstream)
                return {}
            case ResetConsumer(stream, consumer, sequence):
                await positions.reset(self._api, stream, consumer, sequence)
                return {}
            case _:
                assert_never(action)

    async def _consumer(self, stream: str, config: Config, action: str) -> dict[str, Any]:
        body = {"stream_name": stream, "config": config, "action": action}
        return await self._api.call(f"CONSUMER.CREATE.{stream}.{config['name']}", body)

    async def _find(self, subject: str, body: Config | None = None) -> dict[str, Any] | None:
        try:
            return await self._api.call(subject, body)
        except ApiError as error:
            if error.err_code == STREAM_NOT_FOUND:
                return None
            if error.err_code in _PASSING:
                raise Unavailable(str(error)) from error
            raise
