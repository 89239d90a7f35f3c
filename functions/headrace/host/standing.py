"""Standing leases: `forward` opens them on itself, one after the other, in the runtime `deployment`.

A consumer always has one lease that pulls. A lease begins with a look at the consumer, so that an edit takes effect
with the next lease. Its successor begins when its time is up, even while it still waits for slow subscribers; but no
more leases are open at once than the subscriber may have. After an error, without a consumer, or with one that gets no
deliveries, we try again for ever. The module knows when to open a lease; `headrace.host.leasing` serves it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar

from headrace.core.delivery.lease import Lease, Tally
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.http import Response
from headrace.core.installation.function_settings import ForwardSettings
from headrace.core.quoting import quoted
from headrace.io.process import log

# After so long the consumer is read again; while nothing comes, a lease is one open pull.
LEASE_SECONDS = 10.0
# A lease may need a moment to notice that its time is up.
LATE_SECONDS = 1.0
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0

_NAMES = re.compile(r"([^\s.*>/\\]+)/([^\s.*>/\\]+)")

_log = log.get("forward")

Result = TypeVar("Result")


class Leases(Protocol):
    """The holder of leases; both methods raise Unavailable when NATS is away, and Refused."""

    async def look_up(self, asked: Lease) -> tuple[Mapping[str, Any], Subscriber] | Response:
        """The consumer's CONSUMER.INFO and its subscriber, or the reason that it can't be served."""

    async def pull(
        self, asked: Lease, subscriber: Subscriber, info: Mapping[str, Any], stop: asyncio.Event, tally: Tally
    ) -> None:
        """Hold one lease."""


class Standing:
    """The standing leases of this process; made inside the loop that serves them, closed by its owner."""

    def __init__(self, wanted: Iterable[Lease], leases: Leases) -> None:
        self._leases = leases
        self._ending = asyncio.Event()
        self._tasks = {asyncio.create_task(self._stand(one), name=f"{one.stream}/{one.consumer}") for one in wanted}

    def drain(self) -> None:
        """Begin no more leases; the holder stops the open ones."""
        self._ending.set()

    async def close(self) -> None:
        """Return when the last lease has finished its events in hand."""
        self.drain()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _stand(self, wanted: Lease) -> None:
        open_leases: set[asyncio.Task[str]] = set()
        complaint, pause = "", FIRST_PAUSE
        while not self._ending.is_set():
            found = await self._found(wanted)
            problem = found if isinstance(found, str) else ""
            complaint = _log_change(wanted, complaint, problem)
            if not isinstance(found, str):
                problem = await self._one_more(wanted, *found, open_leases)
                complaint = _log_change(wanted, complaint, problem)
            if problem:
                await self._nap(pause)
            pause = min(2 * pause, LONGEST_PAUSE) if problem else FIRST_PAUSE
        if open_leases:
            await asyncio.wait(open_leases)

    async def _found(self, wanted: Lease) -> tuple[Mapping[str, Any], Subscriber] | str:
        """The consumer's info and its subscriber, or in words why it can't be served."""
        found = await _problem_of(self._leases.look_up(wanted))
        return found.body.decode(errors="replace") if isinstance(found, Response) else found

    async def _one_more(
        self, wanted: Lease, info: Mapping[str, Any], subscriber: Subscriber, open_leases: set[asyncio.Task[str]]
    ) -> str:
        """Hold a lease for as long as it pulls; return its trouble in words, or nothing."""
        while len(open_leases) >= subscriber.most_leases:
            await asyncio.wait(open_leases, return_when=asyncio.FIRST_COMPLETED)
        if self._ending.is_set():
            return ""
        lease = asyncio.create_task(self._held(wanted, info, subscriber))
        open_leases.add(lease)
        lease.add_done_callback(open_leases.discard)
        done, _ = await asyncio.wait({lease}, timeout=wanted.seconds + LATE_SECONDS)
        return lease.result() if done else ""

    async def _held(self, wanted: Lease, info: Mapping[str, Any], subscriber: Subscriber) -> str:
        async def held() -> None:
            await self._leases.pull(wanted, subscriber, info, asyncio.Event(), Tally())

        return await _problem_of(held()) or ""

    async def _nap(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()


def wanted_leases(settings: ForwardSettings) -> tuple[Lease, ...]:
    """The leases that FORWARD_CONSUMERS asks for, `<stream>/<consumer>` with spaces between.

    Raises:
        Misconfigured: a word of it is no such pair.
    """
    leases = []
    for word in dict.fromkeys(settings.consumers.split()):
        names = _NAMES.fullmatch(word)
        if names is None:
            problem = f"FORWARD_CONSUMERS has {quoted(word, 200)}: give <stream>/<consumer>, several with spaces"
            raise Misconfigured(problem, field="FORWARD_CONSUMERS")
        # It lingers for its whole time: nobody else would open another lease.
        stream, consumer = names.groups()
        limits = settings.max_in_flight, settings.max_in_flight_bytes
        leases.append(Lease(stream, consumer, LEASE_SECONDS, LEASE_SECONDS, *limits))
    return tuple(leases)


def _log_change(lease: Lease, before: str, problem: str) -> str:
    """Log a trouble, once for each reason: a server that is away for an hour would fill the log."""
    words = {"stream": lease.stream, "consumer": lease.consumer}
    if problem and problem != before:
        _log.warning("can't deliver, trying again", **words, error=problem)
    elif before and not problem:
        _log.info("delivering again", **words)
    return problem


async def _problem_of(work: Awaitable[Result]) -> Result | str:
    """The result of some work, or the words of its error."""
    try:
        return await work
    except (Unavailable, Refused) as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # as for a lease by HTTP: the next lease tries again
        _log.exception("a lease failed")
        return f"{type(error).__name__}: {error}"
