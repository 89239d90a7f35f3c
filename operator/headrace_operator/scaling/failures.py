"""What failed leases do to the outlook of their consumer: after which pause one lease tries for all.

After a failure one lease, the *trial*, finds out whether `forward` is back. The trial is short, and is asked to report
its events soon: as soon as one of them is settled all other leases may open, before the trial ends (ADR 011). This
module is pure, like `headrace_operator.scaling.lag`, which reads the number of leases off the outlook. Called by
`headrace_operator.scaling.scaler` and `.open_lease`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace_operator.scaling.lag import LONGEST_PAUSE, Outlook, orphans

# A lost connection is back after about this time.
FIRST_FAILURE_PAUSE = 0.2


def needs_trial(outlook: Outlook) -> bool:
    """Is the next lease a trial for all others?"""
    return outlook.failures > 0


def failed(outlook: Outlook, now: float, chance: float, *, delivered: bool = False) -> Outlook:
    """A lease broke or could not be opened; another one is owed until a lease or a sweep says otherwise.

    Args:
        chance: from 0 to 1; it spreads the next leases of many consumers over time.
        delivered: the lease had events settled before it broke, so it does not belong to a row of failures.
    """
    before = 0 if delivered else outlook.failures
    # The leases that fail next could not be opened: they held no events.
    broken_at = outlook.broken_at if before else now
    after = replace(outlook, open=outlook.open - 1, hinted_at=now, broken_at=broken_at)
    if now < outlook.not_before:
        # Its neighbours broke with it: together they are one failure.
        return after
    failures = before + 1
    return replace(after, failures=failures, not_before=now + failure_pause(failures, chance))


def works(outlook: Outlook, now: float) -> Outlook:
    """The trial has had events settled: leases for the whole lag open at once, also for the events of broken leases."""
    return replace(outlook, failures=0, trials=0, not_before=-math.inf, due_again=orphans(outlook, now))


def tried(outlook: Outlook) -> Outlook:
    """The trial has ended or pulls no more, so another may be opened."""
    # Another trial may have succeeded meanwhile, and ended the trials of all.
    return replace(outlook, trials=max(0, outlook.trials - 1))


def forgiven(outlook: Outlook, now: float, chance: float) -> Outlook:
    """The cause of the failures may be gone: the next trial comes as soon as after a first failure."""
    if not outlook.failures:
        return outlook
    not_before = min(outlook.not_before, now + failure_pause(1, chance))
    return replace(outlook, failures=1, not_before=not_before)


def failure_pause(failures: int, chance: float) -> float:
    """Seconds after that many failures in a row, give or take a fifth."""
    pause = FIRST_FAILURE_PAUSE * 2.0 ** min(failures - 1, 16) * (0.8 + 0.4 * chance)
    return min(LONGEST_PAUSE, max(FIRST_FAILURE_PAUSE, pause))
