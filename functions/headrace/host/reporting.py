"""What the log says of each event of a lease. Called by `headrace.host.leasing`."""

from __future__ import annotations

from collections.abc import Callable

from headrace.core.jetstream import Message
from headrace.core.lease import Outcome
from headrace.core.subscriber import Subscriber
from headrace.io import log

_log = log.get("forward")


def reporter(subscriber: Subscriber) -> Callable[[Outcome, Message, str], None]:
    """One line per outcome, with the names that people know; never a byte of data, nor an attribute but the id."""
    subscription = subscriber.full_name
    channel = f"{subscriber.namespace}/{subscriber.channel}"
    # An event whose budget goes on is worth less of an alarm, success none.
    writers = {Outcome.DELIVERED: _log.debug, Outcome.RETRIED: _log.info}

    debugging = log.debugging()

    def report(outcome: Outcome, message: Message, why: str) -> None:
        if outcome is Outcome.DELIVERED and not debugging:
            # Before the headers are read for the line that nobody gets.
            return
        writers.get(outcome, _log.warning)(
            str(outcome),
            channel=channel,
            subscription=subscription,
            event_id=message.headers.get("ce-id", ""),
            stream_seq=message.sequence,
            delivered=message.delivered,
            why=why,
        )

    return report
