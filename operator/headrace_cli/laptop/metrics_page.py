"""The page behind `--metrics`: a laptop has in one place what the operator and the functions tell on a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import replace

from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import log
from headrace_cli.laptop.options import Listen
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling.channel_scaler import ChannelScaler

_log = log.get("up")


async def serve(
    stack: AsyncExitStack,
    at: Listen,
    ports: Mapping[str, int],
    client: Client,
    channels: ChannelScaler,
    calls: HookCalls,
) -> None:
    """Serve the page until the stack is left.

    Args:
        ports: the metrics ports of the functions, by their names.

    Raises:
        Misconfigured: we can't listen there.
    """
    # Imported here, since the import takes a quarter of the whole start.
    from headrace_cli.laptop import function_metrics
    from headrace_operator import metrics, probes
    from headrace_operator.scaling.storage import Storage

    loop, scaler = asyncio.get_running_loop(), channels.scaler
    storage = Storage(
        JetStreamApi(client),
        lambda: channels.streams,
        lambda: scaler.stats()["consumers"],
        ask=loop.call_soon_threadsafe,
    )
    more = (
        lambda: metrics.of_storage(storage),
        lambda: metrics.of_connections(calls, connected=client.connected),
        lambda: function_metrics.ask(dict(ports)),
    )
    port = await stack.enter_async_context(probes.served(at.host, at.port, scaler.rows, more, option="--metrics"))
    reading = asyncio.create_task(storage.run(), name="storage")
    stack.callback(reading.cancel)
    _log.info("metrics are served", url=f"{replace(at, port=port).url}/metrics")
