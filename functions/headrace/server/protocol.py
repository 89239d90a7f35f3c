"""uvicorn's HTTP protocol, with the bounds that a server on a hostile network needs.

uvicorn's own takes a head without end, starts a request with an empty body when the client offers an upgrade (h2c),
mixes trailers into the headers, takes requests for no host or for two, and waits for ever for one that was begun. Here:

- a head is at most 64 KiB with 256 headers, its URL at most 8 KiB (431 and 414),
- a request is complete within 20 s of its first byte (408),
- an offered upgrade is ignored, as RFC 9110 section 7.8 allows, and the body is read,
- trailers are dropped,
- HTTP/1.1 without a Host, and any request with two, is refused (400), as RFC 9112 section 3.2 demands; in an absolute
  URL the authority is the Host (section 3.2.2); versions other than 1.0 and 1.1 are refused (505),
- at shutdown a request whose body is not complete yet gets 2 s more: nothing of it has been accepted.
"""

from __future__ import annotations

import asyncio
import re

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

LONGEST_HEAD = 64 * 1024
MOST_HEADERS = 256
LONGEST_URL = 8 * 1024
# Knative's own event receiver allows 10 s; a slow producer of a large event may take a little longer.
REQUEST_SECONDS = 20.0
LAST_SECONDS = 2.0

# What an upgrade is asked with; "connection: close" is kept apart.
_UPGRADE_HEADERS = (b"upgrade", b"http2-settings", b"connection")
# Its authority without userinfo, and the rest. Origin form begins with a slash.
_ABSOLUTE = re.compile(rb"[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#]+)(.*)", re.IGNORECASE | re.DOTALL)


class Stopped(Exception):
    """Raised inside the parser's callbacks, which know no other way to stop it."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    _deadline: asyncio.TimerHandle | None = None
    _in_head = False
    _complete = True
    _head_bytes = 0
    # Messages of which the bytes that are being read hold something.
    _begun_in_read = 0
    _refused = 0
    _over = False

    def data_received(self, data: bytes) -> None:
        if self._over:
            return
        self._unset_keepalive_if_required()
        self._begun_in_read = 0 if self._complete else 1
        try:
            self._feed(data)
        except (httptools.HttpParserError, Stopped):
            self._refuse(self._refused or 400)
            return
        if not self._complete:
            self._await_more(len(data))
        elif self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _await_more(self, size: int) -> None:
        """The message that is being read lacks something; it came last in a read of so many bytes."""
        if self._in_head:
            # Behind another in the same read, nobody tells how much of that it has; of the next reads, all is its own.
            if self._begun_in_read < 2:
                self._head_bytes += size
            if self._head_bytes > LONGEST_HEAD:
                self._refuse(431)
                return
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self._expire, 408)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        super().shutdown()
        if not self._complete:
            self.loop.call_later(LAST_SECONDS, self._expire, 503)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._complete, self._head_bytes = True, False, 0
        self._begun_in_read += 1

    def on_url(self, url: bytes) -> None:
        if len(self.url) + len(url) > LONGEST_URL:
            self._stop(414)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: whoever checks headers in front of us has not seen it
        if len(self.headers) >= MOST_HEADERS or len(name) + len(value) > LONGEST_HEAD:
            self._stop(431)
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        if not self.parser.should_upgrade():
            self._check_host()
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            self._complete = True
            super().on_message_complete()

    def _feed(self, data: bytes) -> None:
        # A view, and a loop: thousands of small requests that offer an upgrade fit into what is read at once.
        rest = memoryview(data)
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserUpgrade as upgrade:
                if self.parser.get_method() == b"CONNECT":
                    self._stop(405)
                rest = rest[upgrade.args[0] :]
                head = self._head_without_upgrade()
                self.parser = httptools.HttpRequestParser(self)
                self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                self.parser.feed_data(head)
            else:
                return

    def _head_without_upgrade(self) -> bytes:
        """The request as it would be from a client that offers no upgrade."""
        closing = any(name == b"connection" and b"close" in value.lower() for name, value in self.headers)
        kept = [(name, value) for name, value in self.headers if name not in _UPGRADE_HEADERS]
        if closing:
            kept.append((b"connection", b"close"))
        version = self.parser.get_http_version().encode()
        lines = [self.parser.get_method() + b" " + self.url + b" HTTP/" + version]
        lines += [name + b": " + value for name, value in kept]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    def _check_host(self) -> None:
        """See to it that a request is for one host, and that its headers say which."""
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(505)
        hosts = [name for name, _ in self.headers].count(b"host")
        if hosts > 1 or (hosts == 0 and version == "1.1"):
            self._stop(400)
        absolute = None if self.url.startswith(b"/") else _ABSOLUTE.fullmatch(self.url)
        if absolute is not None:
            authority, rest = absolute.groups()
            self.url = rest if rest.startswith(b"/") else b"/" + rest
            # In place: the application has been given this list.
            self.headers[:] = [header for header in self.headers if header[0] != b"host"]
            self.headers.append((b"host", authority))

    def _stop(self, status: int) -> None:
        self._refused = status
        raise Stopped(status)

    def _expire(self, status: int) -> None:
        self._deadline = None
        if not self._complete and not self.transport.is_closing():
            self._refuse(status)

    def _refuse(self, status: int) -> None:
        """Answer unless an answer has begun, and close: what comes next on this connection can't be told apart."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self._over = True
        waits = self.cycle is not None and not self.cycle.response_complete
        if waits and not self.cycle.more_body:
            # A whole request came before: an answer now would be taken for its own. Its own closes the connection.
            self.cycle.keep_alive = False
            return
        # With others in front of it, it gets no answer at all.
        begun = waits and (self.cycle.response_started or bool(self.pipeline))
        if not begun and not self.transport.is_closing():
            again = b"retry-after: 1\r\n" if status == 503 else b""
            if (told := getattr(self.app, "refused", None)) is not None:
                # Ours counts it; the floors of the bench do not.
                told(status)
            self.transport.write(STATUS_LINE[status] + again + b"content-length: 0\r\nconnection: close\r\n\r\n")
        self.transport.close()
