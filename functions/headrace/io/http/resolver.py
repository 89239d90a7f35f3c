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
from math import inf
from typing import TypeAlias

from headrace.io.http.socket_address import SocketAddress, in_turn, literal
from headrace.io.process import clock

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


class _LookUp:
    """The look-up of one name, and afterwards its outcome.

    Attributes:
        deadline: on the loop's clock; whoever waits longer gives up, while the look-up goes on.
        until: when its outcome is too old.
    """

    def __init__(self, deadline: float) -> None:
        self.task: asyncio.Task[Outcome]
        self.deadline = deadline
        self.until = inf
        self.turn = -1


class Resolver:
    """Remembers addresses, and failures for a shorter time; made inside the loop that uses it."""

    def __init__(self, ask: Ask = ask_system, seconds: float = LOOK_UP_SECONDS) -> None:
        """Args:
        ask: called on threads.
        seconds: how long a look-up may take, the wait for a thread included.
        """
        self._ask = ask
        self._seconds = seconds
        self._threads = asyncio.Semaphore(MOST_AT_ONCE)
        self._look_ups: dict[str, _LookUp] = {}

    async def addresses(self, host: str, port: int) -> list[SocketAddress]:
        """The addresses of a host, in the order to try; each connection begins with another of them.

        Raises:
            NoAddress: it has none.
        """
        try:
            address = literal(host, port)
        except (OSError, ValueError) as error:
            raise NoAddress(_words(host, "its zone is no network interface of this machine")) from error
        if address is not None:
            return [address]
        found = self._look_ups.get(host)
        if found is None or clock.monotonic() >= found.until:
            found = self._begin(host)
        # Callers share the task, and none of them cancels it: a look-up can't be called back from its thread.
        await asyncio.wait([found.task], timeout=max(0.0, found.deadline - asyncio.get_running_loop().time()))
        if found.task.cancelled():
            raise NoAddress(f"nobody asks for the name {host!r} any more: this HTTP client is closed")
        outcome = found.task.result() if found.task.done() else self._too_long()
        if isinstance(outcome, str):
            raise NoAddress(_words(host, outcome))
        found.turn += 1
        return [each.at(port) for each in in_turn(outcome, found.turn)]

    def close(self) -> None:
        """Give up the look-ups that are under way; a waiting caller gets NoAddress."""
        for one in self._look_ups.values():
            one.task.cancel()

    def _begin(self, host: str) -> _LookUp:
        if len(self._look_ups) >= REMEMBERED_NAMES:
            self._look_ups = {name: one for name, one in self._look_ups.items() if not one.task.done()}
        begun = self._look_ups[host] = _LookUp(asyncio.get_running_loop().time() + self._seconds)
        begun.task = asyncio.create_task(self._look_up(host, begun))
        return begun

    async def _look_up(self, host: str, begun: _LookUp) -> Outcome:
        """One look-up; an outcome that comes too late is remembered, too."""
        outcome: Outcome = self._too_long()
        with suppress(TimeoutError):
            async with asyncio.timeout_at(begun.deadline):
                await self._threads.acquire()
            outcome = await self._by_thread(host)
        lasts = FAILURE_REMEMBERED_SECONDS if isinstance(outcome, str) else REMEMBERED_SECONDS
        begun.until = clock.monotonic() + lasts
        return outcome

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
