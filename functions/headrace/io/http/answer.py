"""The reader of a connection's bytes: it makes one answer after the other of them.

It knows HTTP/1.1 framing (llhttp, through httptools) and our limits; it knows no sockets, time or requests.
`headrace.io.http.connection` calls it, on the hot path.
"""

from __future__ import annotations

from io import BytesIO
from typing import Final

import httptools

from headrace.core.event import http_codec
from headrace.core.http import HttpAnswer

# A reply event travels in the answer's headers.
LARGEST_HEAD = 64 * 1024
MOST_HEADERS = 256
# 100 Continue, 102 Processing and 103 Early Hints come before the answer; without a bound they could go on for ever.
MOST_INTERIM = 16
# Bytes that are kept of a body that is no event: more than the 768 that a dead letter sink is given. A thousand posts
# at a time, each with the whole body of its subscriber, would fill the memory.
ERROR_BYTES: Final = 1024
# Bytes between two pieces of a body: chunk extensions, trailers.
MOST_PADDING = 64 * 1024
# Common servers close an idle connection after 2 s (gunicorn) or 5 s (uvicorn, Node), and a POST that meets the closing
# is a failed one: of those that come every 2 s, one in twelve met gunicorn's (ADR 057).
KEEP_ALIVE_SECONDS: Final = 1.5
# The longest answer that is remembered, since idle connections hold it. No longer than the part of a body that is kept.
_KNOWN_BYTES = 512
_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code != 0x09)


class Malformed(Exception):
    """The bytes are no answer, or an answer beyond our limits; the text says what is wrong."""


class AnswerReader:
    """Bytes in, answers out; `expect` begins each of them, and httptools calls the `on_` methods.

    Attributes:
        begun: has any byte of the expected answer come?
        keep_alive: seconds for which the connection may wait for another request after the answer; 0 when it may
            not be used again.
    """

    def __init__(self) -> None:
        self._parser = httptools.HttpResponseParser(self)
        self._known: bytes | None = None
        self._known_answer = HttpAnswer(None)
        self._known_keep_alive = 0.0
        # Go's client, which the peer uses, takes these from careless servers: bare LF, folded values, padded chunk
        # sizes. With them control characters in values pass: `_check` refuses them. Where a length stands beside
        # chunks, the chunks count (RFC 9112, section 6.3); `_keep_alive` then says 0.
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
            lenient_chunked_length=True,
        )
        self.expect(0)
        self.forget()

    def expect(self, limit: int, *, reply: bool = True) -> None:
        """Begin with the next answer.

        Args:
            limit: bytes of its body to read; a longer body is cut there, and the answer is complete.
            reply: is a body that claims to be an event kept whole? Of all others `ERROR_BYTES` are kept.
        """
        self._limit = limit
        self._reply = reply
        self._answer: HttpAnswer | None = None
        self._fed = 0

    def forget(self) -> None:
        """Release the last answer and its parts."""
        self._answer = None
        self._kept = min(self._limit, ERROR_BYTES)
        self._headers: list[tuple[bytes, bytes]] = []
        self._head: tuple[tuple[bytes, bytes], ...] | None = None
        self._status = 0
        self._body: bytes | BytesIO = b""
        self._size = 0
        self._heads = 0
        self._interim = 0
        self._padding = 0
        self.keep_alive = 0.0

    @property
    def begun(self) -> bool:
        return self._fed > 0

    def feed(self, data: bytes) -> HttpAnswer | None:
        """Take the next bytes; the answer as soon as it is complete, else None.

        Raises:
            Malformed: the bytes can't become an answer.
        """
        if not self._fed:
            # Most servers repeat the same bytes for a second. At the start of an answer the same bytes mean the same
            # answer, within its limit.
            if data == self._known and len(data) <= self._limit:
                self._fed = len(data)
                self.keep_alive = self._known_keep_alive
                self._answer = self._known_answer
                return self._answer
            self.forget()
        self._fed += len(data)
        size = self._size
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            # An error after a whole answer costs the connection only.
            self.keep_alive = 0.0
            if self._answer is None:
                raise _explained(error) from None
        if self._answer is None:
            self._check_progress(len(data) if self._size == size else 0)
        elif self.keep_alive > 0 and self._fed == len(data) <= _KNOWN_BYTES:
            self._known, self._known_answer, self._known_keep_alive = data, self._answer, self.keep_alive
        return self._answer

    def finish(self) -> HttpAnswer | None:
        """The answer that the end of the connection completes; None when it cuts one off."""
        if not self._fed or self._head is None or _framed(self._head):
            return None
        return self._complete()

    def on_message_begin(self) -> None:
        if self._answer is not None:
            # No request asked for these bytes: the next answer could be taken for that of another request.
            self.keep_alive = 0.0

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp keeps the blanks after a value.
        self._headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self._answer is not None:
            return
        # Later headers are trailers and land in a list that nobody reads. Bytes that came with the head are no padding.
        head, self._headers = tuple(self._headers), []
        self._padding = -self._fed
        self._check(head)
        self._status = self._parser.get_status_code()
        if 100 <= self._status < 200 and self._status != 101:
            self._heads += _size(head)
            self._interim += 1
            if self._interim > MOST_INTERIM:
                raise Malformed(f"more than {MOST_INTERIM} interim answers")
        else:
            self._head = head

    def on_body(self, piece: bytes) -> None:
        if self._head is None or self._answer is not None:
            return
        room = self._room(len(piece))
        self._size += len(piece)
        if room < len(piece):
            piece = piece[:room]
        if isinstance(self._body, BytesIO):
            self._body.write(piece)
        elif self._body:
            # Not a list of pieces: a body that drips byte by byte would take forty times the room. Not a bytearray:
            # BytesIO hands its bytes over without a second copy.
            begun, self._body = self._body, BytesIO()
            self._body.write(begun)
            self._body.write(piece)
        else:
            self._body = piece
        if self._size > self._limit:
            self._complete()

    def on_message_complete(self) -> None:
        if self._head is None or self._answer is not None:
            return
        self._complete()
        if self._status != 101 and self._parser.should_keep_alive():
            self.keep_alive = _keep_alive(self._head)

    def _room(self, more: int) -> int:
        """How many of the next bytes of the body are kept."""
        if self._size + more > self._kept and self._reply and self._kept < self._limit:
            # Only a large body is examined, and once: from here on, all of it is kept or nothing.
            self._reply = False
            if http_codec.is_event(self._head or ()):
                self._kept = self._limit
        return max(0, self._kept - self._size)

    def _complete(self) -> HttpAnswer:
        body = self._body.getvalue() if isinstance(self._body, BytesIO) else self._body
        self._answer = HttpAnswer(self._status, self._head or (), body, truncated=self._size > self._kept)
        return self._answer

    def _check(self, head: tuple[tuple[bytes, bytes], ...]) -> None:
        values = b"".join([value for _, value in head])
        if len(values.translate(None, _CONTROLS)) != len(values):
            raise Malformed("a header of the answer holds control characters")
        if len(head) > MOST_HEADERS:
            raise Malformed(f"the answer has more than {MOST_HEADERS} headers")
        if self._fed > LARGEST_HEAD and self._heads + _size(head) > LARGEST_HEAD:
            raise Malformed(f"the head of the answer is larger than {LARGEST_HEAD} bytes")

    def _check_progress(self, padding: int) -> None:
        if self._head is None:
            if self._fed > LARGEST_HEAD:
                raise Malformed(f"the head of the answer is larger than {LARGEST_HEAD} bytes")
            if len(self._headers) > MOST_HEADERS:
                raise Malformed(f"the answer has more than {MOST_HEADERS} headers")
            return
        self._padding = self._padding + padding if padding else 0
        if self._padding > MOST_PADDING:
            raise Malformed(f"more than {MOST_PADDING} bytes between two pieces of the answer's body")


