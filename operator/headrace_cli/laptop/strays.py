"""The warning of channels that an earlier run has left on the server and that no file holds: they still take events."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from headrace.core.errors import HeadraceError
from headrace.core.nats.stream import CHANNEL_KEY, NAMESPACE_KEY, ROLE_KEY, Role
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.process import log

_log = log.get("up")


async def tell(api: JetStreamApi, served: Iterable[str]) -> None:
    """Warn of each stream of a channel that is not among the served ones."""
    known = set(served)
    with suppress(HeadraceError):
        async for stream in api.streams():
            metadata = stream["config"].get("metadata") or {}
            if metadata.get(ROLE_KEY) == Role.CHANNEL and stream["config"]["name"] not in known:
                channel = f"{metadata.get(NAMESPACE_KEY)}/{metadata.get(CHANNEL_KEY)}"
                words = "channel is in no file, but the server has it: it takes events, and nobody is delivered to"
                _log.warning(words, channel=channel, stream=stream["config"]["name"])
