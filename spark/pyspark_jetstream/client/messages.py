"""Stored messages as columns, with the facts that their ack subjects or Direct Get headers carry. Pure.

The ack subject of a consumer's message ends in
`<delivered>.<stream sequence>.<consumer sequence>.<timestamp>.<pending>`, in its later form with one token more.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from headrace.core.nats.nats_wire import Bulk
from headrace.core.nats.stored_message import nanoseconds

# Places in `$JS.ACK.<stream>.<consumer>.…` and `$JS.ACK.<domain>.<account>.<stream>.<consumer>.….<random>`.
_SEQUENCE_AT = {9: 5, 12: 7}
# The time's place counted from the end, for splitting from the right.
_BEHIND_TIME = {9: 2, 12: 3}
_OWN_HEADERS = b"\r\nNats-Stream: "
_OWN_NAMES = (b"Nats-Subject", b"Nats-Sequence", b"Nats-Time-Stamp", b"Nats-Last-Sequence")
# The form in which today's servers write them.
_OWN_IN_ORDER = re.compile(
    rb"\r\nNats-Stream: [^\r]*\r\nNats-Subject: ([^\r]*)\r\nNats-Sequence: (\d+)\r\nNats-Time-Stamp: ([^\r]*)"
    rb"(?:\r\nNats-Num-Pending: \d+)?(?:\r\nNats-Last-Sequence: (\d+))?\r\n\r\n"
)


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages of one stream, in its order.

    Attributes:
        blocks: header blocks as they were stored; empty for none.
        replies: ack subjects, which hold the times; or else
        times: nanoseconds since the epoch.
    """

    subjects: Sequence[bytes]
    sequences: Sequence[int]
    blocks: Sequence[bytes]
    payloads: Sequence[bytes]
    replies: Sequence[bytes] = ()
    times: Sequence[int] = ()

    def __len__(self) -> int:
        return len(self.sequences)

    @property
    def is_contiguous(self) -> bool:
        return self.sequences[-1] - self.sequences[0] == len(self.sequences) - 1

    def timestamps(self) -> Sequence[int]:
        """When the server stored each, in nanoseconds since the epoch; read from the ack subjects on demand."""
        if not self.replies:
            return self.times
        # Split from the end, where only a token or two are in the way.
        behind = _BEHIND_TIME.get(self.replies[0].count(b".") + 1)
        if behind is None:
            raise _no_ack_subject(self.replies[0])
        return [int(reply.rsplit(b".", behind)[1]) for reply in self.replies]

    def before(self, end: int) -> Messages:
        if not self.sequences or self.sequences[-1] < end:
            return self
        return self.chosen(range(bisect_left(self.sequences, end)))

    def chosen(self, positions: Sequence[int]) -> Messages:
        return Messages(
            [self.subjects[at] for at in positions],
            [self.sequences[at] for at in positions],
            [self.blocks[at] for at in positions],
            [self.payloads[at] for at in positions],
            [self.replies[at] for at in positions] if self.replies else (),
            [self.times[at] for at in positions] if self.times else (),
        )


NOTHING = Messages((), (), (), ())


class Delivered(NamedTuple):
    """A row of messages that a consumer has delivered.

    Attributes:
        first, last: numbers that the consumer gave: with a gap, something was lost on the way.
        pending: how many the consumer had left after the last one, as far as its server knew.
    """

    messages: Messages
    first: int
    last: int
    pending: int


def delivered(bulk: Bulk) -> Delivered:
    """Read the ack subjects in a bulk, which must not be empty; ValueError when one is no ack subject."""
    replies = bulk.replies
    first, number, _, _ = ack_numbers(replies[0])
    last, last_number, _, pending = ack_numbers(replies[-1])
    sequences: Sequence[int] = range(first, last + 1)
    if len(sequences) != len(replies):
        # Sequences grow from message to message, so each one has to be read only if there is a gap.
        tokens, width, at = _tokens(replies)
        sequences = list(map(int, tokens[at::width]))
    messages = Messages(bulk.subjects, sequences, bulk.blocks, bulk.payloads, replies)
    return Delivered(messages, number, last_number, pending)


def _tokens(replies: Sequence[bytes]) -> tuple[list[str], int, int]:
    """All tokens of all ack subjects, how many one subject has, and which of them is the sequence."""
    tokens = b".".join(replies).decode("utf-8", "replace").split(".")
    width, odd = divmod(len(tokens), len(replies))
    at = _SEQUENCE_AT.get(width)
    if odd or at is None:
        raise _no_ack_subject(replies[0])
    return tokens, width, at


def ack_numbers(reply: bytes) -> tuple[int, int, int, int]:
    """Stream sequence, consumer sequence, nanoseconds and pending of one ack subject; ValueError if it is none."""
    tokens = reply.split(b".")
    at = _SEQUENCE_AT.get(len(tokens))
    if at is None:
        raise _no_ack_subject(reply)
    sequence, number, time, pending = map(int, tokens[at : at + 4])
    return sequence, number, time, pending


def _no_ack_subject(reply: bytes) -> ValueError:
    return ValueError(f"{reply[:80]!r} is no ack subject of JetStream")


class Gotten(NamedTuple):
    """A row of messages that Direct Get has answered.

    Attributes:
        before: the sequence that the server sent before each, by its own words; with another one a message was lost.
    """

    messages: Messages
    before: list[int]


def gotten(bulk: Bulk) -> Gotten:
    """Read the headers that Direct Get adds behind the stored ones; ValueError when they are missing."""
    subjects, sequences, times, blocks, before = [], [], [], [], []
    for block in bulk.blocks:
        start = block.rfind(_OWN_HEADERS)
        if start < 0:
            raise ValueError(f"{block[-80:]!r} has no headers of Direct Get")
        own = _OWN_IN_ORDER.fullmatch(block, start)
        if own is None:
            lines = dict(line.split(b": ", 1) for line in block[start + 2 : -4].split(b"\r\n"))
            subject, sequence, time, last = map(lines.get, _OWN_NAMES)
            if subject is None or sequence is None or time is None:
                raise ValueError(f"{block[start:]!r} are not the headers of Direct Get")
        else:
            subject, sequence, time, last = own.groups()
        subjects.append(subject)
        sequences.append(int(sequence))
        times.append(nanoseconds(time.decode()))
        before.append(int(last or 0))
        # Without headers of its own a message has only the version line in front.
        blocks.append(block[:start] + b"\r\n\r\n" if start > len(b"NATS/1.0") else b"")
    return Gotten(Messages(subjects, sequences, blocks, bulk.payloads, times=times), before)