def _size(head: tuple[tuple[bytes, bytes], ...]) -> int:
    # Colon, blank and line end are part of each line.
    return sum(len(name) + len(value) + 4 for name, value in head)


def _framed(head: tuple[tuple[bytes, bytes], ...]) -> bool:
    """Does the head itself tell where the body ends? Source: RFC 9112, section 6.3."""
    codings = [value for name, value in head if name == b"transfer-encoding"]
    if codings:
        return codings[-1].lower().endswith(b"chunked")
    return any(name == b"content-length" for name, _ in head)


def _keep_alive(head: tuple[tuple[bytes, bytes], ...]) -> float:
    fields = dict(head)
    if b"transfer-encoding" in fields and b"content-length" in fields:
        # A proxy before the subscriber may have cut the bytes by the length: the bytes that follow are not trusted.
        return 0.0
    announced = fields.get(b"keep-alive")
    return KEEP_ALIVE_SECONDS if announced is None else min(KEEP_ALIVE_SECONDS, _announced(announced))


def _announced(value: bytes) -> float:
    """The seconds of `timeout=5, max=100`, less one: the server must not close while we send."""
    for parameter in value.split(b","):
        key, _, number = parameter.strip().partition(b"=")
        if key.lower() == b"timeout" and number.strip().isdigit():
            seconds = float(number)
            return seconds - min(1.0, seconds / 2)
    return KEEP_ALIVE_SECONDS


def _explained(error: Exception) -> Malformed:
    if isinstance(error.__context__, Malformed):
        return error.__context__
    return Malformed(f"the answer is no HTTP ({error})")
