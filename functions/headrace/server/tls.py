"""One TLS connection: it stands between a socket and the server's protocol, and is the protocol's transport.

The loop's own TLS tells nobody of a connection before its handshake is over. So nothing could bound those that never
end theirs, and a flood of handshakes, of a millisecond each, would hold up all others. Here a connection belongs to
the crowd from its first byte on, each step of a handshake waits for its turn, and so does the rest of what came in
many small records.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from headrace.io.process import log
from headrace.server.crowd import Crowd, Ending
from headrace.server.patience import Patience

HANDSHAKE_SECONDS = 10.0
# A client says hello in a tenth of this, and shows no certificate. OpenSSL would keep 128 KiB of a hello.
LONGEST_HANDSHAKE = 16 * 1024
# OpenSSL gives one record at a time, which has at most so many bytes.
RECORD = 16 * 1024
# Encrypted, and of an older version: so long are they at most.
LONGEST_RECORD = RECORD + 2 * 1024
# A quarter of a megabyte may come at once, in records of a byte or of a new key: OpenSSL takes all new keys that it has
# in one call, and ten thousand of them are a tenth of a second's work. So many records are one millisecond's or two.
TURN_RECORDS = 128
_HEADER, _LENGTH_AT = 5, 3

_log = log.get("tls")


class TlsConnection(asyncio.Transport, asyncio.Protocol):
    """One connection, from its first byte on.

    Args:
        inside: makes the protocol that reads what was encrypted; called when the handshake is over.
        crowd: the connections whose handshake is not over.
        connections: those that end with the server.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        inside: Callable[[], asyncio.Protocol],
        crowd: Crowd,
        connections: set[Any],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._context = context
        self._make = inside
        self._inside: asyncio.Protocol | None = None
        self._crowd = crowd
        self._connections = connections
        self._loop = loop
        self._patience = Patience(loop, self._expire)
        self._socket: Any = None
        self._closing = False
        # What has come and OpenSSL was not given, and how much more of it may be a part of the handshake.
        self._early = b""
        self._allowed = LONGEST_HANDSHAKE
        # Why nothing is read: the protocol has enough, the client does not read, or bytes wait for their turn.
        self._full = False
        self._unread = False
        self._waits = False
        self._reading = True

    # What the socket tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._socket = transport
        if self._crowd.enter(self, self._loop):
            self._connections.add(self)
            self._patience.wait(HANDSHAKE_SECONDS)
        else:
            self.abort()

    def data_received(self, data: bytes) -> None:
        if self._inside is None:
            self._early += data
            self._ask_turn()
        else:
            self._early += data
            self._read()

    def eof_received(self) -> None:
        if self._inside is not None:
            self._inside.eof_received()

    def pause_writing(self) -> None:
        # A client may ask for answers of the TLS layer, too: to one who reads none, nothing is said.
        self._unread = True
        self._read_or_not()
        if self._inside is not None:
            self._inside.pause_writing()

    def resume_writing(self) -> None:
        self._unread = False
        self._read_or_not()
        if self._inside is not None:
            self._inside.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        if self._inside is None:
            self._leave()
        else:
            self._inside.connection_lost(exc)

    def shutdown(self) -> None:
        """The server ends, and nobody has a request here."""
        self.abort()

    # What the protocol asks of its transport.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._closing and data:
            self._tls.write(data)
            self._flush()

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self._inside is not None:
            # It raises: the client's own farewell is not waited for.
            with suppress(ssl.SSLError):
                self._tls.unwrap()
        self._flush()
        self._socket.close()

    def abort(self) -> None:
        self._closing = True
        self._socket.abort()

    def is_closing(self) -> bool:
        return self._closing or bool(self._socket.is_closing())

    def pause_reading(self) -> None:
        self._full = True
        self._read_or_not()

    def resume_reading(self) -> None:
        self._full = False
        self._read_or_not()
        if self._early:
            self._ask_turn()

    def get_write_buffer_size(self) -> int:
        return int(self._socket.get_write_buffer_size())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._socket.set_write_buffer_limits(high, low)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._context if name == "sslcontext" else self._socket.get_extra_info(name, default)

    # What the crowd asks, during the handshake.

    def idle_since(self) -> float | None:
        return None

    def waited_since(self) -> float | None:
        return self._patience.since

    def spared_since(self) -> float | None:
        return None

    def holds_since(self) -> float | None:
        return self._patience.since

    def make_room(self) -> None:
        self.abort()

    def _expire(self) -> None:
        self._crowd.closed[Ending.SILENT] += 1
        self.abort()

    # The bytes.

    def _ask_turn(self) -> None:
        if not self._waits:
            self._waits = True
            self._read_or_not()
            self._crowd.ask_turn(self._have_turn, self._loop)

    def _have_turn(self) -> None:
        self._waits = False
        try:
            if self._inside is None and not self._closing:
                self._shake_hands()
            else:
                self._read()
            self._read_or_not()
        except Exception:  # noqa: BLE001  # a fault of ours ends this connection, as the loop ends it where one meets new bytes
            _log.exception("a turn failed")
            self.abort()

    def _shake_hands(self) -> None:
        given, self._early = self._early[: self._allowed], self._early[self._allowed :]
        self._allowed -= len(given)
        self._in.write(given)
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
            if not self._allowed:
                self.abort()
            return
        except (ssl.SSLError, ValueError):
            # It has said why, and a stranger's nonsense is no news.
            self.close()
            return
        # It has read whole records so far, and what is left begins with one.
        self._early = self._in.read() + self._early
        self._leave()
        self._inside = self._make()
        self._inside.connection_made(self)
        self._flush()
        if self._early:
            self._read()

    def _leave(self) -> None:
        """It is none any more whose handshake is not over."""
        self._patience.close()
        self._crowd.leave(self)
        self._connections.discard(self)

    def _read(self) -> None:
        """Give the protocol what has come, up to the end of this turn."""
        if self._full or self._closing or self._inside is None:
            return
        more = self._give_records()
        pieces: list[bytes] = []
        ended = False
        try:
            while self._in.pending or self._tls.pending():
                piece = self._tls.read(RECORD)
                if not piece:
                    ended = True
                    break
                pieces.append(piece)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            # It has said farewell, or sends what is no record.
            ended = True
        if self._out.pending:
            self._flush()
        if pieces:
            self._inside.data_received(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if ended:
            if not self._closing:
                self._inside.eof_received()
            self.close()
        elif more:
            self._ask_turn()

    def _give_records(self) -> bool:
        """Give OpenSSL the whole records that have come, as many as one turn has; are there more?"""
        early, end, records = self._early, 0, 0
        while end + _HEADER <= len(early):
            length = int.from_bytes(early[end + _LENGTH_AT : end + _HEADER])
            if length > LONGEST_RECORD:
                # OpenSSL says what is wrong with it.
                end = len(early)
            elif end + _HEADER + length > len(early):
                break
            elif records == TURN_RECORDS:
                self._in.write(early[:end])
                self._early = early[end:]
                return True
            else:
                end, records = end + _HEADER + length, records + 1
        self._in.write(early[:end])
        self._early = early[end:]
        return False

    def _flush(self) -> None:
        if (sent := self._out.read()) and not self._socket.is_closing():
            self._socket.write(sent)

    def _read_or_not(self) -> None:
        reads = not (self._full or self._unread or self._waits)
        if reads != self._reading and not self._socket.is_closing():
            self._reading = reads
            if reads:
                self._socket.resume_reading()
            else:
                self._socket.pause_reading()
