"""Streams and consumers on the server: what is there, and the carrying out of what was decided.

Translates `headrace.core.action` to calls of the JetStream API and the server's refusals to values. Decides nothing.
Handed to `headrace.reconcile` by the host.
"""

from __future__ import annotations

from typing import Any, assert_never

from headrace.core.action import (
    Action,
    CreateConsumer,
    CreateStream,
    DeleteConsumer,
    DeleteStream,
    Done,
    Outcome,
    PurgeSubjects,
    Rejected,
    UpdateConsumer,
    UpdateStream,
)
from headrace.core.errors import Unavailable
from headrace.core.raw_config import Config
from headrace.io.api import CONSUMER_NOT_FOUND, STREAM_NOT_FOUND, ApiError, JetStreamApi

# The cluster is electing or one of its servers is away: the same request will do in a moment.
_CLUSTER_NOT_AVAILABLE = 10008
_CLUSTER_NOT_LEADER = 10009
_PASSING = (_CLUSTER_NOT_AVAILABLE, _CLUSTER_NOT_LEADER)


class Admin:
    """The effects of `reconcile`. All methods raise Unavailable when JetStream does not answer."""

    def __init__(self, api: JetStreamApi) -> None:
        self._api = api

    async def stream(self, name: str) -> Config | None:
        """The configuration of a stream; None when there is none."""
        info = await self._find(f"STREAM.INFO.{name}")
        return None if info is None else info["config"]

    async def count(self, stream: str, subjects: str) -> int:
        """How many subjects that match a filter hold messages; zero when there is no such stream."""
        info = await self._find(f"STREAM.INFO.{stream}", {"subjects_filter": subjects})
        return 0 if info is None else len(info["state"].get("subjects") or {})

    async def consumers(self, stream: str) -> list[Config]:
        """The configurations of all consumers of a stream.

        Raises:
            Unavailable: the list is not complete, since a server of the cluster is away. Whoever took such a list for
                the truth would make a second consumer for a subscriber that has one.
        """
        found: list[Config] = []
        while True:
            page = await self._find(f"CONSUMER.LIST.{stream}", {"offset": len(found)})
            if page is None:
                return found
            absent = [*(page.get("missing") or ()), *(page.get("offline") or ())]
            if absent:
                raise Unavailable(f"NATS does not know now of the consumers {', '.join(absent)} of {stream}")
            consumers = page.get("consumers") or []
            # NATS 2.10 leaves the name out of the configuration when an older client made the consumer.
            found += [{**info["config"], "name": info["name"]} for info in consumers]
            if not consumers or len(found) >= page["total"]:
                return found

    async def carry_out(self, action: Action) -> Outcome:
        """Do one thing. What is gone already counts as deleted."""
        try:
            return Done((await self._carry_out(action)).get("config") or {})
        except ApiError as error:
            deletion = isinstance(action, DeleteStream | DeleteConsumer | PurgeSubjects)
            if deletion and error.err_code in (STREAM_NOT_FOUND, CONSUMER_NOT_FOUND):
                return Done({})
            if error.err_code in _PASSING:
                raise Unavailable(str(error)) from error
            return Rejected(error.description)

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
