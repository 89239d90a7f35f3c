"""Addresses of servers, as a deployer writes them and as a server tells of its cluster; in which order a client dials
them, and how long it pauses in between.

Both clients use this, `headrace.io.nats` and the blocking one of Spark's tasks. Chance is the caller's: it spreads a
herd of clients over a cluster and over time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import SplitResult, unquote, urlsplit

from headrace.core.errors import Misconfigured
from headrace.core.quoting import quoted

DEFAULT_PORT = 4222
# A NATS restart is usually over within the publish deadline of `receive`; a server that refuses us is asked seldom.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Server:
    """One address.

    Attributes:
        tls: the URL demands TLS.
        user, password: from the URL; they win over all other settings; a user without password is a token.
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


class ServerPool:
    """The servers that a client may dial.

    Attributes:
        configured: the servers of the settings; an owner that reads the settings again puts the new ones here.
    """

    def __init__(self, configured: Sequence[Server], shuffle: Callable[[list[Server]], None]) -> None:
        self.configured = configured
        self._shuffle = shuffle
        self._discovered: list[Server] = []

    def learn(self, urls: Sequence[str], teller: Server) -> None:
        """Take over a server's list of its cluster; a server that it names no more is forgotten."""
        known = {server.address for server in self.configured}
        found = [discovered(url, teller) for url in urls]
        self._discovered = [one for one in dict.fromkeys(found) if one is not None and one.address not in known]

    def round(self, last: Server | None = None) -> list[Server]:
        """Every server once, in the order to try; the one that was just lost comes last."""
        servers = [*self.configured, *self._discovered]
        self._shuffle(servers)
        return sorted(servers, key=lambda server: server == last)

    def others(self, than: Server) -> list[Server]:
        return [server for server in self.round() if server != than]

    def elsewhere(self, than: Server) -> list[Server]:
        """The others, or else the same name again, if there may be several servers behind it."""
        return self.others(than) or ([] if _is_ip(than.host) else [than])


def pauses(chance: Callable[[], float]) -> Iterator[float]:
    """Seconds to wait before each round: they grow, with jitter.

    Args:
        chance: gives a number from 0 to 1.
    """
    pause = FIRST_PAUSE_SECONDS
    while True:
        yield pause * (0.5 + chance() / 2)
        pause = min(pause * 2, LONGEST_PAUSE_SECONDS)


def read_servers(urls: str, *, origin: str) -> list[Server]:
    """The servers of a setting, each once.

    Args:
        urls: comma separated; `nats://`, `tls://` or no scheme.
        origin: the setting, for the error.

    Raises:
        Misconfigured: one of them can't be used, or there is none.
    """
    parsed = [_parse(url.strip(), origin) for url in urls.split(",") if url.strip()]
    if not parsed:
        raise Misconfigured(f"{origin} names no server: set it, as nats://127.0.0.1:4222", field=origin)
    return list(dict.fromkeys(parsed))


def discovered(url: str, teller: Server) -> Server | None:
    """A server that another one names by `host:port`; it takes the same clients, so it gets the same userinfo.

    None for an address that can't be used.
    """
    try:
        parts = urlsplit(f"nats://{url}")
        host, port = parts.hostname, parts.port or DEFAULT_PORT
    except ValueError:
        host = None
    if not host:
        return None
    return Server(host, port, teller.tls, teller.user, teller.password, teller.tls_name if _is_ip(host) else host)


def _parse(url: str, origin: str) -> Server:
    try:
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        server = _server(parts)
    except ValueError:
        server = None
    if server is None or parts.scheme not in ("nats", "tls"):
        # Without its userinfo: it may be a password.
        address = url.rpartition("@")[2]
        raise Misconfigured(
            f"{origin} has {quoted(address)}: write nats://host:port or tls://host:port, several with commas",
            field=origin,
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


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
