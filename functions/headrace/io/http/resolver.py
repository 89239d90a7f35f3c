"""Names to socket addresses, remembered for some seconds and asked for once at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import chain, zip_longest
from time import monotonic

from headrace.io.http.lookups import LOOK_UP_SECONDS, Ask, LookUps, Outcome, ask_system
from headrace.io.http.socket_address import SocketAddress, literal

# As long as a Service's addresses may be stale: the resolver tells no time to live.
REMEMBERED_SECONDS = 10.0
# A name that is just coming into being is wanted soon; a hundred events to one that is missing need one look-up.
FAILURE_REMEMBERED_SECONDS = 1.0
REMEMBERED_NAMES = 1024


class Unresolved(Exception):
    """The name has no address, or nobody could be asked."""


class _Known:
    """What came of asking for a name; each connection begins with another of its addresses."""

    def __init__(self, outcome: Outcome, now: float) -> None:
        failed = isinstance(outcome, str)
        self.until = now + (FAILURE_REMEMBERED_SECONDS if failed else REMEMBERED_SECONDS)
        self._outcome = outcome
        self._turn = -1

    def next(self, host: str, port: int) -> list[SocketAddress]:
        if isinstance(self._outcome, str):
            raise Unresolved(_words(host, self._outcome))
        self._turn += 1
        return [address.at(port) for address in in_turn(self._outcome, self._turn)]


class Resolver:
    """Remembers what was found, and shortly what was not; made inside the loop that uses it."""

    def __init__(
        self, ask: Ask = ask_system, clock: Callable[[], float] = monotonic, seconds: float = LOOK_UP_SECONDS
    ) -> None:
        """Asks nobody yet.

        Args:
            ask: called on threads.
            seconds: how long a look-up may take.
        """
        self._clock = clock
        self._look_ups = LookUps(ask, self._learn, seconds)
        self._known: dict[str, _Known] = {}
        self._wanted: dict[str, asyncio.Future[_Known]] = {}

    async def addresses(self, host: str, port: int) -> list[SocketAddress]:
        """Where to connect to, in the order to try.

        Raises:
            Unresolved: there is nowhere.
        """
        try:
            address = literal(host, port)
        except (OSError, ValueError) as error:
            raise Unresolved(_words(host, "its zone is no network interface of this machine")) from error
        if address is not None:
            return [address]
        known = self._known.get(host)
        if known is None or self._clock() >= known.until:
            known = await self._asked(host)
        return known.next(host, port)

    def close(self) -> None:
        """Leave the look-ups that are under way to themselves; who waits for one is told."""
        self._look_ups.close()
        for wanted in self._wanted.values():
            wanted.cancel()

    async def _asked(self, host: str) -> _Known:
        wanted = self._wanted.get(host)
        if wanted is None:
            wanted = self._wanted[host] = asyncio.get_running_loop().create_future()
            self._look_ups.begin(host)
        # Shared, and not cancelled with who waits for it: a look-up can't be called back from its thread.
        await asyncio.wait([wanted])
        if wanted.cancelled():
            raise Unresolved(f"nobody asks for the name {host!r} any more: this HTTP client is closed")
        return wanted.result()

    def _learn(self, host: str, outcome: Outcome) -> None:
        if len(self._known) >= REMEMBERED_NAMES:
            self._known.clear()
        known = self._known[host] = _Known(outcome, self._clock())
        wanted = self._wanted.pop(host, None)
        # Nobody waits for what comes too late; it is remembered all the same.
        if wanted is not None:
            wanted.set_result(known)


def in_turn(addresses: list[SocketAddress], turn: int) -> list[SocketAddress]:
    """The addresses in the order to try them at the `turn`-th connection (from 0).

    The families take turns, so that one which leads nowhere costs one failure; inside each, connections are spread.
    """
    families: dict[int, list[SocketAddress]] = {}
    for address in addresses:
        families.setdefault(address.family, []).append(address)
    rotated = [members[turn % len(members) :] + members[: turn % len(members)] for members in families.values()]
    return [address for address in chain.from_iterable(zip_longest(*rotated)) if address is not None]


def _words(host: str, reason: str) -> str:
    return f"the name {host!r} can't be resolved: {reason}"
