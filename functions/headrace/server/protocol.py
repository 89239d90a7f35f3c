"""One connection to our server: uvicorn's HTTP protocol, with bounds in it and the short way in front of it.

There are two ways for a message. The *short way* (`headrace.server.front`) looks at bytes as they come from the socket,
and takes a whole message that needs no parser; it may keep a message that lacks some of its body, and look again. Every
other message goes, from its first byte, to uvicorn's parser and through ASGI. The connection is always in one state of
the table in `headrace.server.states`.

uvicorn's own protocol takes a head without end, starts a request with an empty body when the client offers an upgrade
(h2c), mixes trailers into the headers, takes requests for no host or for two, and waits for ever for the rest of a
request. Here:

- a head is at most 64 KiB with 256 headers, its URL at most 8 KiB (431 and 414); what comes between
  two pieces of a body is no longer than a head: the sizes of chunks, their extensions, trailers, of which there may
  be as many as headers,
- a request is complete within 20 s of its first byte (408), and a connection sends its first one within 20 s,
- of a connection no byte is parsed before all earlier answers are given, and no more is read than was read by then,
- a connection whose bytes are much work, or many at once, waits for its next turn (`headrace.server.crowd`),
- who does not read answers for 20 s is dropped; at shutdown for 2 s,
- an idle connection keeps neither parser nor request,
- an offered upgrade is ignored, as RFC 9110 section 7.8 allows, and the body is read,
- trailers are dropped,
- HTTP/1.1 without a Host, and any request with two, is refused (400), as RFC 9112 section 3.2 demands; so is
  an absolute URL of another host (section 3.2.2), and a request line that is not written to the letter,
- versions other than 1.0 and 1.1 get a 505, transfer codings other than `chunked` a 501,
- at shutdown a request with an incomplete body gets 2 s more: nothing of it has been accepted.
"""

from __future__ import annotations

from typing import Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT

from headrace.core.http import Response
from headrace.core.waiting import BESIDE_BYTES
from headrace.server import heads
from headrace.server.connection import BoundedConnection, Stopped
from headrace.server.front import Front, encode
from headrace.server.states import (
    BEGUN,
    BODY,
    DUE,
    EARLY,
    ENDED,
    FREE,
    HEAD,
    HEADED,
    HELD,
    KEPT,
    LACKING,
    NEXT,
    OVER,
    PILED,
    TAKEN,
    TURN,
)

LONGEST_HEAD = 64 * 1024
MOST_HEADERS = 256
LONGEST_URL = 8 * 1024
# Go's proxies, and so all of Knative's, send the head first and the body in a packet of its own: the short way waits
# for a body up to this size. It is small beside the head that every connection may make us hold.
SMALL_BODY = 16 * 1024
# A piece that the parser gets at once where it can't be told which message a byte belongs to: the longer, the fewer
# calls from the parser the one before has led to. A turn ends after so many; a millisecond is enough for 2,000.
PIECE = 2 * 1024
LONGEST_PIECE = 32 * 1024
FEW_CALLS = 16
# More than so many bytes at once, for the parser, wait for a turn: a read may bring a quarter of a megabyte from each
# of many connections in one pass of the loop.
BITE = 16 * 1024
TURN_CALLS = 256
_END = b"\r\n\r\n"


