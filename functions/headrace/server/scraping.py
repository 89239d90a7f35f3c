"""`/metrics` on a port of its own: the counts of one process, as Prometheus reads them.

On the port of events it would do harm: Knative would take each scrape for a request that keeps a pod alive, and
strangers could read it (ADR 028).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import uvicorn

from headrace.core import hosts, metrics
from headrace.core import metric_families as families
from headrace.core.http import Response
from headrace.core.metrics import Snapshot
from headrace.io import web
from headrace.server.crowd import Crowd
from headrace.server.protocol import BoundedProtocol


class Scraped:
    """The ASGI application of the port."""

    def __init__(self, counted: Callable[[], Snapshot]) -> None:
        self._counted = counted

    async def __call__(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        del receive
        if scope["type"] != "http":
            return
        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if hosts.misleads(host, scope["server"][0]):
            await web.send_response(send, Response(421, (), hosts.MISLEADING.encode()))
            return
        if scope["path"] != metrics.PATH or scope["method"] not in ("GET", "HEAD"):
            await web.send_response(send, Response(404, (), b"GET /metrics is all there is\n"))
            return
        kind = ((b"content-type", metrics.CONTENT_TYPE.encode()),)
        await web.send_response(send, Response(200, kind, metrics.text(self._counted(), families.FUNCTIONS)))


async def serve(counted: Callable[[], Snapshot], listener: socket.socket, server: uvicorn.Server, crowd: Crowd) -> None:
    """Serve the port beside a server, which also closes it; its connections count with all others."""
    config = uvicorn.Config(
        Scraped(counted),
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        server_header=False,
        date_header=False,
        log_config=None,
    )
    config.load()

    def protocol() -> asyncio.Protocol:
        return BoundedProtocol(config=config, server_state=server.server_state, app_state={}, crowd=crowd)

    server.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=listener))
