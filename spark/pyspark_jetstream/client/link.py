"""One connection to one server: TCP, INFO, TLS, CONNECT, then frames in and bytes out.

Blocking, with a time-out on everything. It answers PING by itself, and raises LinkBroken when the connection is of no
use any more; its caller decides what that costs.
"""

from __future__ import annotations

import socket
import ssl
import time

from headrace.core.errors import HeadraceError, Misconfigured, Refused, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival, Bulk, Decoder, ErrorCost, Frame, Info, Server, ServerError, Signal
from pyspark_jetstream.client.access import Access

# For the whole dial except name resolution. A live server answers in milliseconds, but the cores may be busy.
DIAL_SECONDS = 5.0
# A server that takes no bytes for so long counts as gone.
SEND_SECONDS = 10.0
# The kernel's buffer holds no more at once; larger reads were not faster.
RECEIVE_BYTES = 256 * 1024


class LinkBroken(Unavailable):
    """The connection is gone; requests on it may have taken effect or not."""


class TurnedAway(LinkBroken):
    """A server refuses us for TLS or for our credentials, and that does not pass soon."""


class BlockingLink:
    """One connection that the server has accepted; see `dial`.

    Attributes:
        server: the server at the other end.
        info: its latest INFO.
        arrivals: messages that nobody has taken yet, without those that went to a Bulk.
        heard: when the last byte came, on the monotonic clock.
    """

    def __init__(self, server: Server, access: Access, name: str, dial_seconds: float = DIAL_SECONDS) -> None:
        self.server = server
        self._access = access
        self._dial_seconds = dial_seconds
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
        LinkBroken: the server has hung up, or takes nothing any more.
        """
        try:
            self._socket.settimeout(SEND_SECONDS)
            self._socket.sendall(data)
        except OSError as error:
            self.close()
            raise LinkBroken(f"{self.server.address}: {error}") from error

    def receive(self, timeout: float, bulk: Bulk | None = None) -> bool:
        """Take in the next bytes; False when none have come within `timeout` seconds.

        Raises:
            LinkBroken: the connection is gone.
            Refused: 403, the server forbids our latest operation.
        """
        data = self._receive(timeout)
        if data is None:
            return False
        self.heard = time.monotonic()
        try:
            frames = self._decoder.feed(data) if bulk is None else self._decoder.feed_bulk(data, bulk)
        except nats_wire.ProtocolError as error:
            self.close()
            raise LinkBroken(f"{self.server.address}: {error}") from error
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
        """Whether the server answers a PING in time; messages before the answer are kept."""
        pongs, deadline = self._pongs, time.monotonic() + seconds
        self.send(nats_wire.PING)
        while self._pongs == pongs and (left := deadline - time.monotonic()) > 0:
            self.receive(left, bulk)
        return self._pongs > pongs

    def is_amid(self, seconds: float) -> bool:
        """Whether part of an incomplete frame has come in the last `seconds`."""
        return self._decoder.held > 0 and time.monotonic() - self.heard < seconds

    def close(self) -> None:
        self._socket.close()

    def _receive(self, timeout: float) -> bytes | None:
        try:
            # Zero would mean "do not block", with errors of its own.
            self._socket.settimeout(max(timeout, 0.001))
            data = self._socket.recv(RECEIVE_BYTES)
        except TimeoutError:
            return None
        except ssl.SSLError as error:
            self.close()
            if self._pongs:
                raise LinkBroken(f"{self.server.address}: {error}") from error
            # With TLS 1.3 a server checks our certificate after our own handshake is done.
            raise TurnedAway(
                f"{self.server.address}: TLS failed ({error.reason or error}): check tlsCertFile and tlsKeyFile"
            ) from error
        except OSError as error:
            self.close()
            raise LinkBroken(f"{self.server.address}: {error}") from error
        if not data:
            self.close()
            raise LinkBroken(f"{self.server.address} has closed the connection")
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
        if error.severity is ErrorCost.OPERATION:
            who = self._access.identity_options
            self._refusal = Refused(f"NATS says {words!r}: check the permissions of the user, {who}", status=403)
            return
        self.close()
        if error.severity is ErrorCost.IDENTITY:
            raise TurnedAway(f"{self.server.address} refuses us ({words}): check {self._access.identity_options}")
        raise LinkBroken(f"{self.server.address} says {words!r}")

    def _open(self, server: Server, access: Access) -> socket.socket:
        try:
            opened = socket.create_connection((server.host, server.port), timeout=self._dial_seconds)
        except (OSError, UnicodeError) as error:
            raise LinkBroken(f"{server.address}: {error}") from error
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._secured(opened, server, access) if access.tls_first else opened

    def _introduce(self, access: Access, name: str) -> None:
        deadline = time.monotonic() + self._dial_seconds
        try:
            while not self._greeted:
                self._wait(deadline)
            encrypted = access.tls_first
            if not encrypted and (self.info.tls_required or access.wants_tls(self.server)):
                # The handshake would fail anyway, without saying why.
                if not (self.info.tls_required or self.info.tls_available):
                    raise Misconfigured(
                        f"TLS is asked for, but {self.server.address} offers none: check servers and tlsCaFile",
                        field="servers",
                    )
                self._socket = self._secured(self._socket, self.server, access)
                encrypted = True
            said = {"name": name, "tls_required": encrypted}
            self.send(nats_wire.connect({**said, **access.identity(self.server, self.info.nonce)}) + nats_wire.PING)
            while not self._pongs:
                self._wait(deadline)
        except HeadraceError:
            self.close()
            raise

    def _wait(self, deadline: float) -> None:
        if not self.receive(deadline - time.monotonic()):
            self.close()
            what = "does not answer" if self._greeted else "does not greet us as NATS does"
            hint = (
                ""
                if self._greeted or self._access.tls_first
                else ": check the port, and tlsFirst if it begins with TLS"
            )
            raise LinkBroken(f"{self.server.address} {what} within {self._dial_seconds:.0f} s{hint}")

    def _secured(self, plain: socket.socket, server: Server, access: Access) -> ssl.SSLSocket:
        plain.settimeout(self._dial_seconds)
        try:
            return access.tls_context().wrap_socket(plain, server_hostname=server.tls_name or server.host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise TurnedAway(
                f"{server.address} shows a certificate that is not trusted ({error.verify_message}): check "
                "tlsCaFile, and the host's name in servers"
            ) from error
        except ssl.SSLError as error:
            plain.close()
            check = (
                "tlsFirst, as the server may not begin with TLS" if access.tls_first else "tlsCertFile and tlsKeyFile"
            )
            raise TurnedAway(f"{server.address}: TLS failed ({error.reason or error}): check {check}") from error
        except (OSError, ValueError) as error:
            plain.close()
            raise LinkBroken(f"{server.address}: TLS failed: {error}") from error
        except HeadraceError:
            plain.close()
            raise
