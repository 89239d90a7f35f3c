"""The short way of an event from the socket to the stream and back, under our own server.

A whole event needs no ASGI: its headers and body go to the handler as they are, and the answer is written when the
handler says so; no scope, no task, no queue of messages. What the handler can read as it came from the socket needs no
parser either. Whatever is not of that plain kind (another method, a large body that is still on its way, chunked,
Expect, HTTP/1.0, behind another request on the same connection) goes the way of `uvicorn`, and so does what the handler
declines. Both ways give the same bytes; a test holds them to it (ADR 016).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Protocol, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from headrace.core.http import Headers, Response
from headrace.server.protocol import LONGEST_HEAD, LONGEST_URL, MOST_HEADERS, BoundedProtocol, Stopped

Answer: TypeAlias = Callable[[Response], None]

# Go's proxies, and so each one of Knative's, send the head ahead and the body in a packet of its own: one that small is
# waited for. Little beside the head that every connection may make us hold.
SMALL_BODY = 16 * 1024


class Offers(Protocol):
    """Whoever takes events the short way."""

    def offer(self, url: bytes, headers: Sequence[tuple[bytes, bytes]], body: bytes, answer: Answer) -> bool:
        """Take a whole POST, and say whether.

        Args:
            url: as it was sent.
            headers: names in lower case.
            answer: to be called once and later, if it was taken, with an answer that has all its headers.
        """

    def offer_unread(self, data: bytes, answer: Answer) -> bool:
        """The same with all bytes of a read that begins where a message does; nobody has looked at them."""

    def hold(self, size: int, held: int) -> bool:
        """Have room for so many more bytes of a message that is on its way in, and say whether there is.

        Args:
            held: what is held of the same message already.
        """

    def let_go(self, size: int) -> None:
        """These bytes are held no more, or are counted elsewhere from now on."""


class _OnItsWay:
    """Stands where uvicorn keeps its own state of the current request, and answers what it asks of that.

    So uvicorn's queue of pipelined requests, its drain at shutdown and its clean-up work as they do for its own.
    """

    __slots__ = ("disconnected", "keep_alive", "message_event", "more_body", "response_complete", "response_started")

    def __init__(self) -> None:
        self.response_started = False
        self.response_complete = True
        self.disconnected = False
        # It is here whole, or it would not be on this way.
        self.more_body = False
        self.keep_alive = True
        # Set by uvicorn when the connection is lost; nobody waits for it.
        self.message_event = asyncio.Event()


class DirectProtocol(BoundedProtocol):
    """One connection to an application whose `short_way` gives an `Offers`."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._offers: Offers | None = None
        self._on_its_way = _OnItsWay()
        self._body = b""
        # The message that is being read may still go either way.
        self._open = False
        self._held = 0
        self._names_connection = False
        self._idle_since: float | None = None

    def data_received(self, data: bytes) -> None:
        if self._complete and not self._over and self._is_free() and self._taken_unread(data):
            self._unset_keepalive_if_required()
            return
        super().data_received(data)

    def _taken_unread(self, data: bytes) -> bool:
        try:
            if not (self._offers or self._taker()).offer_unread(data, self._answer):
                return False
        except Exception:  # the parser's way meets it again, or does not
            self.logger.exception("the shortest way failed")
            return False
        self._begin_short_way()
        return True

    def _is_free(self) -> bool:
        """Is it the turn of what comes next, and does the client read its answers?"""
        before = self.cycle
        return (before is None or before.response_complete) and not self.flow.write_paused

    def _begin_short_way(self) -> None:
        current = self._on_its_way
        current.response_complete = False
        self.cycle = current  # type: ignore[assignment]  # stands in for it: see there

    # What the parser calls. As in `BoundedProtocol`, and uvicorn's own, but nothing is made that may not be needed.

    def on_message_begin(self) -> None:
        self._in_head, self._complete, self._head_bytes = True, False, 0
        self._begun_in_read += 1
        self.url, self._body = b"", b""
        self.headers = []
        self.expect_100_continue = self._names_connection = False
        self._open = True

    def on_url(self, url: bytes) -> None:
        self.url += url
        if len(self.url) > LONGEST_URL:
            self._stop(414)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:
            headers = self.headers
            if len(headers) >= MOST_HEADERS or len(name) + len(value) > LONGEST_HEAD:
                self._stop(431)
            name = name.lower()
            if name == b"expect" and value.lower() == b"100-continue":
                self.expect_100_continue = True
            # The parser goes by Proxy-Connection, too.
            elif name.endswith(b"connection"):
                self._names_connection = True
            headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        if self._open:
            self._body = self._body + body if self._body else body
        else:
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        if self._held:
            self._let_go()
        if self._open and self._taken():
            self._open, self._complete = False, True
            return
        if self._open:
            self._go_by_asgi()
        super().on_message_complete()

    def _feed(self, data: bytes) -> None:
        super()._feed(data)
        if self._is_in_body() and not self._is_worth_waiting():
            self._go_by_asgi()

    def shutdown(self) -> None:
        # Whoever is in the middle of sending gets the same last moment on either way.
        if self._is_in_body():
            try:
                self._go_by_asgi()
            except Stopped as refusal:
                self._refuse(refusal.status)
        super().shutdown()

    def _await_more(self, size: int) -> None:
        # What ASGI has been given is counted there. Once in a read that ends inside a message: a whole event costs
        # nothing. What came before it in the same read counts, too: most of that waits for its turn.
        if self._in_head or self._open:
            if not self._taker().hold(size, self._held):
                self._refuse(503)
                return
            self._held += size
        super()._await_more(size)

    def _let_go(self) -> None:
        held, self._held = self._held, 0
        if held:
            self._taker().let_go(held)

    def _refuse(self, status: int) -> None:
        self._let_go()
        super()._refuse(status)

    def _is_in_body(self) -> bool:
        return self._open and not (self._in_head or self._complete)

    def _is_worth_waiting(self) -> bool:
        """Is the rest of a plain event about to come, and is it small?"""
        if self.expect_100_continue or self.parser.get_method() != b"POST":
            return False
        length = next((value for name, value in self.headers if name == b"content-length"), b"")
        return length.isdigit() and int(length) <= SMALL_BODY

    def _taken(self) -> bool:
        """Is this request of the plain kind, at its turn, and does the handler take it?"""
        parser = self.parser
        if (
            not self._is_free()
            or self.expect_100_continue
            or parser.get_method() != b"POST"
            # True of 1.0 only where it says so in that header; the parser makes a text of its version each time.
            or not parser.should_keep_alive()
            or (self._names_connection and parser.get_http_version() != "1.1")
        ):
            return False
        try:
            if not (self._offers or self._taker()).offer(self.url, self.headers, self._body, self._answer):
                return False
        except Exception:  # the parser would take a fault of ours for one of the sender, and a 400 is never sent again
            self.logger.exception("the short way failed")
            return False
        self._begin_short_way()
        return True

    def _taker(self) -> Offers:
        offers = self._offers
        if offers is None:
            offers = self._offers = self.app.short_way()
        return offers

    def _go_by_asgi(self) -> None:
        """Do now what uvicorn does with the beginning of a request."""
        self._open = False
        self._let_go()
        url, headers, body, expects = self.url, self.headers, self._body, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def _answer(self, response: Response) -> None:
        current, transport = self._on_its_way, self.transport
        current.response_complete = True
        if transport.is_closing():
            return
        transport.write(written(response, closing=not current.keep_alive))
        if not current.keep_alive:
            transport.close()
        self.on_response_complete()

    # One timer for the idle times of a connection, instead of one for each.

    def on_response_complete(self) -> None:
        if self.pipeline or self.transport.is_closing():
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        self.flow.resume_reading()
        self._idle_since = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._look_in(self.timeout_keep_alive)

    def _unset_keepalive_if_required(self) -> None:
        self._idle_since = None

    def timeout_keep_alive_handler(self) -> None:
        self.timeout_keep_alive_task = None
        if self._idle_since is not None:
            left = self._idle_since + self.timeout_keep_alive - self.loop.time()
            if left > 0:
                self._look_in(left)
            else:
                super().timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        self._let_go()
        if self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self.timeout_keep_alive_task = None
        super().connection_lost(exc)

    def _look_in(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)


def written(response: Response, *, closing: bool) -> bytes:
    """An answer as uvicorn writes it."""
    return _head(response.status, response.headers, closing) + response.body


@lru_cache(64)
def _head(status: int, headers: Headers, closing: bool) -> bytes:
    lines = [b"%b: %b\r\n" % header for header in headers]
    if closing:
        lines.append(b"connection: close\r\n")
    return b"".join((STATUS_LINE[status], *lines, b"\r\n"))
