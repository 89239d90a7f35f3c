"""A host's program that serves one of the functions: the product's own application under its own server."""

from __future__ import annotations

import asyncio
import signal
from functools import partial

from headrace.host.app import App, application
from headrace.host.leasing import Leasing
from headrace.host.serving import _Server
from headrace.io.http import HttpClient
from tests.simulation.environment import dial

PORT = 8080
# uvicorn looks so often whether it is told to end.
TICK_SECONDS = 0.1
# And its pod is asked so often whether it is ready.
PROBE_SECONDS = 1.0


class FunctionProgram:
    """One life of `receive`, `forward` or `reconcile`.

    Attributes:
        ending: it was told to end.
        ready: it has found NATS, as its readiness probe says.
    """

    def __init__(self, target: str) -> None:
        self.app = _forward() if target == "forward" else application(target)
        self.ending = self.ready = False
        self._server = _Server(self.app, None)
        self._server.config.port = PORT
        self._told = asyncio.Event()

    @property
    def bytes_in_hand(self) -> int:
        """Bytes of events that a `forward` holds, or has asked for."""
        handler = self.app._handler
        return handler._pool.used if isinstance(handler, Leasing) else 0

    async def run(self) -> None:
        """What `uvicorn.Server.serve` does, but for signals and its clock."""
        server = self._server
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        await server.startup()
        while not (self.ending or self.ready):
            self.ready = await self.app.ready()
            if not self.ready:
                await asyncio.sleep(PROBE_SECONDS)
        await self._told.wait()
        await asyncio.sleep(TICK_SECONDS)
        await server.shutdown()

    def terminate(self) -> None:
        """SIGTERM."""
        self.ending = True
        self._server.handle_exit(signal.SIGTERM, None)
        self._told.set()

    def gone(self) -> None:
        """It does not run any more."""


def _forward() -> App:
    return App("forward", Leasing.configured(http=partial(HttpClient, dial=dial)), eager=Leasing.stands())
