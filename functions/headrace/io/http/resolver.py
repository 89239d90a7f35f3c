"""Socket addresses of names, remembered for some seconds; a name is looked up once at a time, on a thread of our own.

We don't use the event loop's look-ups: uvloop has four threads for them and for all else, and fourteen names with
silent servers held up every connection, even those to literals. We don't use a ThreadPoolExecutor: a process that ends
would wait for its threads, and so for look-ups that nobody wants any more.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TypeAlias

from headrace.io.http.socket_address import SocketAddress, in_turn, literal

# A longer look-up counts as failed; its thread stays busy until the system's resolver gives up, after 10 to 40 s.
# The bound is above the 5 s after which glibc asks again: one lost packet should cost no attempt.
LOOK_UP_SECONDS = 6.0
# A waiting thread costs little. When so many names hang, the next name waits its time for a thread and then fails.
MOST_AT_ONCE = 64
# So long a Service's addresses may be stale: the resolver tells no time to live.
REMEMBERED_SECONDS = 10.0
# A name that is just being created is needed soon; a hundred events to a missing name need one look-up.
FAILURE_REMEMBERED_SECONDS = 1.0
REMEMBERED_NAMES = 1024

Ask: TypeAlias = Callable[[str], list[SocketAddress]]
"""It returns the addresses of a name, with any port; it may block. OSError: no address, or no resolver."""
Outcome: TypeAlias = list[SocketAddress] | str
"""The end of a look-up: addresses, or in words why there are none."""


class NoAddress(Exception):
    """The name has no address, or no resolver answered."""


def ask_system(host: str) -> list[SocketAddress]:
    """The system's resolver."""
    entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [SocketAddress(entry[0], entry[4]) for entry in entries]


class _Known:
    """The outcome for one name; each connection begins with another of its addresses."""

    def __init__(self, outcome: Outcome, now: float) -> None:
        failed = isinstance(outcome, str)
        self.until = now + (FAILURE_REMEMBERED_SECONDS if failed else REMEMBERED_SECONDS)
        self._outcome = outcome
        self._turn = -1

    def next(self, host: str, port: int) -> list[SocketAddress]:
        if isinstance(self._outcome, str):
            raise NoAddress(_words(host, self._outcome))
        self._turn += 1
        return [address.at(port) for address in in_turn(self._outcome, self._turn)]


class Resolver:
    """Remembers addresses, and failures for a shorter time; made inside the loop that uses it."""

    def __init__(
        self, ask: Ask = ask_system, clock: Callable[[], float] = monotonic, seconds: float = LOOK_UP_SECONDS
    ) -> None:
        """Args:
        ask: called on threads.
        seconds: how long a look-up may take, the wait for a thread included.
        """
        self._ask = ask
        self._clock = clock
        self._seconds = seconds
        self._known: dict[str, _Known] = {}
        self._threads = asyncio.Semaphore(MOST_AT_ONCE)
        # Each with its deadline on the loop's clock.
        self._under_way: dict[str, tuple[asyncio.Task[_Known], float]] = {}

    async def addresses(self, host: str, port: int) -> list[SocketAddress]:
        """The addresses of a host, in the order to try.

        Raises:
            NoAddress: it has none.
        """
        try:
            address = literal(host, port)
        except (OSError, ValueError) as error:
            raise NoAddress(_words(host, "its zone is no network interface of this machine")) from error
        if address is not None:
            return [address]
        known = self._known.get(host)
        if known is None or self._clock() >= known.until:
            known = await self._looked_up(host)
        return known.next(host, port)

    def close(self) -> None:
        """Give up the look-ups that are under way; a waiting caller gets NoAddress."""
        for task, _ in self._under_way.values():
            task.cancel()

    async def _looked_up(self, host: str) -> _Known:
        loop = asyncio.get_running_loop()
        if host not in self._under_way:
            deadline = loop.time() + self._seconds
            self._under_way[host] = asyncio.create_task(self._look_up(host, deadline)), deadline
        task, deadline = self._under_way[host]
        # Callers share the task, and none of them cancels it: a look-up can't be called back from its thread.
        await asyncio.wait([task], timeout=max(0.0, deadline - loop.time()))
        if task.cancelled():
            raise NoAddress(f"nobody asks for the name {host!r} any more: this HTTP client is closed")
        if not task.done():
            raise NoAddress(_words(host, self._too_long()))
        return task.result()

    async def _look_up(self, host: str, deadline: float) -> _Known:
        """One look-up; an outcome that comes too late is remembered, too."""
        outcome: Outcome = self._too_long()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._threads.acquire()
            outcome = await self._by_thread(host)
        if len(self._known) >= REMEMBERED_NAMES:
            self._known.clear()
        known = self._known[host] = _Known(outcome, self._clock())
        del self._under_way[host]
        return known

    async def _by_thread(self, host: str) -> Outcome:
        """The outcome of one look-up; the semaphore is released when the thread has ended."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Outcome] = loop.create_future()

        def end(outcome: Outcome) -> None:
            self._threads.release()
            if not ended.done():
                ended.set_result(outcome)

        def ask() -> None:
            outcome: Outcome = "the resolver broke"
            try:
                outcome = self._ask(host) or "it has no address"
            except OSError as error:
                outcome = error.strerror or str(error)
            finally:
                # The event loop may be gone.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(end, outcome)

        try:
            threading.Thread(target=ask, name=f"look up {host}", daemon=True).start()
        except RuntimeError as error:
            end(str(error))
        return await ended

    def _too_long(self) -> str:
        return f"name look-up took too long, more than {self._seconds:g} s"


def _words(host: str, reason: str) -> str:
    return f"the name {host!r} can't be resolved: {reason}"
