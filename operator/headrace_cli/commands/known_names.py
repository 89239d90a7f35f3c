"""Names for a shell that completes them; never an error, and never for long: a shell waits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from headrace.core.errors import HeadraceError
from headrace.io.process import log
from headrace_cli.access.place import find
from headrace_cli.access.session import Session, session
from headrace_cli.catalog import channels as catalog
from headrace_cli.catalog.names import NamespacedName
from headrace_cli.catalog.subscriptions import all_subscriptions

SECONDS = 1.5


def channels(given: Mapping[str, Any], begun: str) -> list[str]:
    """The channels whose names begin so."""
    return _named(given, begun, _channel_refs)


def subscriptions(given: Mapping[str, Any], begun: str) -> list[str]:
    """The Subscriptions whose names begin so."""
    return _named(given, begun, _subscription_refs)


async def _channel_refs(connected: Session) -> list[NamespacedName]:
    return [channel.ref for channel in await catalog.channels(connected.api)]


async def _subscription_refs(connected: Session) -> list[NamespacedName]:
    return [one.ref for one in await all_subscriptions(connected)]


def _named(
    given: Mapping[str, Any], begun: str, ask: Callable[[Session], Awaitable[list[NamespacedName]]]
) -> list[str]:
    async def run() -> list[NamespacedName]:
        async with asyncio.timeout(SECONDS), session(find(given.get("nats"))) as connected:
            return await ask(connected)

    log.configure("error", plain=True)
    try:
        refs = asyncio.run(run())
    except (HeadraceError, TimeoutError):
        return []
    namespace = given.get("namespace")
    # Names of the command's namespace in the short form, and all names in the long one.
    offered = [ref.name for ref in refs if ref.namespace == namespace] + [str(ref) for ref in refs]
    return [name for name in offered if name.startswith(begun)]
