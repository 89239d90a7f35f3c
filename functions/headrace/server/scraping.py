"""`/metrics` on a port of its own: whichever worker is asked answers for all of them.

On the port of events it would be in the way: Knative would take each scrape for a request that keeps a pod alive, and
strangers could read it. Every second each worker leaves what it has counted in memory that all share; so what a worker
has counted outlives it, and one that hangs is still told of (ADR 028). Under one process nothing is shared, and nothing
ticks.
"""

from __future__ import annotations

import asyncio
import mmap
import socket
import zlib
from collections.abc import Callable

import uvicorn

from headrace.core import metric_families as families
from headrace.core import metrics
from headrace.core.http import Response
from headrace.core.metrics import Snapshot
from headrace.io import web
from headrace.server.protocol import BoundedProtocol

TICK_SECONDS = 1.0
# Memory that is not written to takes none. A thousand channels take 300 KiB.
HALF_BYTES = 1024 * 1024
_HEAD = 16
_SLOT = _HEAD + 2 * HALF_BYTES


class Slots:
    """One place in shared memory for each worker; made before they are forked.

    A place has two halves, and a byte that says which of them holds: so that nobody reads what is just being written,
    and a worker that dies while it writes leaves its last word.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._memory = mmap.mmap(-1, count * _SLOT)

    def write(self, place: int, data: bytes) -> bool:
        """Leave this in a place, instead of what was there; False when it is too large, and nothing was done."""
        if len(data) + 8 > HALF_BYTES:
            return False
        memory, start = self._memory, place * _SLOT
        half = 1 - memory[start]
        at = start + _HEAD + half * HALF_BYTES
        memory[at : at + 8 + len(data)] = len(data).to_bytes(4) + zlib.crc32(data).to_bytes(4) + data
        memory[start] = half
        return True

    def read(self, place: int) -> bytes | None:
        """What was left in a place; None: nothing yet."""
        memory, start = self._memory, place * _SLOT
        for _ in range(3):
            at = start + _HEAD + memory[start] * HALF_BYTES
            size, check = int.from_bytes(memory[at : at + 4]), int.from_bytes(memory[at + 4 : at + 8])
            data = memory[at + 8 : at + 8 + min(size, HALF_BYTES)]
            if size and zlib.crc32(data) == check:
                return data
        return None


class Scraped:
    """What one worker tells, of itself and of the others."""

    def __init__(self, own: Callable[[], Snapshot], slots: Slots | None = None, place: int = 0) -> None:
        """Args:
        own: what this worker has counted.
        slots: None when it is the only one.
        """
        self._own = own
        self._slots = slots
        self._place = place
        # Of the worker whose place this was.
        self._inherited: Snapshot = {}
        if slots is not None and (left := slots.read(place)) is not None:
            self._inherited = metrics.lasting(metrics.from_json(left), families.BY_NAME)

    def text(self) -> bytes:
        """All workers together, as Prometheus reads it."""
        return metrics.text(metrics.added(self._all(), families.BY_NAME), families.FUNCTIONS)

    async def tick(self) -> None:
        """Leave what was counted where the others find it, every second, for ever."""
        while self._slots is not None:
            self.leave()
            await asyncio.sleep(TICK_SECONDS)

    def leave(self) -> None:
        if self._slots is not None:
            self._slots.write(self._place, metrics.to_json(self._so_far()))

    def _so_far(self) -> Snapshot:
        return metrics.added((self._inherited, self._own()), families.BY_NAME)

    def _all(self) -> list[Snapshot]:
        found = [self._so_far()]
        if self._slots is not None:
            # Whoever is asked next must not know less of us.
            self._slots.write(self._place, metrics.to_json(found[0]))
            others = (self._slots.read(place) for place in range(self._slots.count) if place != self._place)
            found += [metrics.from_json(left) for left in others if left is not None]
        return found

    async def __call__(self, scope: web.Scope, receive: web.Receive, send: web.Send) -> None:
        """The ASGI application of the port."""
        del receive
        if scope["type"] != "http":
            return
        if scope["path"] != metrics.PATH or scope["method"] not in ("GET", "HEAD"):
            await web.send_response(send, Response(404, (), b"GET /metrics is all there is\n"))
            return
        kind = ((b"content-type", metrics.CONTENT_TYPE.encode()),)
        await web.send_response(send, Response(200, kind, self.text()))


async def serve(scraped: Scraped, listener: socket.socket, server: uvicorn.Server) -> list[asyncio.Task[None]]:
    """Serve the port beside what a server serves, which also ends it; gives what must be kept, and cancelled."""
    config = uvicorn.Config(
        scraped,
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
        return BoundedProtocol(config=config, server_state=server.server_state, app_state={})

    server.servers.append(await asyncio.get_running_loop().create_server(protocol, sock=listener))
    return [asyncio.create_task(scraped.tick(), name="metrics")]
