"""The checks of a request's head, and what is left of it without an upgrade or an absolute URL.

It is pure. `headrace.server.protocol` calls it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Header = tuple[bytes, bytes]

VERSIONS = ("1.1", "1.0")
# The headers of an upgrade; "connection: close" is kept apart.
_UPGRADE_HEADERS = (b"upgrade", b"http2-settings", b"connection")
# A request line, with an empty line in front of it that RFC 9112 (section 2.2) would have us ignore. The parser also
# reads other protocols, several blanks, and lines without a version. A target has no character that a URL may not have
# and that others read in two ways: `#`, a backslash, quotes, angles.
_LINE = re.compile(
    rb"(?:\r\n)?(?:OPTIONS \*|CONNECT [!-~]+|[A-Z-]+ (?:/|(?i:https?)://)[!$-;=?-\[\]-~]*) HTTP/[0-9]\.[0-9]\r\n"
)
_HOST = re.compile(rb"[A-Za-z0-9!$%&'()*+,.:;=\[\]_~-]*")
# The groups are the authority, and the rest. Origin form begins with a slash.
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]+)(.*)", re.DOTALL)


def good_line(start: bytes) -> bool | None:
    """Does a message begin with a request line to the letter? None: the end of that line has not come."""
    # Of an empty line in front of it the end does not count.
    return None if start.find(b"\n", 2) < 0 else _LINE.match(start) is not None


def fault(version: str, headers: Sequence[Header], url: bytes) -> int | None:
    """The status that refuses a head; None for a good one.

    Refused are other versions than 1.0 and 1.1, two Hosts, none in HTTP/1.1, an odd one, an absolute URL of another
    host, transfer codings other than `chunked`, and any in HTTP/1.0.
    """
    if version not in VERSIONS:
        return 505
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1") or not all(map(_HOST.fullmatch, hosts)):
        return 400
    for name, value in headers:
        if name == b"transfer-encoding" and (version == "1.0" or value.strip().lower() != b"chunked"):
            # Who stands in front of us may end such a body elsewhere.
            return 400 if version == "1.0" else 501
    found = _ABSOLUTE.fullmatch(url)
    # Whoever let the request through may have read either.
    return None if found is None or [found[1].lower()] == [host.lower() for host in hosts] else 400


def origin_form(url: bytes) -> bytes:
    """The path and query of a URL without fault."""
    found = _ABSOLUTE.fullmatch(url)
    if found is None:
        return url
    return found[2] if found[2].startswith(b"/") else b"/" + found[2]


def length(headers: Sequence[Header]) -> int:
    """The length of a body that has one; 0 for none, and for a body that tells its end. The parser has checked it."""
    found = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return 0
        if name == b"content-length":
            found = int(value)
    return found


def without_upgrade(method: bytes, url: bytes, version: str, headers: Sequence[Header]) -> bytes:
    """The head without its offer of an upgrade."""
    closing = any(name == b"connection" and b"close" in value.lower() for name, value in headers)
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    lines += [b"%b: %b" % header for header in headers if header[0] not in _UPGRADE_HEADERS]
    if closing:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
