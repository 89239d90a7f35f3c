"""Wakes `forward`: opens leases in proportion to lag, and none where there is no lag.

Hears wake hints, watches the clock for due times, sweeps as the safety net. Every decision is
`headrace_operator.lag`'s; here is only when to ask it and what to do then. A slot opens its next lease right after the
answer of the one before and never earlier: an overlap costs a pod (ADR 011). For `headrace up` and the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any

from headrace.core import names
from headrace.core.errors import HeadraceError, Refused
from headrace.core.lease import DEFAULT_SECONDS, Lease, LeaseAnswer, Outcome
from headrace.core.order_spec import DeliveryOrder
from headrace.io import hints, log
from headrace.io.api import JetStreamApi
from headrace.io.client import Client
from headrace_operator import lag, losses
from headrace_operator.agenda import Agenda
from headrace_operator.lease_client import Meanwhile
from headrace_operator.served import Clock, LeaseCounts, Served, ServedStreams
from headrace_operator.sweep import Sweep

OpenLease = Callable[[Lease, Meanwhile], Awaitable[LeaseAnswer]]
"""Holds one lease until it ends, and calls back with what it tells before; raises Unavailable or Refused."""

# A stream without consumers may be hinted at twenty times a second.
REFRESH_SECONDS = 1.0
# Thoughts are coalesced, so that many answers at once cost one pass.
PASS_SECONDS = 0.01
# A lease of 20 s may be a little longer on its way before it begins.
LATE_SECONDS = 2.0

_log = log.get("scaler")


class Scaler:
    """Holds the leases of all consumers of the streams that it serves.

    Attributes:
        on_change: called whenever `stats` has changed.
        on_trouble: called with a stream of which a condition may have changed: a window has turned full, or has room
            again, or events are stuck or lost.
        on_missing: called with a stream that does not exist, or has lost a consumer that was served.
        spares: says of a stream and a consumer whether somebody pulls there without end: no lease is opened then.
    """

    def __init__(
        self,
        client: Client,
        api: JetStreamApi,
        open_lease: OpenLease,
        *,
        max_in_flight: int = 100,
        lease_seconds: float = DEFAULT_SECONDS,
        sweep_seconds: float = 5.0,
        clock: Clock | None = None,
    ) -> None:
        self._client = client
        self._open_lease = open_lease
        self._max_in_flight = max_in_flight
        self._lease_seconds = lease_seconds
        self._sweep_seconds = sweep_seconds
        self._clock = clock or Clock()
        self._streams = ServedStreams(api, self._clock)
        self._tasks: asyncio.TaskGroup | None = None
        self._agenda = Agenda(self._clock.monotonic)
        self._sweep = Sweep(api, self._streams, self._note_look)
        self._open = 0
        self._sweep_now = asyncio.Event()
        self.on_change: list[Callable[[], None]] = []
        self.on_trouble: list[Callable[[str], None]] = []
        self.spares: Callable[[str, str], bool] = lambda _stream, _consumer: False
        self._slots: dict[tuple[str, str], set[asyncio.Task[None]]] = {}
        self._streams.on_turned.append(self._on_turned)
        self._streams.on_lost.append(self._tell_of_trouble)
        self.on_missing = self._streams.on_missing

    def serve(self, streams: Iterable[str]) -> None:
        """Replace the set of served streams; open leases of others are given up."""
        if self._streams.replace(streams):
            self._sweep_now.set()

    async def run(self) -> None:
        """Serve until cancelled; that closes the open leases' connections."""
        self._streams.begin()
        self._open = 0
        subject, sweep_now = names.wake_subject(">"), self._sweep_now.set
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(hints.hear(self._client, subject, self._on_hint, sweep_now), name="hints")
                tasks.create_task(self._sweep_for_ever(), name="sweep")
                tasks.create_task(self._keep_the_agenda(), name="agenda")
        finally:
            self._tasks = None

    async def refresh(self, stream: str) -> None:
        """Read the consumers of a stream again: they have just been changed. Failing is left to the sweep."""
        with suppress(HeadraceError):
            await self._streams.look_at(stream)
        self._note_look(stream)
        self._tell_listeners()

    def look_soon(self, stream: str) -> None:
        """Like `refresh`, without waiting for it."""
        if self._tasks is None:
            self._sweep_now.set()
        else:
            self._spawn(self.refresh(stream))

    def stats(self) -> dict[str, Any]:
        """Leases opened, open now and failed, in all and per consumer, as JSON values."""
        rows = {f"{served.stream}/{served.consumer}": served.row for served in self._streams.all()}
        totals = {name: sum(row[name] for row in rows.values()) for name in ("opened", "open", "failures")}
        return {**totals, "consumers": rows}

    def rows(self) -> list[dict[str, Any]]:
        """One for each consumer, as JSON values."""
        return [served.row for served in self._streams.all()]

    def _on_hint(self, subject: str) -> None:
        name = subject.removeprefix(names.wake_subject(""))
        stream = self._streams.get(name)
        if stream is None:
            return
        now = self._clock.monotonic()
        for served in stream.consumers.values():
            served.outlook = lag.hinted(served.outlook, now)
            self._fill(served)
        if not stream.consumers and now >= stream.listed_at + REFRESH_SECONDS:
            stream.listed_at = now
            self._spawn(self.refresh(name))

    def _on_turned(self, served: Served) -> None:
        """Give up its open leases: they would deliver by the old word for up to 20 s."""
        slots = self._slots.get(served.key, set())
        if slots:
            _log.info("leases are given up: the Subscription has changed", **served.words)
            served.outlook = lag.hinted(served.outlook, self._clock.monotonic())
        for slot in slots:
            slot.cancel()

    async def _keep_the_agenda(self) -> None:
        while True:
            for stream, consumer in await self._agenda.take():
                found = self._streams.get(stream)
                served = found.consumers.get(consumer) if found is not None else None
                if served is None:
                    self._agenda.plan((stream, consumer), None)
                    continue
                self._fill(served)
                self._tell_if_turned(served)
                self._agenda.plan(served.key, lag.look_again_at(served.outlook, self._clock.monotonic()))
            await asyncio.sleep(PASS_SECONDS)

    async def _sweep_for_ever(self) -> None:
        while True:
            self._sweep_now.clear()
            await self._sweep.once()
            self._tell_listeners()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._sweep_seconds):
                    await self._sweep_now.wait()

    def _fill(self, served: Served) -> None:
        """Open as many slots as the consumer is short of."""
        if self.spares(*served.key):
            return
        now = self._clock.monotonic()
        why = lag.reason(served.outlook, now)
        for _ in range(lag.short(served.outlook, now)):
            self._note_opened(served, why)
            slots = self._slots.setdefault(served.key, set())
            slot = self._spawn(self._hold_slot(served))
            slots.add(slot)
            slot.add_done_callback(slots.discard)

    async def _hold_slot(self, served: Served) -> None:
        while True:
            try:
                await self._hold_lease(served)
            finally:
                self._open -= 1
            now = self._clock.monotonic()
            if not self._streams.holds(served) or lag.short(served.outlook, now) <= 0:
                break
            self._note_opened(served, lag.reason(served.outlook, now))
        self._note_change(served)
        if not self._open:
            _log.debug("forward is idle", **served.words)

    async def _hold_lease(self, served: Served) -> None:
        wanted = Lease(served.stream, served.consumer, self._lease_seconds, max_in_flight=self._max_in_flight)
        counts = LeaseCounts(served.counts)
        try:
            async with self._timed(served, wanted.seconds + LATE_SECONDS) as is_ending:
                answer = await self._open_lease(wanted, Meanwhile(is_ending, counts))
        except asyncio.CancelledError:
            served.outlook = lag.abandoned(served.outlook)
            self._note_change(served)
            raise
        except Exception as error:  # noqa: BLE001  # foreseen or not, it is the trouble of one lease
            self._note_failed(served, error, delivered=counts.any)
            if isinstance(error, Refused):
                await self.refresh(served.stream)
            return
        _log.debug("lease ended", **served.words, answer=answer)
        if served.complaint:
            served.complaint = ""
            _log.info("leases work again", **served.words)
        now = self._clock.monotonic()
        look_closer = lag.hint_is_late(served.outlook, now)
        self._note_outcomes(served, answer)
        served.outlook = lag.answered(served.outlook, answer, now)
        if look_closer:
            await self._streams.look_closer(served)

    @asynccontextmanager
    async def _timed(self, served: Served, seconds: float) -> AsyncIterator[Callable[[], None]]:
        """While a lease is open: beyond its time it counts as late, or fresh events would wait for slow ones.

        Gives what to call when its process was told to end, which makes it late at once.
        """
        late = ending = False

        def is_late() -> None:
            nonlocal late
            late = True
            served.outlook = lag.overdue(served.outlook)
            self._note_change(served)

        def is_ending() -> None:
            nonlocal late, ending
            # A by-key lease keeps all others out until its last event is settled (ADR 015).
            if late or served.subscriber.order.kind is DeliveryOrder.BY_KEY:
                return
            timer.cancel()
            late = ending = True
            served.outlook = lag.ending(served.outlook, self._clock.monotonic())
            self._note_change(served)

        timer = asyncio.get_running_loop().call_later(seconds, is_late)
        try:
            yield is_ending
        finally:
            timer.cancel()
            if late:
                served.outlook = lag.caught_up(served.outlook, ended=ending)

    def _note_opened(self, served: Served, why: str) -> None:
        if not self._open:
            _log.debug("forward is woken", **served.words, why=why)
        served.outlook = lag.opened(served.outlook, self._clock.monotonic())
        served.opened += 1
        self._open += 1
        self._note_change(served)

    def _note_failed(self, served: Served, error: Exception, *, delivered: bool) -> None:
        words = str(error) if isinstance(error, HeadraceError) else f"unforeseen: {error!r}"
        served.failures += 1
        served.outlook = lag.failed(served.outlook, self._clock.monotonic(), self._clock.chance(), delivered=delivered)
        # Once per reason: a forward that is away for an hour would fill the log.
        if served.complaint != words:
            served.complaint = words
            _log.warning("lease failed, trying again", **served.words, error=words)

    def _note_outcomes(self, served: Served, answer: LeaseAnswer) -> None:
        told = answer.counts[Outcome.STUCK] or answer.counts[Outcome.DISCARDED]
        if told or losses.in_lease(served.outlook, answer):
            self._tell_of_trouble(served)

    def _tell_if_turned(self, served: Served) -> None:
        if served.full != served.outlook.counters.full:
            served.full = served.outlook.counters.full
            self._tell_of_trouble(served)

    def _tell_of_trouble(self, served: Served) -> None:
        for listener in self.on_trouble:
            listener(served.stream)

    def _note_change(self, served: Served) -> None:
        self._agenda.add((served.key,))
        self._tell_listeners()

    def _note_look(self, stream: str) -> None:
        found = self._streams.get(stream)
        self._agenda.add((stream, consumer) for consumer in (found.consumers if found is not None else ()))

    def _tell_listeners(self) -> None:
        for listener in self.on_change:
            listener()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        assert self._tasks is not None, "leases are opened by run() and what it calls"
        return self._tasks.create_task(work)
