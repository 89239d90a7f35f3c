"""`/healthz`, `/readyz` and `/metrics`, on the loop that does the work: a program whose loop hangs is not well."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from headrace.core import hosts
from headrace.core.errors import Misconfigured
from headrace.core.metrics import CONTENT_TYPE
from headrace_operator.metrics import Families, Rows, of_consumers


class MetricsPage(Collector):
    """All families of a page."""

    def __init__(self, parts: Iterable[Families]) -> None:
        self._parts = tuple(parts)

    def describe(self) -> Iterable[Metric]:
        """Nothing: otherwise the registry would ask all parts when the page is registered."""
        return ()

    def collect(self) -> Iterable[Metric]:
        return chain.from_iterable(part() for part in self._parts)


@asynccontextmanager
async def served(
    host: str,
    port: int,
    rows: Rows,
    more: Iterable[Families],
    *,
    option: str,
    ready: Callable[[], bool] = lambda: True,
) -> AsyncIterator[int]:
    """Serve for the duration of the block; gives the port.

    Args:
        port: 0 for any free one.
        rows: gives the scaler's rows; called on the loop.
        more: gives all other families; called on a thread, since thousands of consumers make a long text.
        option: the name of the setting with host and port, for errors.

    Raises:
        Misconfigured: we can't listen there.
    """
    seen: list[Mapping[str, Any]] = []
    registry = CollectorRegistry()
    registry.register(MetricsPage((lambda: of_consumers(lambda: seen), *more)))

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        well = ready()
        return web.Response(status=200 if well else 503, text="ok\n" if well else "the watches are not up yet\n")

    async def metrics(_request: web.Request) -> web.Response:
        seen[:] = rows()
        text = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE})

    @web.middleware
    async def for_no_stranger(request: web.Request, handler: Handler) -> web.StreamResponse:
        at = request.transport.get_extra_info("sockname") if request.transport is not None else None
        if at and hosts.misleads(request.host, at[0]):
            return web.Response(status=421, text=hosts.MISLEADING)
        return await handler(request)

    app = web.Application(middlewares=[for_no_stranger])
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        try:
            await site.start()
        except OSError as error:
            used = f"something else listens there: stop what does, or give another {option}"
            taken = used if error.errno == errno.EADDRINUSE else str(error)
            raise Misconfigured(f"{option} {host}:{port} can't be served: {taken}", field=option) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
