"""One connection to our server: uvicorn's HTTP protocol, with bounds in it and the short way in front of it.

There are two ways for a message. The *short way* (`headrace.server.front`) looks at bytes as they come from the socket,
and takes a whole message that needs no parser; it may keep a message that lacks some of its body, and look again. Every
other message goes, from its first byte, to uvicorn's parser and through ASGI. The connection is always in one state of
the table in `headrace.server.states`.

uvicorn's own protocol takes a head without end, starts a request with an empty body when the client offers an upgrade
(h2c), mixes trailers into the headers, takes requests for no host or for two, and waits for ever for the rest of a
request. Here:

- a head is at most 64 KiB with 256 headers, its URL at most 8 KiB (431 and 414),
- a request is complete within 20 s of its first byte (408),
- an offered upgrade is ignored, as RFC 9110 section 7.8 allows, and the body is read,
- trailers are dropped,
- HTTP/1.1 without a Host, and any request with two, is refused (400), as RFC 9112 section 3.2 demands; so is
  an absolute URL of another host (section 3.2.2), or of another scheme; versions other than 1.0 and 1.1 get a 505,
- nothing more is read while requests wait behind another, and their bytes count with all others that wait,
- at shutdown a request with an incomplete body gets 2 s more: nothing of it has been accepted.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from headrace.core.http import Response
from headrace.server import heads
from headrace.server.front import Front, OnItsWay, QueuedFlow, written
from headrace.server.patience import Patience
from headrace.server.states import (
    ANSWERED,
    BEGUN,
    BODY,
    CUT,
    DUE,
    ENDED,
    FREE,
    HEAD,
    HEADED,
    KEPT,
    LACKING,
    NEXT,
    OVER,
    TAKEN,
    ConnectionEvent,
    ConnectionState,
)

LONGEST_HEAD = 64 * 1024
MOST_HEADERS = 256
LONGEST_URL = 8 * 1024
# Knative's own event receiver allows 10 s; a slow producer of a large event may take a little longer.
REQUEST_SECONDS = 20.0
LAST_SECONDS = 2.0
# Go's proxies, and so all of Knative's, send the head first and the body in a packet of its own: the short way waits
# for a body up to this size. It is small beside the head that every connection may make us hold.
SMALL_BODY = 16 * 1024
# The memory of a request that waits behind another on its connection, beside its bytes, and the share of each header
# (measured: 1.6 KiB with one). One read may hold ten thousand tiny requests.
QUEUED_BYTES = 1536
QUEUED_HEADER_BYTES = 128


class Stopped(Exception):
    """Stops the parser from inside its callbacks, which have no other way."""


class BoundedProtocol(HttpToolsProtocol):
    """One connection. An application with a short way has a `short_way()` that returns its `Front`, or None."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._state: ConnectionState = FREE
        self._patience = Patience(self.loop, self._expire)
        self._front: Front | None = None
        self._looked_for_front = False
        self._on_its_way = OnItsWay()
        # The part of a message that the short way keeps, and how many bytes it lacks. Not a list of pieces: a small
        # piece takes thirty times the memory of its bytes.
        self._kept = bytearray()
        self._lacks = 0
        # The bytes of the current message that the front has counted.
        self._held = 0
        # Those of each request that waits behind another.
        self._queued: deque[int] = deque()
        # The request whose turn it is; `cycle` is the last that has come.
        self._served: RequestResponseCycle | None = None
        # The bytes of the latest read, until they are counted with a waiting request.
        self._read_bytes = 0
        self._head_bytes = 0
        # The number of messages that have bytes in the current read.
        self._begun_in_read = 0
        self._refused = 0
        self._ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.flow = QueuedFlow(transport, self.pipeline)

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state is FREE:
            self._look(data)
        elif state is KEPT:
            self._join(data)
        elif state is not OVER:
            self._parse(data)

    # The short way.

    def _look(self, data: bytes) -> None:
        """Offer bytes from the start of a message to the short way."""
        lacks = None
        # For a client that does not read its answers, ASGI waits.
        if not self.flow.write_paused and (front := self._front or self._find_front()) is not None:
            try:
                lacks = front.take(data, self._answer)
            except Exception:  # a fault of ours is logged, nothing has happened, and the parser's way answers
                self.logger.exception("the short way failed")
        if lacks == 0:
            current = self._on_its_way
            current.response_complete = False
            self.cycle = current  # type: ignore[assignment]  # stands in for it: see there
            self._state = NEXT[self._state][TAKEN]
        elif lacks is None or lacks > SMALL_BODY:
            self._parse(data)
        else:
            self._keep(data, lacks)

    def _join(self, data: bytes) -> None:
        """Add bytes to a message that is kept."""
        if len(data) < self._lacks:
            self._keep(data, self._lacks - len(data))
            return
        whole = self._all_kept(data)
        if len(data) == self._lacks:
            self._look(whole)
        else:
            self._parse(whole)

    def _keep(self, data: bytes, lacks: int) -> None:
        if self._state is FREE:
            self._patience.wait(REQUEST_SECONDS)
        self._happens(LACKING)
        self._kept += data
        self._lacks = lacks
        self._hold(len(data))

    def _all_kept(self, data: bytes = b"") -> bytes:
        """All kept bytes and the new ones; they are kept and counted here no more."""
        whole = bytes(self._kept) + data
        self._kept.clear()
        self._let_go()
        return whole

    def _answer(self, response: Response) -> None:
        current, transport = self._on_its_way, self.transport
        current.response_complete = True
        if transport.is_closing():
            return
        transport.write(written(response, closing=not current.keep_alive))
        if not current.keep_alive:
            transport.close()
        self.on_response_complete()

    def _find_front(self) -> Front | None:
        # Only at the first bytes: a handler opens connections of its own.
        if not self._looked_for_front:
            self._looked_for_front = True
            find = getattr(self.app, "short_way", None)
            self._front = None if find is None else find()
        return self._front

    # The parser's way.

    def _parse(self, data: bytes) -> None:
        self._begun_in_read = 1 if self._is_in_message() else 0
        self._read_bytes = len(data)
        try:
            self._feed(data)
        except (httptools.HttpParserError, Stopped):
            self._refuse(self._refused or 400)
            return
        if self._is_in_message():
            self._await_more(len(data))

    def _is_in_message(self) -> bool:
        return self._state in (HEAD, BODY)

    def _await_more(self, size: int) -> None:
        """Wait for the rest of the message at the end of a read of so many bytes."""
        if not self._patience.waits:
            self._patience.wait(REQUEST_SECONDS)
        if self._state is not HEAD:
            # ASGI counts the bytes that it has been given.
            return
        # Behind another message in the same read, its share of the bytes is unknown; the next reads are all its own.
        if self._begun_in_read < 2:
            self._head_bytes += size
        if self._head_bytes > LONGEST_HEAD:
            self._refuse(431)
        else:
            # Earlier messages of the same read count, too: most of them wait for their turn.
            self._hold(size)

    def _feed(self, data: bytes) -> None:
        # A view, and a loop: one read may hold thousands of small requests that offer an upgrade.
        rest = memoryview(data)
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                method = self.parser.get_method()
                if method == b"CONNECT":
                    self._stop(405)
                rest = rest[upgrade.args[0] :]
                head = heads.without_upgrade(method, self.url, self.parser.get_http_version(), self.headers)
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                self.parser.feed_data(head)
            else:
                return

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._state in (FREE, DUE):
            # The wait of an idle connection, or for an earlier body, is over.
            self._patience.stop()
        self._happens(BEGUN)
        self._head_bytes = 0
        self._begun_in_read += 1

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > LONGEST_URL:
            self._stop(414)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state is not HEAD:
            return  # a trailer: a proxy that checks headers in front of us has not seen it
        if len(self.headers) >= MOST_HEADERS or len(name) + len(value) > LONGEST_HEAD:
            self._stop(431)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        # At an offered upgrade the parser ends here; it reads the head again without the offer.
        if self.parser.should_upgrade():
            return
        if (status := heads.fault(self.parser.get_http_version(), self.headers, self.url)) is not None:
            self._stop(status)
        self.url = heads.origin_form(self.url)
        if self.cycle is not None and not self.cycle.response_complete:
            self._queue()
        self._happens(HEADED)
        self._let_go()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._patience.stop()
        self._happens(ENDED)
        super().on_message_complete()
        if self.cycle.response_complete:
            self._answered()

    # Both ways.

    def on_response_complete(self) -> None:
        if self._queued and self._front is not None:
            self._front.let_go(self._queued.popleft())
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self.flow.resume_reading()
            self._start_asgi_task(cycle, app)
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._answered()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._served = cycle
        super()._start_asgi_task(cycle, app)

    def _answered(self) -> None:
        """The last answer that was due is given."""
        self._state = state = NEXT[self._state][ANSWERED]
        if state is FREE:
            self._patience.wait(self.timeout_keep_alive)

    def shutdown(self) -> None:
        self._ending = True
        if self._state is KEPT:
            # A client in the middle of sending gets the same last moment on either way.
            self._parse(self._all_kept())
        super().shutdown()
        if self._is_in_message():
            self._patience.wait(LAST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._cut()
        self._patience.close()
        self.pipeline.clear()
        if self._front is not None:
            self._front.let_go(sum(self._queued))
        self._queued.clear()
        if self._served is not None and not self._served.response_complete:
            self._served.disconnected = True
            self._served.message_event.set()
        super().connection_lost(exc)

    def _happens(self, event: ConnectionEvent) -> None:
        self._state = NEXT[self._state][event]

    def _hold(self, size: int) -> None:
        """Count so many more waiting bytes of a message, or refuse it if there is no room for them."""
        if self._front is None:
            return
        if self._front.hold(size, self._held):
            self._held += size
        else:
            self._refuse(503)

    def _queue(self) -> None:
        """Queue the request whose head is complete behind another, or refuse it if there is no room for it."""
        if self._front is None:
            return
        # The first request of a read is counted with all bytes of the read.
        size = self._read_bytes + QUEUED_BYTES + QUEUED_HEADER_BYTES * len(self.headers)
        self._read_bytes = 0
        if not self._front.hold(size, 0):
            # The requests in front of it get their answers: uvicorn has no state of this one yet.
            self._stop(503)
        self._queued.append(size)

    def _let_go(self) -> None:
        if self._held and self._front is not None:
            self._front.let_go(self._held)
        self._held = 0

    def _stop(self, status: int) -> None:
        self._refused = status
        raise Stopped

    def _expire(self) -> None:
        """End a wait that took too long. While an answer is due, the delay is ours."""
        if self.transport.is_closing():
            return
        if self._state is FREE:
            self.transport.close()
        elif self.flow.read_paused and not self._ending:
            # While we do not read, its rest can't come.
            self._patience.wait(REQUEST_SECONDS)
        elif self._state is not DUE:
            self._refuse(503 if self._ending else 408)

    def _cut(self) -> None:
        """Read nothing any more, and drop the incomplete message."""
        self._happens(CUT)
        self._patience.stop()
        self._kept.clear()
        self._let_go()

    def _refuse(self, status: int) -> None:
        """Answer unless an answer has begun, and close: the next bytes can't be told apart from this message."""
        self._cut()
        waits = self.cycle is not None and not self.cycle.response_complete
        if waits and not self.cycle.more_body:
            # A whole request came before, and the client would take this as its answer. Its own answer will close.
            self.cycle.keep_alive = False
            return
        # A request with others in front of it gets no answer at all.
        begun = waits and (self.cycle.response_started or bool(self.pipeline))
        if not begun and not self.transport.is_closing():
            again = b"retry-after: 1\r\n" if status == 503 else b""
            if (tell := getattr(self.app, "refused", None)) is not None:
                # Our application counts it; the floors of the bench do not.
                tell(status)
            self.transport.write(STATUS_LINE[status] + again + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
