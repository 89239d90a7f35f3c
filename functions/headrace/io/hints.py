"""Hears core NATS hints for as long as it is asked to, over restarts of the server and new clients.

The other end of `headrace.io.wake`. nats-py subscribes again after a reconnect, but a client that it closed
for good is replaced by `Connection`, and with it the subscription is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from headrace.core.errors import Unavailable
from headrace.io import log
from headrace.io.connection import Connection

CONNECT_SECONDS = 30.0
PAUSE_SECONDS = 0.1

_log = log.get("hints")


async def hear(
    connection: Connection, subject: str, heard: Callable[[str], None], restored: Callable[[], None]
) -> None:
    """Call `heard` with the subject of every hint; never returns.

    Args:
        restored: called whenever hints are heard (again): some may have been missed before.
    """
    broken = asyncio.Event()
    subscribed: Client | None = None
    subscription: Subscription | None = None

    async def on_hint(hint: Msg) -> None:
        heard(hint.subject)

    connection.on_disconnect.append(broken.set)
    try:
        while True:
            broken.clear()
            try:
                client = await connection.client(CONNECT_SECONDS)
                if client is not subscribed:
                    subscription = await client.subscribe(subject, cb=on_hint)
                    subscribed = client
            except (Unavailable, nats.errors.Error, OSError) as error:
                _log.debug("hints are not heard", error=repr(error))
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            restored()
            await broken.wait()
    finally:
        connection.on_disconnect.remove(broken.set)
        if subscription is not None:
            with contextlib.suppress(nats.errors.Error, OSError):
                await subscription.unsubscribe()
