"""Our uvicorn: the same settings under every host.

Keep-alive outlives the 90 s for which Knative's queue-proxy keeps idle connections, or its POSTs would race with our
closing them; SIGTERM finishes what is in flight, however long, and Knative's own grace period is the limit.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import NamedTuple

import uvicorn

from headrace.core.errors import Misconfigured
from headrace.core.installation.function_settings import MetricsSettings, ReceiveSettings
from headrace.core.quoting import quoted
from headrace.host.app import App, application
from headrace.io.process import environment, log
from headrace.io.process.cpu_limit import cpus
from headrace.server import pulse, scraping
from headrace.server.protocol import BoundedProtocol
from headrace.server.scraping import Scraped, Slots
from headrace.server.workers import Tether, Workers

KEEP_ALIVE_SECONDS = 95
BACKLOG = 2048
LARGEST_PORT = 65535
Address = tuple[str, int]


class _Scraping(NamedTuple):
    """Where metrics are served: a socket that all workers share, and memory, if there are several."""

    listener: socket.socket
    slots: Slots | None


class _Server(uvicorn.Server):
    """Tells the application first: a lease has to stop pulling before its answer can come."""

    def __init__(self, app: App, scraped: _Scraping | None, place: int = 0, tether: Tether | None = None) -> None:
        """Args:
        scraped: where the metrics are served; None: nowhere.
        place: which worker this is, from 0.
        tether: to our parent, if we are a worker; when it is gone, we end as on SIGTERM.
        """
        super().__init__(config(app))
        self._app = app
        self._scraped = scraped
        self._place = place
        self._tether = tether
        self._tasks: list[asyncio.Task[None]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tether is not None:
            asyncio.get_running_loop().add_reader(self._tether.lifeline, self._parent_gone, self._tether.lifeline)
            self._beat(self._tether.beats)
        await super().startup(sockets)
        self._app.counts.step("serving")
        if self._scraped is not None:
            scraped = Scraped(self._app.snapshot, self._scraped.slots, self._place)
            self._tasks = await scraping.serve(scraped, self._scraped.listener, self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        await super().shutdown(sockets)
        for task in self._tasks:
            task.cancel()

    def _beat(self, beats: int) -> None:
        # A parent that reads nothing for hours fills the pipe; one that is gone shows at the lifeline.
        with suppress(BlockingIOError, BrokenPipeError):
            os.write(beats, b".")
        asyncio.get_running_loop().call_later(pulse.BEAT_SECONDS, self._beat, beats)

    def _parent_gone(self, lifeline: int) -> None:
        asyncio.get_running_loop().remove_reader(lifeline)
        self.handle_exit(signal.SIGTERM, None)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn's own, which then raises the signals again: we have honoured them, and end with status 0."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.drain()
        super().handle_exit(sig, frame)


def config(app: object) -> uvicorn.Config:
    """The settings under which every function of ours is served, and every floor of the bench."""
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's own ASGI types are narrower than the specification
        loop="auto",
        http=BoundedProtocol,
        ws="none",
        lifespan="on" if isinstance(app, App) else "off",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        backlog=BACKLOG,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        log_level="warning",
    )


def serve(target: str | None = None, addresses: Sequence[Address] | None = None) -> int:
    """Serve one function until SIGTERM or SIGINT, and finish what is in flight.

    Args:
        target: receive, forward or reconcile; by default FUNCTION_TARGET's.
        addresses: host and port to listen on; by default HOST (0.0.0.0) and PORT (8080).

    Returns:
        The exit status: 0, or 1 when a worker did not end well.

    Raises:
        Misconfigured: a setting is wrong, or an address can't be bound.
    """
    log.configure(environment.variable("LOG_LEVEL", "info"), plain=environment.variable("LOG_FORMAT") == "plain")
    app = application(target)
    workers = _workers(app)
    served = addresses or [_default_address()]
    sockets = _listeners(served, workers)
    scraped = _scraping(served, workers)
    shown = [f"{host}:{port}" for host, port in served]
    # What is there now stays, and no later collection looks through it, which would hold up the loop for 40 ms.
    gc.freeze()
    gc.enable()
    log.get("host").info("serving", target=app.target, addresses=shown, workers=workers)
    if workers == 1:
        _Server(app, scraped).run(sockets=sockets[0])
        return 0

    def work(own: list[socket.socket], tether: Tether) -> None:
        # By identity: elsewhere than on Linux all have the same sockets, and each a list of its own.
        place = next(place for place, theirs in enumerate(sockets) if theirs is own)
        _Server(app, scraped, place, tether).run(sockets=own)

    return Workers(sockets, work).run()


def main() -> int:
    """Exit status 2, with one line, for what the deployer can cure."""
    try:
        return serve()
    except Misconfigured as error:
        sys.stderr.write(f"headrace: {error}\n")
        return 2


def _workers(app: App) -> int:
    """A lease belongs to one process, and `reconcile` has little to do: only `receive` has more than one."""
    return environment.read(ReceiveSettings).workers or cpus() if app.intake else 1


def _listeners(addresses: Sequence[Address], workers: int) -> list[list[socket.socket]]:
    """The sockets of each worker."""
    # Also for many: it fails where somebody else listens, which sharing would hide.
    alone = [_bind(*address) for address in addresses]
    if workers == 1 or sys.platform != "linux":
        # Elsewhere the kernel does not spread connections over sockets, and all accept from the same ones.
        return [list(alone) for _ in range(workers)]
    bound = [(host, one.getsockname()[1]) for (host, _), one in zip(addresses, alone, strict=True)]
    for one in alone:
        one.close()
    return [[_bind(*address, shared=True) for address in bound] for _ in range(workers)]


def _scraping(served: Sequence[Address], workers: int) -> _Scraping | None:
    settings = environment.read(MetricsSettings)
    host, port = settings.host or served[0][0], settings.port
    if port is None:
        return None
    if any(port == taken for _, taken in served):
        # The kernel would let us have it twice, and nobody would find the metrics.
        raise Misconfigured(f"METRICS_PORT is {port}, as PORT is: give another one", field="METRICS_PORT")
    return _Scraping(_bind(host, port, field="METRICS_PORT"), Slots(workers) if workers > 1 else None)


def _default_address() -> Address:
    port = environment.variable("PORT", "8080")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= LARGEST_PORT):
        raise Misconfigured(f"PORT is {quoted(port)}: give a number of at most {LARGEST_PORT}", field="PORT")
    return environment.variable("HOST", "0.0.0.0"), int(port)


def _bind(host: str, port: int, *, shared: bool = False, field: str = "PORT") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    if family == socket.AF_INET6 and hasattr(socket, "IPV6_V6ONLY"):
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Misconfigured(f"{field}: can't listen on {host}:{port}: {error}", field=field) from error
    listener.set_inheritable(True)
    return listener
