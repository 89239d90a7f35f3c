"""Our uvicorn: the same settings under every host.

Keep-alive outlives the 90 s for which Knative's queue-proxy keeps idle connections, or its POSTs would race with our
closing them; SIGTERM finishes what is in flight, however long, and Knative's own grace period is the limit.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import uvicorn

from headrace.core.errors import Misconfigured
from headrace.host.app import App, application
from headrace.host.direct import DirectProtocol
from headrace.host.protocol import BoundedProtocol
from headrace.io import environment, log

KEEP_ALIVE_SECONDS = 95
BACKLOG = 2048
Address = tuple[str, int]


class _Server(uvicorn.Server):
    """Tells the application first: a lease has to stop pulling before its answer can come."""

    def __init__(self, config: uvicorn.Config, app: App) -> None:
        super().__init__(config)
        self._app = app

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
        http=DirectProtocol if isinstance(app, App) and app.direct else BoundedProtocol,
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


def serve(target: str | None = None, addresses: Sequence[Address] | None = None) -> None:
    """Serve one function until SIGTERM or SIGINT, and finish what is in flight.

    Args:
        target: receive, forward or reconcile; by default FUNCTION_TARGET's.
        addresses: host and port to listen on; by default HOST (0.0.0.0) and PORT (8080).

    Raises:
        Misconfigured: a setting is wrong, or an address can't be bound.
    """
    log.configure(environment.variable("LOG_LEVEL", "info"), plain=environment.variable("LOG_FORMAT") == "plain")
    app = application(target)
    served = addresses or [_default_address()]
    sockets = [_bind(*address) for address in served]
    log.get("host").info("serving", target=app.target, addresses=[f"{host}:{port}" for host, port in served])
    _Server(config(app), app).run(sockets=sockets)


def main() -> int:
    """Exit status 2, with one line, for what the deployer can cure."""
    try:
        serve()
    except Misconfigured as error:
        print(f"headrace: {error}", file=sys.stderr)
        return 2
    return 0


def _default_address() -> Address:
    port = environment.variable("PORT", "8080")
    if not port.isdigit():
        raise Misconfigured(f"PORT is {port!r}: give a number", field="PORT")
    return environment.variable("HOST", "0.0.0.0"), int(port)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6 and hasattr(socket, "IPV6_V6ONLY"):
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Misconfigured(f"can't listen on {host}:{port}: {error}", field="PORT") from error
    listener.set_inheritable(True)
    return listener
