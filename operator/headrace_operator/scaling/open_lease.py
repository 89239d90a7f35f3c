"""One open lease, and what its time and its news do to the outlook of its consumer.

A lease beyond its time counts as late, or fresh events would wait for slow ones. When its process was told to end, it
is late at once. A trial (`headrace_operator.scaling.failures`) that has had events settled opens the way for all other
leases. Called by `headrace_operator.scaling.scaler`, which opens the lease and hears its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from headrace.core.delivery import lease
from headrace.core.delivery.lease import LEAST_PROGRESS, Lease
from headrace.core.delivery.order_spec import DeliveryOrder
from headrace.io.process import clock
from headrace_operator.scaling import failures, lag
from headrace_operator.scaling.lease_client import Meanwhile
from headrace_operator.scaling.served_streams import LeaseCounts, ScaledConsumer

# The request for a lease may travel for a while before the lease begins.
LATE_SECONDS = 2.0
# In this time an event can be settled; the lease reports it a tenth of a second later.
TRIAL_SECONDS = 1.0


class OpenLease:
    """One lease of a consumer, from its request to its end.

    Attributes:
        asked: the arguments of its request.
        is_short: the lease is so short that its end says nothing about the events that wait.
        works: the lease was a trial, and has had events settled.
        was_held: the lease's time has begun.
    """

    def __init__(self, served: ScaledConsumer, usual: Lease, note: Callable[[OpenLease], None]) -> None:
        """Args:
        usual: the arguments of a lease that is no trial.
        note: called when the outlook changes while the lease is open.
        """
        self.served = served
        self._note = note
        self._counts = LeaseCounts(served.counts)
        self._is_trial = self._counts_as_trial = failures.needs_trial(served.outlook)
        # With one lease at most there are no others for which a short trial would open the way.
        self.is_short = self._is_trial and served.outlook.max_scale > 1
        self.asked = _trial(usual) if self.is_short else usual
        # The request of a trial may wait for a pod as long as that of any lease.
        self._longest = usual.seconds + LATE_SECONDS
        self._pulls = self._late = self._ending = False
        self._timer: asyncio.TimerHandle | None = None
        self.works = self.was_held = False

    @property
    def any_settled(self) -> bool:
        """Has the lease reported settled events?"""
        return self._counts.any

    @contextmanager
    def timed(self) -> Iterator[Meanwhile]:
        """Watch the time of the lease while it is open; gives the listeners to its news."""
        self.was_held = True
        self._arm(self._longest)
        try:
            yield Meanwhile(self._is_ending, self._counted, self._pending)
        finally:
            self._disarm()
            self.end_trial()
            if self._late:
                self.served.outlook = lag.caught_up(self.served.outlook, ended=self._ending)

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = asyncio.get_running_loop().call_later(seconds, self._is_late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _is_late(self) -> None:
        self._late = True
        self.served.outlook = lag.overdue(self.served.outlook)
        self.end_trial()
        self._note(self)

    def _is_ending(self) -> None:
        # A by-key lease keeps all others out until its last event is settled (ADR 015).
        if self._late or self.served.subscriber.order.kind is DeliveryOrder.BY_KEY:
            return
        self._disarm()
        self._late = self._ending = True
        self.served.outlook = lag.ending(self.served.outlook, clock.monotonic())
        self.end_trial()
        self._note(self)

    def _counted(self, so_far: Mapping[str, int]) -> None:
        self._counts(so_far)
        if self.is_short and not self._pulls and not self._late:
            # After this time the lease pulls no more, however long its subscribers take.
            self._pulls = True
            self._arm(self.asked.seconds)
        if self._is_trial and lease.moved(so_far):
            self._is_trial = self._counts_as_trial = False
            self.works = True
            self.served.outlook = failures.works(self.served.outlook, clock.monotonic())
            self._note(self)

    def _pending(self, count: int) -> None:
        before = lag.short(self.served.outlook, now := clock.monotonic())
        self.served.outlook = lag.note_pending(self.served.outlook, count, now)
        if lag.short(self.served.outlook, now) > max(0, before):
            self._note(self)

    def end_trial(self) -> None:
        """The lease proves nothing more, but may still deliver."""
        if self._counts_as_trial:
            self._counts_as_trial = False
            self.served.outlook = failures.tried(self.served.outlook)


def _trial(usual: Lease) -> Lease:
    return replace(usual, seconds=min(TRIAL_SECONDS, usual.seconds), progress_seconds=LEAST_PROGRESS)
