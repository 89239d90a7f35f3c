"""One connection to one server: TCP, INFO, TLS, CONNECT, then frames in and bytes out.

Blocking, with a time-out on everything. Answers PING by itself. Says Broken when the connection is of no use any more;
whoever uses it decides what that costs.
"""

from __future__ import annotations

import socket
import ssl
import time

from headrace.core import nats_wire
from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.nats_wire import Arrival, Bulk, Decoder, Frame, Info, Server, ServerError, Severity, Signal
from pyspark_jetstream.client.access import Access

# For all of it, name resolution aside. A server that is there answers in milliseconds, and the cores may be busy.
DIAL_SECONDS = 5.0
# A server that takes no bytes for so long is as good as gone.
SEND_SECONDS = 10.0
# The kernel's buffer holds no more at once; larger reads were not faster.
RECEIVE_BYTES = 256 * 1024
VERSION = "0.1.0"


class Broken(Unavailable):
    """The connection is gone; what was asked on it may have happened or not."""


class IdentityRefused(Broken):
    """The server does not want us."""


class Link:
    """One connection that the server has accepted; see `dial`.

    Attributes:
        server: at the other end.
        info: what it last said of itself.
        arrivals: messages that nobody has taken yet, but for those that went to a Bulk.
        heard: when the last byte came, on the monotonic clock.
    """

    def __init__(self, server: Server, access: Access, name: str) -> None:
        self.server = server
        self.info = Info()
        self.arrivals: list[Arrival] = []
        self.heard = time.monotonic()
        self._decoder = Decoder()
        self._greeted = False
        self._pongs = 0
        self._refusal: Refused | None = None
        self._socket = self._open(server, access)
        self._introduce(access, name)

    def send(self, data: bytes) -> None:
        """Raises:
        Broken: the server has hung up, or takes nothing any more.
        """
        try:
            self._socket.settimeout(SEND_SECONDS)
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise Broken(f"{self.server.address}: {error}") from error

    def receive(self, timeout: float, bulk: Bulk | None = None) -> bool:
        """Take what comes next; False when nothing has come within `timeout` seconds.

        Raises:
            Broken: the connection is gone.
            Refused: 403, the server forbids what we did last.
        """
        data = self._read(timeout)
        if data is None:
            return False
        self.heard = time.monotonic()
        try:
            frames = self._decoder.feed(data) if bulk is None else self._decoder.feed_bulk(data, bulk)
        except nats_wire.ProtocolError as error:
            self.close()
            raise Broken(f"{self.server.address}: {error}") from error
        for frame in frames:
            if type(frame) is Arrival:
                self.arrivals.append(frame)
            else:
                self._obey(frame)
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            raise refusal
        return True

    def is_alive(self, seconds: float, bulk: Bulk | None = None) -> bool:
        """Whether the server answers a PING in time; what comes before the answer is kept."""
        pongs, deadline = self._pongs, time.monotonic() + seconds
        self.send(nats_wire.PING)
        while self._pongs == pongs and (left := deadline - time.monotonic()) > 0:
            self.receive(left, bulk)
        return self._pongs > pongs

    def is_amid(self, seconds: float) -> bool:
        """Whether a frame has begun that is not complete, and some of it has come in the last `seconds`."""
        return self._decoder.held > 0 and time.monotonic() - self.heard < seconds

    def close(self) -> None:
        self._socket.close()

    def _read(self, timeout: float) -> bytes | None:
        try:
            # Zero would mean "do not block", with errors of its own.
            self._socket.settimeout(max(timeout, 0.001))
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            return None
        except OSError as error:
            self.close()
            raise Broken(f"{self.server.address}: {error}") from error
        if not data:
            self.close()
            raise Broken(f"{self.server.address} has closed the connection")
        return data

    def _obey(self, frame: Frame) -> None:
        match frame:
            case Signal.PING:
                self.send(nats_wire.PONG)
            case Signal.PONG:
                self._pongs += 1
            case Info():
                self.info = frame
                self._greeted = True
            case ServerError(words):
                self._refused(frame, words)

    def _refused(self, error: ServerError, words: str) -> None:
        if error.severity is Severity.OPERATION:
            self._refusal = Refused(f"NATS says {words!r}: check the permissions of the user", status=403)
            return
        self.close()
        if error.severity is Severity.IDENTITY:
            raise IdentityRefused(f"{self.server.address} refuses us: {words}")
        raise Broken(f"{self.server.address} says {words!r}")

    def _open(self, server: Server, access: Access) -> socket.socket:
        try:
            opened = socket.create_connection((server.host, server.port), timeout=DIAL_SECONDS)
        except (OSError, UnicodeError) as error:
            raise Broken(f"{server.address}: {error}") from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _secured(opened, server, access) if access.tls_first else opened

    def _introduce(self, access: Access, name: str) -> None:
        deadline = time.monotonic() + DIAL_SECONDS
        try:
            while not self._greeted:
                self._wait(deadline)
            encrypted = access.tls_first
            if not encrypted and (self.info.tls_required or access.wants_tls(self.server)):
                # The handshake would fail anyway, without saying why.
                if not (self.info.tls_required or self.info.tls_available):
                    raise Misconfigured("TLS is asked for, but the server offers none", field="servers")
                self._socket = _secured(self._socket, self.server, access)
                encrypted = True
            said = {"name": name, "version": VERSION, "tls_required": encrypted}
            self.send(nats_wire.connect({**said, **access.identity(self.server, self.info.nonce)}) + nats_wire.PING)
            while not self._pongs:
                self._wait(deadline)
        except HeadraceError:
            self.close()
            raise

    def _wait(self, deadline: float) -> None:
        if not self.receive(deadline - time.monotonic()):
            self.close()
            raise Broken(f"{self.server.address} does not answer within {DIAL_SECONDS:.0f} s")


def _secured(plain: socket.socket, server: Server, access: Access) -> ssl.SSLSocket:
    plain.settimeout(DIAL_SECONDS)
    try:
        return access.tls_context().wrap_socket(plain, server_hostname=server.tls_name or server.host)
    except (OSError, ValueError) as error:
        plain.close()
        raise Broken(f"{server.address}: TLS failed: {error}") from error
    except HeadraceError:
        plain.close()
        raise
