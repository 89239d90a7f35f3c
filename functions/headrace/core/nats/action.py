"""Actions in NATS and their outcomes, as values.

Knows no reasons: `headrace.core.channel.plan` and `headrace.core.channel.binding` decide, `headrace.io.jetstream.admin`
carries out.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.raw_config import Config


@dataclass(frozen=True, slots=True)
class CreateStream:
    config: Config


@dataclass(frozen=True, slots=True)
class UpdateStream:
    """`config` is complete: the server's, with our changes."""

    config: Config


@dataclass(frozen=True, slots=True)
class DeleteStream:
    stream: str


@dataclass(frozen=True, slots=True)
class PurgeSubjects:
    """Delete the stage records of a consumer or stream that is gone, whose sequences will be used again."""

    stream: str
    subjects: str


@dataclass(frozen=True, slots=True)
class CreateConsumer:
    stream: str
    config: Config


@dataclass(frozen=True, slots=True)
class UpdateConsumer:
    """`config` is complete, as in `UpdateStream`."""

    stream: str
    config: Config


@dataclass(frozen=True, slots=True)
class DeleteConsumer:
    stream: str
    consumer: str


@dataclass(frozen=True, slots=True)
class KeepText:
    """Store a text on a subject of a stream, in the place of the one before."""

    stream: str
    subject: str
    text: str


@dataclass(frozen=True, slots=True)
class ParkForgotten:
    """Park an event that its consumer no longer holds, and delete its stage record.

    Attributes:
        stream: where the event is.
        record: subject of its stage record in the aside stream; its last token is the sequence.
    """

    stream: str
    aside: str
    consumer: str
    record: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResetConsumer:
    """Let a consumer go on at `sequence`; what it has out comes again, if it lies behind that."""

    stream: str
    consumer: str
    sequence: int


Action = (
    CreateStream
    | UpdateStream
    | DeleteStream
    | PurgeSubjects
    | CreateConsumer
    | UpdateConsumer
    | DeleteConsumer
    | KeepText
    | ParkForgotten
    | ResetConsumer
)


@dataclass(frozen=True, slots=True)
class Done:
    """The server did it; `config` is its present one, empty after a deletion."""

    config: Config


@dataclass(frozen=True, slots=True)
class Rejected:
    """The server refused; `words` are its own."""

    words: str


Outcome = Done | Rejected