class BoundedProtocol(BoundedConnection):
    """One connection. An application with a short way has a `short_way(secure=…)` that returns its `Front`, or None."""

    __slots__ = ("_body_left", "_calls", "_lacks", "_line", "_looked_for_front", "_piece", "_trailers")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._looked_for_front = False
        # How much the kept message lacks.
        self._lacks = 0
        # How much of a body with a length is still to come.
        self._body_left = 0
        # What has come of a message whose request line is not complete.
        self._line = b""
        # The parser's calls in this turn.
        self._calls = 0
        # How long the next piece is.
        self._piece = PIECE
        # The trailers of this message so far.
        self._trailers = 0

    def data_received(self, data: bytes) -> None:
        state = self._state
        if state is FREE:
            self._look(data)
        elif state is KEPT:
            self._join(data)
        elif state is not OVER:
            self._take(data)

    # The short way.

    def _look(self, data: bytes, in_turn: bool = False) -> None:
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
            # An empty line may have been in front of it.
            self._line = b""
            self._patience.over()
        elif lacks is None or lacks > SMALL_BODY:
            self._take(data, in_turn=in_turn)
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
            self._take(whole)

    def _keep(self, data: bytes, lacks: int) -> None:
        if self._state is FREE:
            self._await_rest()
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

    def take_kept(self) -> None:
        if self._state is KEPT:
            self._take(self._all_kept(), in_turn=True)

    def _answer(self, response: Response) -> None:
        current, transport = self._on_its_way, self.transport
        current.response_complete = True
        if transport.is_closing():
            return
        transport.write(encode(response, closing=not current.keep_alive))
        if not current.keep_alive:
            transport.close()
        self.on_response_complete()

    def _find_front(self) -> Front | None:
        # Only at the first bytes: a handler opens connections of its own.
        if not self._looked_for_front:
            self._looked_for_front = True
            find = getattr(self.app, "short_way", None)
            self._front = None if find is None else find(secure=self.secure)
            if self._front is not None:
                self._front.when_full(self._crowd.lighten)
        return self._front

    # The parser's way.

    def _take(self, data: bytes, in_turn: bool = False) -> None:
        """Give the parser new bytes, when it is their turn."""
        if self._left:
            # More than was asked for; what is left before them waits already.
            self._left += data
            self._happens(EARLY)
            self._hold_left()
            return
        self._left, self._at = data, 0
        # The rest of a body with a length is no work.
        if self._state is DUE or (len(data) - self._body_left > BITE and not in_turn):
            self._wait_for_turn()
        else:
            self._parse()

    def take_turn(self) -> None:
        held = self._state is HELD
        try:
            self._have_turn()
            if held and self._ending:
                self.shutdown()
        except Exception:  # a fault of ours ends this connection, as the loop ends it where one meets new bytes
            self.logger.exception("a turn failed")
            self.transport.abort()

    def _have_turn(self) -> None:
        self._happens(TURN)
        if self._state is OVER:
            return
        if self._state is FREE and self._at == 0:
            left = self._left
            self._drop_left()
            self.flow.let_go()
            self._look(left, in_turn=True)
        else:
            self._parse()

    def _parse(self) -> None:
        """Parse what is left, up to the end of a message or of the turn."""
        left = self._left
        self._calls = 0
        try:
            while self._at < len(left) and self._state is not DUE:
                if self._calls > TURN_CALLS:
                    break
                self._parse_piece(left)
        except (httptools.HttpParserError, Stopped):
            self._refuse(self._refused or 400)
            return
        if self._state is OVER:
            return
        if self._at < len(left):
            self._wait_for_turn()
        else:
            self._drop_left()
            self.flow.let_go()
            self._await_more()

    def _parse_piece(self, left: bytes) -> None:
        at, whole = self._at, self._body_left
        end = min(len(left), at + whole if whole else self._end_of_piece(left))
        self._at = end
        self._calls = calls = self._calls + 1
        if self._line or self._state in (FREE, KEPT):
            self._check_line(left[at:end])
        self._feed(left if end - at == len(left) else memoryview(left)[at:end])
        if whole:
            return
        self._piece = PIECE if self._calls - calls > FEW_CALLS else min(2 * self._piece, LONGEST_PIECE)
        self._head_bytes += end - at
        if self._head_bytes > LONGEST_HEAD and self._state is not DUE:
            self._stop(431)

    def _check_line(self, piece: bytes) -> None:
        """Stop at a message that does not begin with a request line to the letter: the parser is not that strict."""
        start = self._line + piece
        good = heads.good_line(start)
        if good is False:
            self._stop(400)
        self._line = b"" if good else start

    def _end_of_piece(self, left: bytes) -> int:
        """A place behind which another message may begin, and before which none can; or the end of a small piece."""
        at = self._at
        if at == 0 and self._state in (HEAD, BODY) and left[0] in b"\r\n":
            # The end of a head, or of a trailer, has come apart.
            return 1 if left[1:2] not in (b"\r", b"\n") else 2 if left[2:3] not in (b"\r", b"\n") else 3
        found = left.find(_END, max(at - 3, 0), at + self._piece)
        return at + self._piece if found < 0 else found + 4

    def _feed(self, piece: bytes | memoryview) -> None:
        if self.parser is None:
            self._make_parser()
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade:
            # The piece ends where the head does.
            method = self.parser.get_method()
            if method == b"CONNECT":
                self._stop(405)
            head = heads.without_upgrade(method, self.url, self.parser.get_http_version(), self.headers)
            self._make_parser()
            self.parser.feed_data(head)

    def _make_parser(self) -> None:
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)

    def _await_more(self) -> None:
        """Nothing is left: wait for the rest of a message, if one has begun."""
        if self._state is DUE:
            return
        if self._patience.waits:
            pass
        elif self._state is FREE:
            self._patience.wait(self.timeout_keep_alive)
        else:
            self._await_rest()
        if self._state is HEAD:
            # A body is counted as it comes.
            self._hold(self._head_bytes - self._held)

    def _wait_for_turn(self) -> None:
        """Read nothing more until what is left has had its turn."""
        if self._state is FREE:
            # The wait of an idle connection is over, and what is held now is as young as it is.
            self._patience.over()
        self._happens(EARLY)
        self.flow.hold()
        self._hold_left()
        if self._state not in (PILED, OVER):
            self._crowd.ask_turn(self.take_turn, self.loop)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._state is FREE:
            # The wait of an idle connection is over.
            self._patience.stop()
        self._happens(BEGUN)
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > LONGEST_URL:
            self._stop(414)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._calls += 1
        if self._state is not HEAD:
            # A trailer is dropped: a proxy that checks headers in front of us has not seen it.
            self._trailers += 1
            if self._trailers > MOST_HEADERS:
                self._stop(431)
            return
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
        self._happens(HEADED)
        self._body_left = heads.length(self.headers)
        self._trailers = 0
        self._head_bytes = 0
        self._let_go()
        if self._front is None:
            self._count(BESIDE_BYTES + sum(len(name) + len(value) for name, value in self.headers))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._calls += 1
        self._head_bytes = 0
        if self._body_left:
            self._body_left -= len(body)
        cycle = self.cycle
        if cycle.response_complete:
            return
        if self._front is None:
            self._count(len(body))
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._patience.over()
        if self.flow.write_paused:
            # Its answer will wait for those before it to be read.
            self._await_rest()
        self._body_left = 0
        self._happens(ENDED)
        super().on_message_complete()
        if self.cycle.response_complete:
            self._answered()
