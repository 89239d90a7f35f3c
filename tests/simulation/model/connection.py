"""One client's connection: the NATS protocol as a server speaks it, on any asyncio transport.

It parses what a client sends and hands it on; it decides nothing but what costs a connection. What it has to say goes
out once per turn of the loop, as the server's own writes do.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, NamedTuple

from tests.simulation.model.refusals import Unmodelled

if TYPE_CHECKING:
    from tests.simulation.model.server import JetStreamModel

MAX_CONTROL_LINE = 4096
_CRLF = b"\r\n"


class Subscription(NamedTuple):
    """A listener: where its messages go."""

    connection: Connection
    sid: bytes
    pattern: str


class Connection(asyncio.Protocol):
    """One TCP connection.

    Attributes:
        name: of the client, as it says itself.
        subscriptions: by their sid.
    """

    def __init__(self, server: JetStreamModel) -> None:
        self.name = ""
        self.subscriptions: dict[bytes, Subscription] = {}
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._unread = bytearray()
        self._unsent: list[bytes] = []
        self._pings = 0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def peer(self) -> tuple[str, int]:
        """Address and port of the client."""
        assert self._transport is not None
        host, port, *_ = self._transport.get_extra_info("peername")
        return host, port

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a stream's
        if not self._server.running:
            self._transport.abort()
            return
        self._server.joined(self)
        self.tell_info()
        self._timer = asyncio.get_running_loop().call_later(self._server.ping_seconds, self._ping)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._gone()

    def tell_info(self) -> None:
        self.write(b"INFO %b \r\n" % json.dumps(self._server.info()).encode())

    def abort(self) -> None:
        """Break it: the peer gets a reset, and what was not sent is lost."""
        self._unsent.clear()
        if self._transport is not None:
            self._transport.abort()
        self._gone()

    def hang_up(self, words: str) -> None:
        """Tell the client why, and close."""
        self.write(b"-ERR '%b'\r\n" % words.encode())
        self.flush()
        if self._transport is not None:
            self._transport.close()
        self._gone()

    def write(self, frame: bytes) -> None:
        """Send with all that this turn of the loop has to say."""
        if not self.open:
            return
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unsent.append(frame)

    def flush(self) -> None:
        """Send now what is to be sent."""
        unsent, self._unsent = self._unsent, []
        if unsent and self._transport is not None and self.open:
            self._transport.write(b"".join(unsent))

    def deliver(self, sid: bytes, subject: str, reply: str, block: bytes, data: bytes) -> None:
        """MSG, or HMSG with headers."""
        words = [subject, sid.decode(), reply] if reply else [subject, sid.decode()]
        head = " ".join(words).encode("utf-8", "surrogateescape")
        if block:
            self.write(b"HMSG %b %d %d\r\n%b%b\r\n" % (head, len(block), len(block) + len(data), block, data))
        else:
            self.write(b"MSG %b %d\r\n%b\r\n" % (head, len(data), data))

    def data_received(self, data: bytes) -> None:
        self._unread += data
        self._pings = 0
        while self.open and (end := self._unread.find(_CRLF)) >= 0:
            verb, _, rest = bytes(self._unread[:end]).partition(b" ")
            verb = verb.upper()
            if verb in (b"PUB", b"HPUB"):
                if not self._publish(rest.split(), end + 2, headers=verb == b"HPUB"):
                    return
                continue
            del self._unread[: end + 2]
            self._control(verb, rest)

    def _publish(self, words: list[bytes], start: int, *, headers: bool) -> bool:
        """Take one message, if it has come as a whole."""
        size = int(words[-1])
        if size > self._server.max_payload:
            self.hang_up("Maximum Payload Violation")
            return False
        end = start + size + 2
        if len(self._unread) < end:
            return False
        body = bytes(self._unread[start : end - 2])
        del self._unread[:end]
        cut = int(words[-2]) if headers else 0
        subject = words[0].decode("utf-8", "surrogateescape")
        reply = words[1].decode("utf-8", "surrogateescape") if len(words) == (4 if headers else 3) else ""
        self._server.take(self, subject, reply, body[:cut], body[cut:])
        return True

    def _control(self, verb: bytes, rest: bytes) -> None:
        match verb:
            case b"PING":
                self.write(b"PONG\r\n")
            case b"PONG":
                pass
            case b"CONNECT":
                self.name = str(json.loads(rest).get("name", ""))
            case b"SUB":
                words = rest.split()
                if len(words) != 2:
                    raise Unmodelled(f"a queue group: SUB {rest!r}")
                subscription = Subscription(self, words[1], words[0].decode("utf-8", "surrogateescape"))
                self.subscriptions[words[1]] = subscription
                self._server.interest.add(subscription.pattern, subscription)
            case b"UNSUB":
                words = rest.split()
                if len(words) != 1:
                    raise Unmodelled(f"an end after so many messages: UNSUB {rest!r}")
                self._unsubscribe(words[0])
            case _:
                raise Unmodelled(f"the operation {verb!r}")

    def _unsubscribe(self, sid: bytes) -> None:
        subscription = self.subscriptions.pop(sid, None)
        if subscription is not None:
            self._server.interest.remove(subscription.pattern, subscription)

    def _ping(self) -> None:
        if self._pings >= self._server.most_pings:
            self.hang_up("Stale Connection")
            return
        self._pings += 1
        self.write(b"PING\r\n")
        self._timer = asyncio.get_running_loop().call_later(self._server.ping_seconds, self._ping)

    def _gone(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for sid in list(self.subscriptions):
            self._unsubscribe(sid)
        self._server.left(self)
