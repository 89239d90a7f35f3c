"""Our uvicorn: the same settings under every host.

Keep-alive outlives the 90 s for which Knative's queue-proxy keeps idle connections, or its POSTs would race with our
closing. After SIGTERM requests in flight are finished, and only Knative's own grace period limits that.
"""

from __future__ import annotations

import gc
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType

import uvicorn

from headrace.core.errors import Misconfigured
from headrace.core.installation.function_settings import MetricsSettings, TlsSettings
from headrace.core.quoting import plain, quoted
from headrace.host.app import App, application
from headrace.host.tls_listener import TlsListener
from headrace.io.process import environment, log
from headrace.io.process.certificate import Certificate
from headrace.server import scraping
from headrace.server.crowd import Crowd
from headrace.server.protocol import BoundedProtocol

KEEP_ALIVE_SECONDS = 95
BACKLOG = 2048
LARGEST_PORT = 65535
Address = tuple[str, int]


class _Server(uvicorn.Server):
    """uvicorn's server. At a signal it tells the application first: a lease must stop pulling before it can answer."""

    def __init__(self, app: App, metrics: socket.socket | None, tls: TlsListener | None = None) -> None:
        """Args:
        metrics: the listener of the metrics; None: they are not served.
        tls: the listener of events by TLS; None: they are not served so.
        """
        super().__init__(config(app))
        self._app = app
        self._metrics = metrics
        self._tls = tls

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._app.counts.step("serving")
        if self._metrics is not None:
            await scraping.serve(self._app.snapshot, self._metrics, self, self._app.crowd)
        if self._tls is not None:
            self._tls.start(self)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._tls is not None:
            self._tls.stop()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As in uvicorn, but without raising the signals again: we have honoured them, and end with status 0."""
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
    protocol = partial(BoundedProtocol, crowd=app.crowd if isinstance(app, App) else Crowd())
    return uvicorn.Config(
        app,  # type: ignore[arg-type]  # uvicorn's own ASGI types are narrower than the specification
        loop="auto",
        http=protocol,  # type: ignore[arg-type]  # uvicorn calls it, whatever it is
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
    metrics = _metrics_listener(served)
    tls = _tls_listener(app, served)
    # The present objects stay, and no later collection looks through them: that would hold up the loop for 40 ms.
    gc.freeze()
    gc.enable()
    log.get("host").info("serving", target=app.target, addresses=[f"{host}:{port}" for host, port in served])
    _Server(app, metrics, tls).run(sockets=sockets)


def main() -> int:
    """Serve, and return the exit status; 2, with one line: the deployer can cure the fault."""
    try:
        serve()
    except Misconfigured as error:
        sys.stderr.write(f"headrace: {plain(str(error))}\n")
        return 2
    return 0


def _metrics_listener(served: Sequence[Address]) -> socket.socket | None:
    settings = environment.fill(MetricsSettings)
    host, port = settings.host or served[0][0], settings.port
    if port is None:
        return None
    if any(port == taken for _, taken in served):
        # The kernel would give us the port twice, and nobody would find the metrics.
        raise Misconfigured(f"METRICS_PORT is {port}, as PORT is: give another one", field="METRICS_PORT")
    return _bind(host, port, field="METRICS_PORT")


def _tls_listener(app: App, served: Sequence[Address]) -> TlsListener | None:
    if app.target != "receive":
        # The others have callers of ours alone.
        return None
    settings = environment.fill(TlsSettings)
    if settings.port is None:
        return None
    if not settings.directory:
        raise Misconfigured("RECEIVE_TLS_PORT needs a certificate: set RECEIVE_TLS_DIR", field="RECEIVE_TLS_DIR")
    listener = _bind(served[0][0], settings.port, field="RECEIVE_TLS_PORT")
    return TlsListener(Certificate(settings.directory, settings.least_version), listener, app.crowd)


def _default_address() -> Address:
    port = environment.variable("PORT", "8080")
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= LARGEST_PORT):
        raise Misconfigured(f"PORT is {quoted(port)}: give a number of at most {LARGEST_PORT}", field="PORT")
    return environment.variable("HOST", "0.0.0.0"), int(port)


def _bind(host: str, port: int, *, field: str = "PORT") -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6 and hasattr(socket, "IPV6_V6ONLY"):
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise Misconfigured(f"{field}: can't listen on {host}:{port}: {error}", field=field) from error
    listener.set_inheritable(True)
    return listener
