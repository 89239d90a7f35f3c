"""The address in a destination's URI, for a connection and for a request line.

It is pure and looks nothing up. `headrace.io.http.client` calls it once per destination.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from headrace.core.errors import InvalidSpec
from headrace.core.event.uri import checked_uri, redacted

_DEFAULT_PORTS = {"http": 80, "https": 443}
# Path and query as given; urlsplit would lose an empty query. The fragment is never sent.
_TARGET = re.compile(r"[^:]+://[^/?#]*([^#]*)")


@dataclass(frozen=True, slots=True)
class Address:
    """The server of one destination, and the target there.

    Attributes:
        host: name or literal, in ASCII, without brackets; an IPv6 literal may carry a zone, as in `fe80::1%eth0`.
        host_header: with the port only where it is not the scheme's own.
        target: path and query as in the URI; characters beyond ASCII are percent-encoded.
    """

    tls: bool
    host: str
    port: int
    host_header: bytes
    target: bytes

    @property
    def server_name(self) -> str:
        """The name that the server's certificate must hold."""
        return self.host.partition("%")[0].rstrip(".")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(uri: str) -> Address:
    """The address of a URI.

    Raises:
        InvalidSpec: no request can be made of it: it has blanks or control characters, another scheme, a user or
            password, or a host that is none. The error shows scheme and host only: the rest may be a secret, and
            errors reach logs.
    """
    text = checked_uri(uri, field="uri")
    parts = urlsplit(text)
    host = _ascii((parts.hostname or "").replace("%25", "%"), text)
    port = _DEFAULT_PORTS[parts.scheme] if parts.port is None else parts.port
    named = f"[{host.partition('%')[0]}]" if ":" in host else host
    header = named if port == _DEFAULT_PORTS[parts.scheme] else f"{named}:{port}"
    return Address(parts.scheme == "https", host, port, header.encode(), _target(text))


def _target(text: str) -> bytes:
    found = _TARGET.match(text)
    target = found[1] if found else ""
    rooted = target if target.startswith("/") else f"/{target}"
    try:
        return quote(rooted, safe=string.printable).encode()
    except UnicodeEncodeError as error:
        raise InvalidSpec(
            f"uri {redacted(text)} holds half a character: percent-encode its path", field="uri"
        ) from error


def _ascii(host: str, text: str) -> str:
    if ":" in host:
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise InvalidSpec(f"uri {redacted(text)}: the host is no domain name", field="uri") from None
