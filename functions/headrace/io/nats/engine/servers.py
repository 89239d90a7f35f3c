"""Where to dial: the configured servers and those that they tell of; and the pauses between rounds.

The order is random, so that a herd of clients spreads over a cluster.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from headrace.core.nats.nats_wire import Server, discovered, read_servers
from headrace.io.process import log

# A NATS restart is usually over within the publish deadline of `receive`; a server that refuses us is asked seldom.
FIRST_PAUSE_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 2.0

_log = log.get("nats")


class Servers:
    """The pool."""

    def __init__(self, urls: str) -> None:
        """Args:
        urls: comma separated; `nats://`, `tls://` or no scheme.

        Raises:
            Misconfigured: one of them can't be used.
        """
        self._configured = read_servers(urls, origin="NATS_URL")
        self._discovered: list[Server] = []
        random.shuffle(self._configured)

    def learn(self, urls: Sequence[str], teller: Server) -> None:
        """Take over what a server says of its cluster; servers that it doesn't name any more are forgotten."""
        known = {server.address for server in self._configured}
        found = [server for url in urls if (server := _found(url, teller)) and server.address not in known]
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


def _found(url: str, teller: Server) -> Server | None:
    server = discovered(url, teller)
    if server is None:
        _log.debug("a server tells of an address that can't be used", address=url[:80])
    return server
