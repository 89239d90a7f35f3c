"""Names to socket addresses, remembered for some seconds and asked for once at a time."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from itertools import chain, zip_longest
from time import monotonic
from typing import Any, NamedTuple

# As long as a Service's addresses may be stale: the resolver tells no time to live.
REMEMBERED_SECONDS = 10.0
REMEMBERED_NAMES = 1024


class SocketAddress(NamedTuple):
    family: int
    address: tuple[Any, ...]
    """What `socket.connect` takes for the family: the numeric host comes first."""


class Unresolved(Exception):
    """The name has no address, or nobody could be asked."""


Ask = Callable[[str, int], Awaitable[list[SocketAddress]]]
"""Asks for the addresses of a name; OSError when there is none, or nobody to ask."""


class _Found:
    """What a name leads to; each connection begins with another of its addresses."""

    def __init__(self, addresses: list[SocketAddress], until: float) -> None:
        self.until = until
        self._addresses = addresses
        self._turn = -1

    def next(self) -> list[SocketAddress]:
        self._turn += 1
        return in_turn(self._addresses, self._turn)


async def ask_system(host: str, port: int) -> list[SocketAddress]:
    """The system's resolver, on the event loop's threads."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [SocketAddress(entry[0], entry[4]) for entry in entries]


class Resolver:
    """Remembers what was found; what was not found is asked for again."""

    def __init__(self, ask: Ask = ask_system, clock: Callable[[], float] = monotonic) -> None:
        self._ask = ask
        self._clock = clock
        self._found: dict[tuple[str, int], _Found] = {}
        self._asking: dict[tuple[str, int], asyncio.Task[_Found]] = {}

    async def addresses(self, host: str, port: int) -> list[SocketAddress]:
        """Where to connect to, in the order to try.

        Raises:
            Unresolved: there is nowhere.
        """
        literal = _literal(host, port)
        if literal:
            return literal
        key = (host, port)
        found = self._found.get(key)
        if found is None or self._clock() >= found.until:
            # Shared, and not cancelled with who waits for it: a look-up can't be called back from its thread.
            asking = self._asking.get(key) or self._begin(key)
            await asyncio.wait([asking])
            if asking.cancelled():
                raise Unresolved(f"nobody asks for the name {host!r} any more: this HTTP client is closed")
            found = asking.result()
        return found.next()

    async def close(self) -> None:
        """Leave the look-ups that are under way to themselves."""
        asking = list(self._asking.values())
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)

    def _begin(self, key: tuple[str, int]) -> asyncio.Task[_Found]:
        task = asyncio.get_running_loop().create_task(self._look_up(*key), name=f"resolve {key[0]}")
        self._asking[key] = task

        def answered(_: asyncio.Task[_Found]) -> None:
            del self._asking[key]
            if not task.cancelled():
                # All who waited may have gone meanwhile: an error that nobody takes would be reported.
                task.exception()

        task.add_done_callback(answered)
        return task

    async def _look_up(self, host: str, port: int) -> _Found:
        try:
            addresses = await self._ask(host, port)
        except OSError as error:
            raise Unresolved(f"the name {host!r} can't be resolved: {error.strerror or error}") from error
        if len(self._found) >= REMEMBERED_NAMES:
            self._found.clear()
        found = self._found[host, port] = _Found(addresses, self._clock() + REMEMBERED_SECONDS)
        return found


def in_turn(addresses: list[SocketAddress], turn: int) -> list[SocketAddress]:
    """The addresses in the order to try them at the `turn`-th connection (from 0).

    The families take turns, so that one which leads nowhere costs one failure; inside each, connections are spread.
    """
    families: dict[int, list[SocketAddress]] = {}
    for address in addresses:
        families.setdefault(address.family, []).append(address)
    rotated = [members[turn % len(members) :] + members[: turn % len(members)] for members in families.values()]
    return [address for address in chain.from_iterable(zip_longest(*rotated)) if address is not None]


def _literal(host: str, port: int) -> list[SocketAddress]:
    """The address that a literal is; nothing for a name. Asks nobody, so that it may run on the event loop."""
    try:
        entries = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
        )
    except OSError:
        return []
    return [SocketAddress(entry[0], entry[4]) for entry in entries]
