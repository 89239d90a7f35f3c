"""`/healthz`, `/readyz` and `/metrics` of the operator, on its own loop: one that hangs is not well."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from headrace.core.errors import Misconfigured
from headrace_operator.metrics import Rows, ScalerMetrics

Numbers = Callable[[], Mapping[str, float]]


class OperatorMetrics(Collector):
    """The operator's own numbers, read when it is scraped."""

    def __init__(self, gauges: Numbers, calls: Callable[[], Mapping[str, int]]) -> None:
        """Args:
        gauges: by the part of their name after `headrace_operator_`.
        calls: requests to the API server by verb.
        """
        self._gauges = gauges
        self._calls = calls

    def collect(self) -> Iterable[Metric]:
        for name, value in self._gauges().items():
            yield GaugeMetricFamily(f"headrace_operator_{name}", name.replace("_", " "), value=value)
        counter = CounterMetricFamily("headrace_operator_api_requests", "Requests to the API server", labels=("verb",))
        for verb, count in self._calls().items():
            counter.add_metric((verb,), count)
        yield counter


@asynccontextmanager
async def served(
    host: str, port: int, ready: Callable[[], bool], rows: Rows, more: Iterable[Collector]
) -> AsyncIterator[int]:
    """Serve for the time of the block; gives the port.

    Args:
        rows: the scaler's; called on the loop.
        more: what else is told; collected on a thread, since thousands of consumers are a long text.

    Raises:
        Misconfigured: nobody can listen there.
    """
    seen: list[Mapping[str, Any]] = []
    registry = CollectorRegistry()
    registry.register(ScalerMetrics(lambda: seen))
    for collector in more:
        registry.register(collector)

    async def healthz(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_request: web.Request) -> web.Response:
        well = ready()
        return web.Response(status=200 if well else 503, text="ok\n" if well else "the watches are not up yet\n")

    async def metrics(_request: web.Request) -> web.Response:
        seen[:] = rows()
        text = await asyncio.to_thread(generate_latest, registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.add_routes([web.get("/healthz", healthz), web.get("/readyz", readyz), web.get("/metrics", metrics)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    try:
        try:
            await site.start()
        except OSError as error:
            raise Misconfigured(f"PORT {port} can't be served on {host}: {error}", field="PORT") from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()
