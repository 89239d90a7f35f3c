"""Look-ups of names on threads of our own, so that those which hang keep nobody waiting but who asked for them.

Knows threads, time, and how many threads a domain may hold. Remembers nothing that was found.
Called by `headrace.io.http.resolver`, which asks for a name once at a time.

Not the event loop's look-ups: uvloop has four threads for them and all else, and fourteen names whose servers are
silent held up every connection, even those to literals. Not a ThreadPoolExecutor: a process that ends waits for its
threads, and would wait for look-ups that nobody wants any more.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from headrace.io.http.socket_address import SocketAddress

# What hangs longer counts as failed; its thread is held until the system's resolver gives up, which takes 10 to 40 s.
# More than 5 s, after which glibc asks again: one lost packet should cost no attempt.
LOOK_UP_SECONDS = 6.0
# A thread costs little while it waits. A domain in trouble must leave some to its zone, and a zone to the others.
MOST_AT_ONCE = 32
MOST_OF_A_ZONE = 16
MOST_OF_A_DOMAIN = 4

Ask = Callable[[str], list[SocketAddress]]
"""The addresses of a name, with any port; it may block. OSError when there is none, or nobody to ask."""
Outcome = list[SocketAddress] | str
"""What a look-up came to: addresses, or in words why there are none."""


def ask_system(host: str) -> list[SocketAddress]:
    """The system's resolver."""
    entries = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return [SocketAddress(entry[0], entry[4]) for entry in entries]


@dataclass(eq=False, slots=True)
class _LookUp:
    """One that waits for a thread, or has one.

    Attributes:
        shares: the domains whose threads it takes one of, with how many each may have.
        late: its time is over, but its thread still held.
    """

    shares: Mapping[str, int]
    timer: asyncio.TimerHandle
    late: bool = False


class LookUps:
    """All look-ups that are under way; made inside the loop that uses it."""

    def __init__(self, ask: Ask, tell: Callable[[str, Outcome], None], seconds: float = LOOK_UP_SECONDS) -> None:
        """Starts nothing yet.

        Args:
            ask: called on threads.
            tell: called on the event loop with a name and what came of it.
            seconds: how long a look-up may take, the wait for a thread included.
        """
        self._ask = ask
        self._tell = tell
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, _LookUp] = {}
        self._running: dict[str, _LookUp] = {}
        self._held: Counter[str] = Counter()
        self._late: Counter[str] = Counter()
        self._closed = False

    def begin(self, host: str) -> None:
        """Ask for a name that nobody waits for. `tell` learns in time what came of it, and again what comes too late.

        Where it is sure that there is no thread for it, that is told at once.
        """
        shares = shares_of(host)
        if host in self._running:
            self._tell(host, self._too_long())
            return
        for domain, most in shares.items():
            if self._late[domain] >= most:
                self._tell(host, f"{most} name look-ups{f' in {domain!r}' if domain else ''} hang before it")
                return
        self._waiting[host] = _LookUp(shares, self._loop.call_later(self._seconds, self._overdue, host))
        self._start_waiting()

    def close(self) -> None:
        """Forget all of them; threads end on their own, and not even the end of the process waits for them."""
        self._closed = True
        for look_up in (*self._waiting.values(), *self._running.values()):
            look_up.timer.cancel()
        self._waiting.clear()

    def _start_waiting(self) -> None:
        for host, look_up in list(self._waiting.items()):
            if all(self._held[domain] < most for domain, most in look_up.shares.items()):
                self._start(host, self._waiting.pop(host))

    def _start(self, host: str, look_up: _LookUp) -> None:
        self._running[host] = look_up
        self._held.update(look_up.shares.keys())
        try:
            threading.Thread(target=self._ask_on_thread, args=(host,), name=f"look up {host}", daemon=True).start()
        except RuntimeError as error:
            self._loop.call_soon(self._ended, host, str(error))

    def _ask_on_thread(self, host: str) -> None:
        outcome: Outcome = "the resolver broke"
        try:
            outcome = self._ask(host) or "it has no address"
        except OSError as error:
            outcome = error.strerror or str(error)
        finally:
            # There may be no event loop any more.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._ended, host, outcome)

    def _ended(self, host: str, outcome: Outcome) -> None:
        look_up = self._running.pop(host)
        look_up.timer.cancel()
        self._held.subtract(look_up.shares.keys())
        if look_up.late:
            self._late.subtract(look_up.shares.keys())
        if not self._closed:
            self._tell(host, outcome)
            self._start_waiting()

    def _overdue(self, host: str) -> None:
        if self._waiting.pop(host, None) is None:
            look_up = self._running[host]
            look_up.late = True
            self._late.update(look_up.shares.keys())
        self._tell(host, self._too_long())

    def _too_long(self) -> str:
        return f"name look-up took too long, more than {self._seconds:g} s"


def shares_of(host: str) -> dict[str, int]:
    """The domains whose threads a name's look-up takes one of, with how many each may have.

    All names are in one; a name's zone are its last two labels, and its domain all but its first label: in a cluster
    its namespace.
    """
    parents = host.rstrip(".").split(".")[1:]
    shares = {"": MOST_AT_ONCE}
    if parents:
        shares[".".join(parents[-2:])] = MOST_OF_A_ZONE
    if len(parents) > 1:
        shares[".".join(parents)] = MOST_OF_A_DOMAIN
    return shares
