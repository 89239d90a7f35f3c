"""`--metrics` of `headrace up`: what the operator tells on a cluster, told on a laptop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace

from headrace.io import log
from headrace.io.api import JetStreamApi
from headrace.io.client import Client
from headrace_cli.options import Listen
from headrace_operator.hook_client import HookClient
from headrace_operator.scaler import Scaler

_log = log.get("up")


async def serve(
    stack: AsyncExitStack,
    at: Listen,
    client: Client,
    scaler: Scaler,
    hooks: HookClient,
    streams: Callable[[], Iterable[str]],
) -> None:
    """Serve it until the stack is left.

    Raises:
        Misconfigured: nobody can listen there.
    """
    # Here, since it takes a quarter of the time that all of us take to start.
    from headrace_operator import metrics
    from headrace_operator.storage import Storage

    loop = asyncio.get_running_loop()
    storage = Storage(JetStreamApi(client), streams, lambda: scaler.stats()["consumers"], ask=loop.call_soon_threadsafe)
    more = (metrics.StorageMetrics(storage), metrics.ConnectionMetrics(hooks.calls, lambda: client.connected))
    port = await stack.enter_async_context(metrics.served(at.host, at.port, scaler.stats, "--metrics", more))
    reading = asyncio.create_task(storage.run(), name="storage")
    stack.callback(reading.cancel)
    _log.info("metrics are served", url=f"{replace(at, port=port).url}/metrics")
