"""What failed leases do to the outlook of their consumer: who tries for all, and after which pause.

After a failure one lease, the *trial*, finds out whether `forward` is back. It is short, and asked to tell of its
events soon: with the first that it has had settled all others may open, before it ends (ADR 011). Pure, like
`headrace_operator.scaling.lag`, which reads off the outlook how many leases that are. Called by
`headrace_operator.scaling.scaler` and `.open_lease`.
"""

from __future__ import annotations

import math
from dataclasses import replace

from headrace_operator.scaling.lag import LONGEST_PAUSE, Outlook, orphans

# About what a lost connection lasts.
FIRST_FAILURE_PAUSE = 0.2


def needs_trial(outlook: Outlook) -> bool:
    """Is the next lease one that tries for all?"""
    return outlook.failures > 0


def failed(outlook: Outlook, now: float, chance: float, *, delivered: bool = False) -> Outlook:
    """A lease broke, or could not be opened; it is owed until a lease or a sweep says otherwise.

    Args:
        chance: from 0 to 1, parts the herd.
        delivered: the lease had events settled before it broke: then it was none of a row of failures.
    """
    before = 0 if delivered else outlook.failures
    # The failures that follow are of leases that could not be opened: they held nothing.
    broken_at = outlook.broken_at if before else now
    after = replace(outlook, open=outlook.open - 1, hinted_at=now, broken_at=broken_at)
    if now < outlook.not_before:
        # Its neighbours broke with it: one failure.
        return after
    failures = before + 1
    return replace(after, failures=failures, not_before=now + failure_pause(failures, chance))


def works(outlook: Outlook, now: float) -> Outlook:
    """The trial has had events settled: as many leases as there is lag for, at once; for what broken ones held, too."""
    return replace(outlook, failures=0, trials=0, not_before=-math.inf, due_again=orphans(outlook, now))


def tried(outlook: Outlook) -> Outlook:
    """The trial has ended, or pulls no more: another may be opened."""
    # Another one may have worked meanwhile, and ended the trials of all.
    return replace(outlook, trials=max(0, outlook.trials - 1))


def forgiven(outlook: Outlook, now: float, chance: float) -> Outlook:
    """What leases have failed of may be over: the next trial comes as soon as after a first failure."""
    if not outlook.failures:
        return outlook
    not_before = min(outlook.not_before, now + failure_pause(1, chance))
    return replace(outlook, failures=1, not_before=not_before)


def failure_pause(failures: int, chance: float) -> float:
    """Seconds after that many failures in a row, give or take a fifth."""
    pause = FIRST_FAILURE_PAUSE * 2.0 ** min(failures - 1, 16) * (0.8 + 0.4 * chance)
    return min(LONGEST_PAUSE, max(FIRST_FAILURE_PAUSE, pause))
