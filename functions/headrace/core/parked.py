"""An event that is kept aside: its own message, with where it came from and why it is here.

Pure. The copy keeps every header and byte of the original, so that a replay is the event itself; ours are added in
front of them under `Headrace-…`.
"""

from __future__ import annotations

from headrace.core.jetstream import Message
from headrace.core.nats_codec import MSG_ID, NatsMessage
from headrace.core.stage_record import StageRecord
from headrace.core.subscriber import Subscriber

ORIGIN_STREAM = "Headrace-Origin-Stream"
ORIGIN_SEQUENCE = "Headrace-Origin-Sequence"
ORIGIN_SUBJECT = "Headrace-Origin-Subject"
CONSUMER = "Headrace-Consumer"
SUBSCRIPTION = "Headrace-Subscription"
DESTINATION = "Headrace-Destination"
STATUS = "Headrace-Status"
ATTEMPTS = "Headrace-Attempts"
REASON = "Headrace-Reason"

# A reason is for people; with every other header of ours it must fit into the room that events leave.
LONGEST_TEXT = 1024


def parked_message(message: Message, record: StageRecord, reason: str, subscriber: Subscriber) -> NatsMessage:
    """The message to publish to the aside stream."""
    failure = record.failure
    ours = {
        # The origin, so that parking the same delivery twice stores it once.
        MSG_ID: f"{message.stream}:{message.sequence}:{message.consumer}",
        ORIGIN_STREAM: message.stream,
        ORIGIN_SEQUENCE: str(message.sequence),
        ORIGIN_SUBJECT: message.subject,
        CONSUMER: message.consumer,
        SUBSCRIPTION: f"{subscriber.subscription_namespace or subscriber.namespace}/{subscriber.name}",
        ATTEMPTS: str(sum(record.attempts)),
        REASON: _one_line(reason),
    }
    if failure is not None:
        ours[DESTINATION] = _one_line(failure.destination)
        ours[STATUS] = str(failure.code)
    kept = {
        name: value for name, value in message.headers.items() if not name.lower().startswith(("nats-", "headrace-"))
    }
    subject = subscriber.names.parked_subject(message.consumer, message.sequence)
    return NatsMessage(subject, {**ours, **kept}, message.data)


def _one_line(text: str) -> str:
    """Printable ASCII on one line: a NATS header carries no more."""
    flat = "".join(char if char.isprintable() else " " for char in text)
    return flat.encode("ascii", "backslashreplace").decode()[:LONGEST_TEXT].strip()
