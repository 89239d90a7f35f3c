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
# The groups are the authority, and the rest. Origin form begins with a slash.
_ABSOLUTE = re.compile(rb"(?i:https?)://([^/?#]+)(.*)", re.DOTALL)


def fault(version: str, headers: Sequence[Header], url: bytes) -> int | None:
    """The status that refuses another HTTP version, two Hosts, HTTP/1.1 without a Host, or a URL that is neither in
    origin form nor an absolute one of the same host; None for a good head."""
    if version not in VERSIONS:
        return 505
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        return 400
    if url.startswith(b"/") or url == b"*":
        return None
    found = _ABSOLUTE.fullmatch(url)
    # Whoever let the request through may have read either.
    return 400 if found is None or [found[1].lower()] != [host.lower() for host in hosts] else None


def origin_form(url: bytes) -> bytes:
    """The path and query of a URL without fault."""
    found = None if url.startswith(b"/") else _ABSOLUTE.fullmatch(url)
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
