"""`--metrics` of `headrace up`: what the operator and the functions tell on a cluster, on one page for a laptop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import replace

from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import log
from headrace_cli.laptop.child import free_port
from headrace_cli.laptop.options import Listen
from headrace_operator.channels.hook_client import HookClient
from headrace_operator.scaling.scaler import Scaler

_log = log.get("up")


class Ports:
    """Where each function tells of itself, if anybody is to ask."""

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._known: dict[str, int] = {}

    def known(self) -> dict[str, int]:
        """By function, those that were started last; whether they still run shows when they are asked."""
        return dict(self._known)

    def variables(self, function: str) -> dict[str, str]:
        """For the process that is about to be started: three on one host can't have the same port."""
        if not self._wanted:
            return {"METRICS_PORT": ""}
        self._known[function] = free_port()
        return {"METRICS_PORT": str(self._known[function]), "METRICS_HOST": "127.0.0.1"}


async def serve(
    stack: AsyncExitStack,
    at: Listen,
    functions: Ports,
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
    from headrace_cli.laptop.function_metrics import FunctionMetrics
    from headrace_operator import metrics, probes
    from headrace_operator.scaling.storage import Storage

    loop = asyncio.get_running_loop()
    storage = Storage(JetStreamApi(client), streams, lambda: scaler.stats()["consumers"], ask=loop.call_soon_threadsafe)
    connections = metrics.ConnectionMetrics(hooks.calls, lambda: client.connected)
    more = (metrics.StorageMetrics(storage), connections, FunctionMetrics(functions.known))
    port = await stack.enter_async_context(probes.served(at.host, at.port, scaler.rows, more, option="--metrics"))
    reading = asyncio.create_task(storage.run(), name="storage")
    stack.callback(reading.cancel)
    _log.info("metrics are served", url=f"{replace(at, port=port).url}/metrics")
