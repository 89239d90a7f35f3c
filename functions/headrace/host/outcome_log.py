"""The log of `forward`: a line per outcome of an event, with the names that people know.

A line holds no byte of data, and no attribute but the id. Success is logged at debug level only, and failures of one
kind sparingly: a subscriber that fails ten thousand times is one trouble, not ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.delivery.lease import Outcome
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.nats.jetstream import Message
from headrace.io.process import log

_log = log.get("forward")

Report = Callable[[Outcome, Message, str], None]


class OutcomeLog:
    """The log of all leases of a process."""

    def __init__(self) -> None:
        self._sparing = log.Sparing()

    def reporter(self, subscriber: Subscriber) -> Report:
        """A reporter of one Subscription's events; its lines say how many of their kind were left out before."""
        names = _names(subscriber)
        sparing = self._sparing
        # An event with budget left is less of an alarm, a success none.
        writers = {Outcome.DELIVERED: _log.debug, Outcome.RETRIED: _log.info}
        debugging = log.debugging()

        def report(outcome: Outcome, message: Message, why: str) -> None:
            if outcome is Outcome.DELIVERED:
                if not debugging:
                    # Return before the headers are read for a line that nobody gets.
                    return
                left_out: int | None = 0
            else:
                left_out = sparing.admit((names["subscription"], outcome))
            if left_out is None:
                return
            writers.get(outcome, _log.warning)(
                str(outcome),
                **names,
                event_id=message.headers.get("ce-id", ""),
                stream_seq=message.sequence,
                delivered=message.delivered,
                why=why,
                **log.more(left_out),
            )

        return report

    def tell_rest(self, subscriber: Subscriber) -> None:
        """Log, at the end of a lease, how many lines of each kind were left out since the last."""
        names = _names(subscriber)
        for outcome in Outcome:
            left_out = self._sparing.take((names["subscription"], outcome))
            if left_out:
                write = _log.info if outcome is Outcome.RETRIED else _log.warning
                write(str(outcome), **names, **log.more(left_out))


def _names(subscriber: Subscriber) -> dict[str, str]:
    return {"channel": f"{subscriber.namespace}/{subscriber.channel}", "subscription": subscriber.full_name}
