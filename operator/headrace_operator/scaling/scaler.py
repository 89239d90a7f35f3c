"""The scaler wakes `forward`: it opens leases in proportion to lag, and none where there is no lag.

It hears wake hints, watches the clock for due times, and sweeps as the safety net. `headrace_operator.scaling.lag`
makes every decision; the scaler knows when to ask it and what to do then. A slot opens its next lease right after the
answer of the one before and never earlier: an overlap costs a pod (ADR 011). The operator and `headrace up` run it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from typing import Any

from headrace.core import names
from headrace.core.delivery.lease import DEFAULT_SECONDS, Lease, LeaseAnswer
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import HeadraceError, Refused
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats import hints
from headrace.io.nats.client import Client
from headrace.io.process import clock, log
from headrace_operator.scaling import failures, lag, losses
from headrace_operator.scaling.agenda import Agenda
from headrace_operator.scaling.lease_client import Meanwhile
from headrace_operator.scaling.open_lease import OpenLease
from headrace_operator.scaling.served_streams import ScaledConsumer, ServedStreams
from headrace_operator.scaling.sweep import Sweep

LeaseOpener = Callable[[Subscriber, Lease, Meanwhile], Awaitable[LeaseAnswer]]
"""Holds one lease for a subscriber until it ends, and hands on its news; raises Unavailable or Refused."""

REFRESH_SECONDS = 1.0  # a stream without consumers may be hinted at twenty times a second
SWEEP_SECONDS = 5.0
# The pause after a sweep that NATS did not answer; such a sweep has mostly waited some seconds already.
SWEEP_AGAIN_SECONDS = 1.0
# Passes are coalesced, so that many answers at once cost one.
PASS_SECONDS = 0.01

_log = log.get("scaler")


class Scaler:
    """Holds the leases of all consumers of the streams that it serves.

    Attributes:
        on_change: called whenever `stats` has changed.
        on_trouble: called with a stream whose channel's conditions may have changed: an ack window has turned full or
            has room again, or events are stuck or lost, or a consumer stands ahead of its stream.
        on_missing: called with a stream that does not exist, or has lost a consumer that was served.
        spares: says whether a program pulls without end from a consumer; then no lease is opened.
    """

    def __init__(
        self,
        client: Client,
        api: JetStreamApi,
        open_lease: LeaseOpener,
        *,
        max_in_flight: int = 100,
        lease_seconds: float = DEFAULT_SECONDS,
        sweep_seconds: float = SWEEP_SECONDS,
    ) -> None:
        self._client = client
        self._open_lease = open_lease
        self._max_in_flight = max_in_flight
        self._lease_seconds = lease_seconds
        self._sweep_seconds = sweep_seconds
        self._streams = ServedStreams(api)
        self._tasks: asyncio.TaskGroup | None = None
        self._agenda = Agenda()
        self._sweep = Sweep(api, self._streams, self._note_look)
        self._open = 0
        self._sparing = log.Sparing()
        self._sweep_now = asyncio.Event()
        self.on_change: list[Callable[[], None]] = []
        self.on_trouble: list[Callable[[str], None]] = []
        self.spares: Callable[[ScaledConsumer], bool] = lambda _: False
        self._slots: dict[tuple[str, str], set[asyncio.Task[None]]] = {}
        self._streams.on_turned.append(self._on_turned)
        self._streams.on_lost.append(self._tell_of_trouble)
        self.on_missing = self._streams.on_missing

    def serve(self, streams: Iterable[str]) -> None:
        """Replace the set of served streams; open leases of other streams are given up."""
        if self._streams.replace(streams):
            self._sweep_now.set()

    async def run(self) -> None:
        """Serve until cancelled; that closes the open leases' connections."""
        self._streams.begin()
        self._open = 0
        subject = names.wake_subject(">")
        try:
            async with asyncio.TaskGroup() as tasks:
                self._tasks = tasks
                tasks.create_task(hints.hear(self._client, subject, self._on_hint, self._on_restored), name="hints")
                tasks.create_task(self._sweep_for_ever(), name="sweep")
                tasks.create_task(self._keep_the_agenda(), name="agenda")
        finally:
            self._tasks = None

    async def refresh(self, stream: str) -> None:
        """Read the consumers of a stream again, since they have just been changed; if that fails, the sweep will."""
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
        """One row for each consumer, as JSON values."""
        return [served.row for served in self._streams.all()]

    def arrived(self, stream: str, *, alone: bool) -> None:
        """A request has woken the `receive` of the stream's channel; `alone`: it serves no other channel."""
        found = self._streams.get(stream) if self._tasks is not None else None
        for served in found.consumers.values() if found is not None else ():
            if served.wakes_early(alone=alone):
                self._wake(served)

    def _on_hint(self, subject: str, data: bytes) -> None:
        name = subject.removeprefix(names.wake_subject(""))
        stream = self._streams.get(name)
        if stream is None:
            return
        if data == names.FULL_HINT:
            for listener in self.on_trouble:
                listener(name)
            return
        for served in stream.consumers.values():
            self._wake(served)
        if not stream.consumers and (now := clock.monotonic()) >= stream.listed_at + REFRESH_SECONDS:
            stream.listed_at = now
            self._spawn(self.refresh(name))

    def _wake(self, served: ScaledConsumer) -> None:
        served.outlook = lag.hinted(served.outlook, clock.monotonic())
        self._fill(served)

    def _on_restored(self) -> None:
        """NATS is there (again): the cause of failed leases may be gone, and hints may have been missed."""
        for served in self._streams.all():
            served.outlook = failures.forgiven(served.outlook, clock.monotonic(), random.random())
            self._agenda.add((served.key,))
        self._streams.doubt()
        self._sweep_now.set()

    def _on_turned(self, served: ScaledConsumer) -> None:
        """Give up the consumer's open leases: they would follow its old metadata for up to 20 s."""
        slots = self._slots.get(served.key, set())
        if slots:
            _log.info("leases are given up: the Subscription has changed", **served.words)
            served.outlook = lag.hinted(served.outlook, clock.monotonic())
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
                if served.is_turned():
                    self._tell_of_trouble(served)
                self._agenda.plan(served.key, lag.look_again_at(served.outlook, clock.monotonic()))
            await asyncio.sleep(PASS_SECONDS)

    async def _sweep_for_ever(self) -> None:
        while True:
            self._sweep_now.clear()
            # NATS may not answer yet when it has just come back, and no hint reports events that were stored meanwhile.
            pause = self._sweep_seconds if await self._sweep.once() else SWEEP_AGAIN_SECONDS
            self._tell_listeners()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._sweep_now.wait()

    def _fill(self, served: ScaledConsumer) -> None:
        """Open as many slots as the consumer is short of."""
        if self.spares(served):
            return
        for _ in range(lag.short(served.outlook, clock.monotonic())):
            self._open_slot(served)

    def _open_slot(self, served: ScaledConsumer) -> None:
        held, slots = self._begin(served), self._slots.setdefault(served.key, set())

        def is_over(slot: asyncio.Task[None]) -> None:
            slots.discard(slot)
            if not held.was_held:
                # The slot was cancelled before it began: without this its lease would count as open for ever.
                self._open -= 1
                self._note_abandoned(held)

        slot = self._spawn(self._hold_slot(held))
        slots.add(slot)
        slot.add_done_callback(is_over)

    async def _hold_slot(self, held: OpenLease) -> None:
        served = held.served
        while True:
            try:
                await self._hold_lease(held)
            finally:
                self._open -= 1
            if not self._streams.holds(served) or lag.short(served.outlook, clock.monotonic()) <= 0:
                break
            held = self._begin(served)
        self._note_change(served)
        if not self._open:
            _log.debug("forward is idle", **served.words)

    async def _hold_lease(self, held: OpenLease) -> None:
        served = held.served
        try:
            with held.timed() as meanwhile:
                answer = await self._open_lease(served.subscriber, held.asked, meanwhile)
        except asyncio.CancelledError:
            self._note_abandoned(held)
            raise
        except Exception as error:  # noqa: BLE001  # foreseen or not, it is the trouble of one lease
            self._note_failed(served, error, delivered=held.any_settled)
            if isinstance(error, Refused):
                await self.refresh(served.stream)
            return
        _log.debug("lease ended", **served.words, answer=answer)
        if served.trouble.over():
            _log.info("leases work again", **served.words)
        now = clock.monotonic()
        look_closer = lag.hint_is_late(served.outlook, now)
        if losses.told_by(served.outlook, answer):
            self._tell_of_trouble(served)
        served.outlook = lag.answered(served.outlook, answer, now, cut=held.is_short)
        if look_closer:
            await self._streams.look_closer(served)

    def _begin(self, served: ScaledConsumer) -> OpenLease:
        """Count one more open lease; the caller holds it at once."""
        now = clock.monotonic()
        if not self._open:
            _log.debug("forward is woken", **served.words, why=lag.reason(served.outlook, now))
        usual = Lease(served.stream, served.consumer, self._lease_seconds, max_in_flight=self._max_in_flight)
        held = OpenLease(served, usual, self._on_news)
        served.outlook = lag.opened(served.outlook, now)
        served.opened += 1
        self._open += 1
        self._note_change(served)
        return held

    def _on_news(self, held: OpenLease) -> None:
        self._note_change(held.served)
        if held.works:
            # While no event could be delivered, nobody has counted the new ones.
            self._spawn(self._look_closer(held.served))

    async def _look_closer(self, served: ScaledConsumer) -> None:
        await self._streams.look_closer(served)
        self._note_change(served)

    def _note_abandoned(self, held: OpenLease) -> None:
        held.end_trial()
        held.served.outlook = lag.abandoned(held.served.outlook)
        self._note_change(held.served)

    def _note_failed(self, served: ScaledConsumer, error: Exception, *, delivered: bool) -> None:
        words = str(error) if isinstance(error, HeadraceError) else f"unforeseen: {error!r}"
        served.failures += 1
        now, chance = clock.monotonic(), random.random()
        served.outlook = failures.failed(served.outlook, now, chance, delivered=delivered)
        # A forward that is away for an hour, for a thousand consumers, would fill the log.
        told = served.trouble.note(words)
        if told:
            # A condition may have to say why the lease fails.
            self._tell_of_trouble(served)
        left_out = self._sparing.admit("lease failed") if told else None
        write = _log.debug if left_out is None else _log.warning
        write("lease failed, trying again", **served.words, error=words, **log.more(left_out or 0))

    def _tell_of_trouble(self, served: ScaledConsumer) -> None:
        for listener in self.on_trouble:
            listener(served.stream)

    def _note_change(self, served: ScaledConsumer) -> None:
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
