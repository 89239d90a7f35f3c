"""Signs that events vanished while they waited for their retry: a limit discarded them, or somebody purged them.

Nobody reports a loss: the consumer just has fewer events out than before, and no lease of ours has settled them. When
this module suspects a loss, `reconcile` counts. The module is pure; `headrace_operator.scaling.scaler` and
`.served_streams` call it before they take in news.
"""

from __future__ import annotations

from headrace.core.delivery.lease import LeaseAnswer, Outcome
from headrace_operator.scaling.lag import Counters, Outlook


def told_by(before: Outlook, answer: LeaseAnswer) -> bool:
    """Does a lease report events that are stuck or discarded, or do its numbers show a loss?"""
    return bool(answer.counts[Outcome.STUCK] or answer.counts[Outcome.DISCARDED]) or in_lease(before, answer)


def in_lease(before: Outlook, answer: LeaseAnswer) -> bool:
    """Are there fewer un-acked events after a lease that moved none?"""
    return not answer.moved and answer.ack_pending < before.counters.ack_pending


def between_leases(before: Outlook, known: Counters) -> bool:
    """Are there fewer un-acked events than before though no lease is open, and did some wait for their due time?

    If none did, the server may just have been slow to count the last acks.
    """
    waited = bool(before.dues) or before.due_at is not None
    return waited and not before.open and known.ack_pending < before.counters.ack_pending
