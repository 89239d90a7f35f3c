"""The head of a request, checked against injection; its constant parts are made ready once.

It is pure. `headrace.io.http.client` calls it for every POST, on the hot path.
"""

from __future__ import annotations

import re

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.http import Headers
from headrace.io.http.address import Address

USER_AGENT = b"headrace"
# The framing is ours: the caller's headers of these names are dropped.
_OURS = frozenset((b"host", b"content-length", b"transfer-encoding", b"connection"))
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
# All control characters but the tab. CR, LF and NUL could smuggle a header or a request; so many servers refuse the
# others that our own error is the better answer.
_CONTROLS = bytes(code for code in (*range(0x20), 0x7F) if code != 0x09)
# Events bring the names, so their number has no end.
_REMEMBERED = 512


class HeaderNames:
    """Header names that passed the check, ready to be written; all destinations share them."""

    def __init__(self) -> None:
        self.ready: dict[bytes, bytes] = {}
        """Name to line start; read directly on the hot path."""

    def learn(self, name: bytes) -> bytes:
        """The line start of a name that is not in `ready`; empty when the line must not be sent.

        Raises:
            InvalidEvent: the name is no HTTP token.
        """
        if not _TOKEN.fullmatch(name):
            raise InvalidEvent(Fault(_quoted(name), "can't be the name of an HTTP header: it is no token"))
        lowered = name.lower()
        if lowered in _OURS:
            return b""
        start = b"\r\n%b: " % name
        # This user agent replaces ours: `RequestHead` notices it only while the name stays unknown.
        if lowered != b"user-agent" and len(self.ready) < _REMEMBERED:
            self.ready[name] = start
        return start


class RequestHead:
    """The heads of all POSTs to one address."""

    def __init__(self, address: Address, names: HeaderNames) -> None:
        self._names = names
        self._anonymous = b"POST %b HTTP/1.1\r\nHost: %b" % (address.target, address.host_header)
        self._opening = b"%b\r\nUser-Agent: %b" % (self._anonymous, USER_AGENT)

    def ready(self, headers: Headers) -> ReadyHead:
        """The heads of POSTs that all end with these headers.

        Raises:
            InvalidEvent: as `render`.
        """
        before, _, after = self.render(headers, 0).partition(self._opening)
        if before:
            raise InvalidEvent(Fault("User-Agent", "is said anew by each event: it can't be one for all"))
        return ReadyHead(self._opening + b"\r\n", after.removesuffix(b"0\r\n\r\n").removeprefix(b"\r\n"))

    def render(self, headers: Headers, length: int) -> bytes:
        """A whole head, with the blank line that ends it.

        Args:
            length: bytes of the body.

        Raises:
            InvalidEvent: a header's name is no token, or its value holds a control character; the error names it.
        """
        ready = self._names.ready
        parts = [self._opening]
        for name, value in headers:
            start = ready.get(name)
            if start is None:
                start = self._names.learn(name)
                if not start:
                    continue
                if name.lower() == b"user-agent":
                    parts[0] = self._anonymous
            parts.append(start)
            parts.append(value)
        parts.append(b"\r\nContent-Length: %d\r\n\r\n" % length)
        head = b"".join(parts)
        # One pass over the whole head: it may hold two control characters per line end, and no others.
        lines = len(parts) // 2 + (4 if parts[0] is self._opening else 3)
        if len(head) - len(head.translate(None, _CONTROLS)) != 2 * lines:
            raise InvalidEvent(*_faults(headers))
        return head


class ReadyHead:
    """Heads that differ only in some lines and in the length of the body."""

    def __init__(self, start: bytes, end: bytes) -> None:
        """Args:
        start: the head before those lines. end: the head after them, up to the length.
        """
        self._start = start
        self._end = end

    def render(self, lines: bytes, length: int) -> bytes:
        """A whole head.

        Args:
            lines: known to be good, each with its line end.
        """
        return b"%b%b%b%d\r\n\r\n" % (self._start, lines, self._end, length)


def _faults(headers: Headers) -> list[Fault]:
    return [
        Fault(_quoted(name), "its value holds control characters, which no HTTP header may")
        for name, value in headers
        if len(value.translate(None, _CONTROLS)) != len(value)
    ]


def _quoted(name: bytes) -> str:
    return repr(name.decode("latin-1"))
