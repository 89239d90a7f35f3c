"""The checks of a request's head, and the head without its upgrade or its absolute URL.

It is pure. `headrace.server.protocol` calls it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

Header = tuple[bytes, bytes]

VERSIONS = ("1.1", "1.0")
# The headers of an upgrade; "connection: close" is kept apart.
_UPGRADE_HEADERS = (b"upgrade", b"http2-settings", b"connection")
# The groups are the authority without userinfo, and the rest. Origin form begins with a slash.
_ABSOLUTE = re.compile(rb"[a-z][a-z0-9+.-]*://(?:[^/?#@]*@)?([^/?#]+)(.*)", re.IGNORECASE | re.DOTALL)


def fault(version: str, headers: Sequence[Header]) -> int | None:
    """The status that refuses another HTTP version, two Hosts, or HTTP/1.1 without a Host; None for a good head."""
    if version not in VERSIONS:
        return 505
    hosts = [name for name, _ in headers].count(b"host")
    return 400 if hosts > 1 or (hosts == 0 and version == "1.1") else None


def absolute(url: bytes) -> tuple[bytes, bytes] | None:
    """Host and origin form of a URL in absolute form; None for a URL in another form."""
    found = None if url.startswith(b"/") else _ABSOLUTE.fullmatch(url)
    if found is None:
        return None
    authority, rest = found.groups()
    return authority, rest if rest.startswith(b"/") else b"/" + rest


def without_upgrade(method: bytes, url: bytes, version: str, headers: Sequence[Header]) -> bytes:
    """The head without its offer of an upgrade."""
    closing = any(name == b"connection" and b"close" in value.lower() for name, value in headers)
    lines = [b"%b %b HTTP/%b" % (method, url, version.encode())]
    lines += [b"%b: %b" % header for header in headers if header[0] not in _UPGRADE_HEADERS]
    if closing:
        lines.append(b"connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"
