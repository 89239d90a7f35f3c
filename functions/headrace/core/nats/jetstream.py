"""JetStream's answers as values: acknowledged publishes and pulled messages.

Knows the ack subject grammar; how pulls end is `headrace.core.nats.pull_status`'s. Shared by `headrace.io`
and Spark's client.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from headrace.core.fast import new_tuple
from headrace.core.nats.nats_wire.headers import Headers

# The server reads acks from the payload of a publish to the message's reply subject.
ACK = b"+ACK"
NAK = b"-NAK"
IN_PROGRESS = b"+WPI"

# Short, since the events of a broken lease come back only after it; `forward` says in-progress every 2 s
# (ADR 011).
ACK_WAIT = timedelta(seconds=8)

# A publish over max_payload costs the whole connection, and a parked copy carries more headers than the original:
# events above max_payload - this are refused (ADR 010).
HEADROOM_BYTES = 8 * 1024


# The server counts nanoseconds in 64 bits, and would take more for no delay at all.
_LONGEST_NAK = 2**63 - 1


class PubAck(NamedTuple):
    """The server has stored a message: where, and whether it had it already.

    Attributes:
        unsure: for a duplicate: the stored message may come from an earlier try of this very publish.
    """

    stream: str
    sequence: int
    duplicate: bool = False
    unsure: bool = False

    @property
    def new(self) -> bool:
        """May there be something in the stream that was not there before?"""
        return not self.duplicate or self.unsure


class Message(NamedTuple):
    """One pulled message, not yet settled. A tuple, since one is made for each event.

    Attributes:
        headers: names in lower case.
        reply: the ack subject.
        delivered: deliveries so far, this one included, from 1; counts crashes and give-backs, too.
        sequence: in the stream.
        timestamp_ns: when the server stored it, nanoseconds since the epoch.
        delivery: its number among all deliveries of the consumer, from 1; 0 when that is not known.
    """

    subject: str
    headers: Mapping[str, str]
    data: bytes
    reply: str
    stream: str
    consumer: str
    delivered: int
    sequence: int
    timestamp_ns: int
    delivery: int = 0

    @property
    def size(self) -> int:
        """Bytes that it holds in memory, roughly: data and headers."""
        headers = self.headers
        if type(headers) is Headers:
            # The block is not read for this.
            return len(self.data) + len(headers.block)
        return len(self.data) + sum(len(name) + len(value) + 4 for name, value in headers.items())


class AckTokens(NamedTuple):
    """The tokens of an ack subject, in the order of `Message`."""

    stream: str
    consumer: str
    delivered: int
    sequence: int
    timestamp_ns: int
    delivery: int


def ack_tokens(reply: str) -> AckTokens | None:
    """Read `$JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<timestamp>.<pending>`, or its later
    form with domain and account hash in front of the stream; None for anything else.
    """
    tokens = reply.split(".")
    if len(tokens) < 9 or tokens[0] != "$JS" or tokens[1] != "ACK":
        return None
    start = 2 if len(tokens) == 9 else 4
    try:
        # A slice of another length raises ValueError.
        stream, consumer, delivered, sequence, delivery, timestamp_ns = tokens[start : start + 6]
        return new_tuple(AckTokens, (stream, consumer, int(delivered), int(sequence), int(timestamp_ns), int(delivery)))
    except ValueError:
        return None


def pending_after(reply: str) -> int | None:
    """How many messages the consumer still had to deliver when it delivered the one with this ack subject."""
    tokens = reply.split(".")
    last = tokens[8 if len(tokens) == 9 else 10 : 9 if len(tokens) == 9 else 11]
    return int(last[0]) if last and last[0].isascii() and last[0].isdecimal() and len(last[0]) < 16 else None


def shared_tokens(reply: bytes) -> tuple[bytes, str, str] | None:
    """The beginning that all ack subjects of one consumer share, last dot included, its stream, and its name; None for
    any other subject."""
    found = ack_tokens(reply.decode("utf-8", "surrogateescape"))
    if found is None:
        return None
    tokens = reply.split(b".")
    return b".".join(tokens[: 4 if len(tokens) == 9 else 6]) + b".", found.stream, found.consumer


def nak(delay: timedelta) -> bytes:
    """The NAK payload that asks for redelivery after `delay`; at once for zero."""
    nanoseconds = min(int(delay.total_seconds() * 1_000_000_000), _LONGEST_NAK)
    return NAK if nanoseconds <= 0 else b'-NAK {"delay":%d}' % nanoseconds
