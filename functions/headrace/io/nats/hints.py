"""The receiver of core NATS hints, over restarts of the server; `headrace.io.jetstream.wake` sends them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from headrace.core.errors import Unavailable
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Closed

CONNECT_SECONDS = 30.0


async def hear(client: Client, subject: str, heard: Callable[[str, bytes], None], restored: Callable[[], None]) -> None:
    """Call `heard` with subject and data of every hint; returns only when the client is closed.

    Args:
        restored: called whenever hints can be heard (again): some may have been missed before.
    """
    broken = asyncio.Event()
    client.on_disconnect.append(broken.set)
    subscription = await client.subscribe(subject, lambda hint: heard(hint.subject, hint.data))
    try:
        while True:
            broken.clear()
            try:
                await client.ready(CONNECT_SECONDS)
            except Closed:
                break
            except Unavailable:
                continue
            restored()
            await broken.wait()
    finally:
        client.on_disconnect.remove(broken.set)
        await subscription.close()
