"""Where to dial: the configured servers and those that they tell of; and the pauses between rounds.

The order is random, so that a herd of clients spreads over a cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.core.errors import Misconfigured
from headrace.io import log

DEFAULT_PORT = 4222
# A NATS restart is usually over within the publish deadline of `receive`; a server that refuses us is asked seldom.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0

_log = log.get("nats")


@dataclass(frozen=True, slots=True)
class Server:
    """One address.

    Attributes:
        tls: TLS is demanded by the URL.
        user, password: of the URL, which win over all other settings; a user without password is a token.
        tls_name: the name that the certificate must have; differs from host for a discovered IP address.
    """

    host: str
    port: int
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    tls_name: str = ""

    @property
    def address(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Servers:
    """The pool."""

    def __init__(self, urls: str) -> None:
        """Args:
        urls: comma separated; `nats://`, `tls://` or no scheme.

        Raises:
            Misconfigured: one of them can't be used.
        """
        parsed = [_parse(url.strip()) for url in urls.split(",") if url.strip()]
        if not parsed:
            raise Misconfigured("NATS_URL names no server: set it, as nats://127.0.0.1:4222", field="NATS_URL")
        self._configured = list(dict.fromkeys(parsed))
        self._discovered: list[Server] = []
        random.shuffle(self._configured)

    def learn(self, urls: Sequence[str], teller: Server) -> None:
        """Take over what a server says of its cluster; servers that it doesn't name any more are forgotten."""
        known = {server.address for server in self._configured}
        found = [server for url in urls if (server := _discovered(url, teller)) and server.address not in known]
        self._discovered = list(dict.fromkeys(found))
        random.shuffle(self._discovered)

    def round(self, last: Server | None = None) -> list[Server]:
        """Every server once, in the order to try; the one that was just lost comes last."""
        servers = [*self._configured, *self._discovered]
        return sorted(servers, key=lambda server: server == last)

    def others(self, than: Server) -> list[Server]:
        return [server for server in self.round() if server != than]


def pauses() -> Iterator[float]:
    """Seconds to wait before each round, growing, with jitter."""
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause * (0.5 + random.random() / 2)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def _parse(url: str) -> Server:
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        server = _server(parts)
    except ValueError:
        server = None
    if server is None or parts.scheme not in ("nats", "tls"):
        # Without its userinfo: it may be a password.
        shown = url.rpartition("@")[2]
        raise Misconfigured(
            f"NATS_URL has {shown!r}: write nats://host:port or tls://host:port, several with commas", field="NATS_URL"
        )
    return server


def _server(parts: SplitResult) -> Server | None:
    if not parts.hostname or parts.path not in ("", "/"):
        return None
    return Server(
        host=parts.hostname,
        port=parts.port or DEFAULT_PORT,
        tls=parts.scheme == "tls",
        user=None if parts.username is None else unquote(parts.username),
        password=None if parts.password is None else unquote(parts.password),
        tls_name=parts.hostname,
    )


def _discovered(url: str, teller: Server) -> Server | None:
    """What a server calls another: `host:port`; it takes the same clients, so it gets the same userinfo."""
    try:
        parts = urlsplit(f"nats://{url}")
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host = None
    if not host:
        _log.debug("a server tells of an address that can't be used", address=url[:80])
        return None
    return Server(host, port, teller.tls, teller.user, teller.password, teller.tls_name if _is_ip(host) else host)


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
