"""How many events a lease pulls ahead, beyond those in its subscriber's hands.

A lease that holds only what is in hand runs dry during each pull, and falls behind `receive` on a busy machine. So it
pulls ahead, but no more than its subscriber lately answered within AHEAD_SECONDS: the events wait about so long at
most. For a slow subscriber that is hardly any event: they stay in the stream, where another lease may pull them.

Pure arithmetic; called by `headrace.forward.lease` before each pull.
"""

from __future__ import annotations

AHEAD_SECONDS = 0.05
# The least time between two looks: over a shorter one, a single batch of answers would decide.
LOOK_SECONDS = 0.025
# Times the events that may be in hand: with 100 of these, p50 of events in and out was best at 400 in all (ADR 056).
MOST = 3


def most_ahead(in_hand: int, unsettled: int, leases: int) -> int:
    """The events that one lease may hold ahead at most.

    Args:
        in_hand: how many it may have in hand.
        unsettled: how many the server lets be unsettled, over all leases (`max_ack_pending`); below 1: any number.
        leases: how many there may be.
    """
    if unsettled < 1:
        return MOST * in_hand
    # People are told of a full ack window as of a trouble, so pulling ahead must not fill it.
    return max(0, min(MOST * in_hand, (unsettled // leases - in_hand) // 2))


class Ahead:
    """The events that one lease may hold ahead.

    Attributes:
        events: how many, since the latest look.
    """

    def __init__(self, most: int) -> None:
        self.events = 0
        self._most = most
        self._delivered = 0
        self._looked_at = 0.0

    def look(self, delivered: int, now: float) -> None:
        """Look again at how quickly the subscriber answers.

        Args:
            delivered: events that the lease has delivered so far.
        """
        seconds = now - self._looked_at
        if seconds >= LOOK_SECONDS:
            self.events = min(self._most, int((delivered - self._delivered) * AHEAD_SECONDS / seconds))
            self._delivered, self._looked_at = delivered, now
