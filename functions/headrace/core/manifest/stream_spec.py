"""The stream of a channel as its author wrote it: every field of the proposal, of the Go channel and of NATS 2.15.

Knows shapes, bounds and which settings exclude each other. Does not know the server's own names for them: that is
`headrace.core.channel.stream_config`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from headrace.core.manifest.field_types import (
    GoSpan,
    Labels,
    Limit,
    Limit32,
    Moment,
    Sequence,
    StreamName,
    Subject,
    Subjects,
)
from headrace.core.manifest.part import Fixed, Part, Rule
from headrace.core.manifest.stream_rules import FIXED, HOLLOW_ORIGIN, RULES


class SubjectTransform(Part):
    """How subjects are rewritten."""

    source: Subject
    """The subjects that are rewritten; wildcards are allowed."""
    destination: Subject
    """Their new form, in NATS' mapping language, like archive.{{wildcard(1)}}."""


class External(Part):
    """Where a stream of another account or domain is reached."""

    api_prefix: str
    """Prefix of the JetStream API there, like $JS.hub.API."""
    deliver_prefix: str = ""
    """Prefix of the subjects that its messages are delivered on."""


class SourceStream(Part):
    """A stream to mirror or to take messages from."""

    name: str
    """Name of the stream."""
    opt_start_seq: Sequence = 0
    """The sequence to start at, as a number or as text."""
    opt_start_time: Moment | None = None
    """The time to start at, RFC 3339."""
    filter_subject: Subject = ""
    """Take these subjects only."""
    subject_transforms: Annotated[tuple[SubjectTransform, ...], Field(strict=False, max_length=16)] = ()
    """Take these subjects only, and rewrite them."""
    external: External | None = None
    """Where the stream is, when it is in another account or domain."""

    rules: ClassVar = (
        Rule("name", f"self.name != '' || ({HOLLOW_ORIGIN})", lambda own: own.name != "", "name the stream"),
        Rule(
            "filterSubject",
            "!has(self.filterSubject) || self.filterSubject == ''"
            " || !has(self.subjectTransforms) || size(self.subjectTransforms) == 0",
            lambda own: not (own.filter_subject and own.subject_transforms),
            "it excludes subjectTransforms, which filter by their source: keep one of the two",
        ),
    )


class Placement(Part):
    """Which servers of a cluster hold the stream."""

    cluster: str = ""
    """Name of the cluster."""
    tags: Annotated[tuple[str, ...], Field(strict=False, max_length=64)] = ()
    """Tags that the servers have."""


class Republish(Part):
    """Where stored messages are published once more, to plain NATS subscribers."""

    source: Subject = ">"
    """The subjects that are republished."""
    destination: Subject
    """The new subject, in NATS' mapping language; it may not lead back into the stream."""
    headers_only: bool = False
    """Republish without the data."""


class ConsumerLimits(Part):
    """What the consumers of the stream may have at most, those of strangers included."""

    max_ack_pending: Limit32 = 0
    """Un-acknowledged messages of one consumer."""
    inactive_threshold: GoSpan | None = None
    """Refused: a subscriber's consumer would be deleted while it idles, and its events be lost to it."""

    rules: ClassVar = (
        Rule(
            "inactiveThreshold",
            "!has(self.inactiveThreshold) || self.inactiveThreshold == ''",
            lambda own: own.inactive_threshold is None,
            "a subscriber's consumer must not go while it idles: take it out",
        ),
    )


class StreamConfig(Part):
    """The stream that holds the channel's events; a stream that overrideName adopts keeps its own settings."""

    additional_subjects: Subjects = ()
    """Further subjects that the stream listens on, so that messages of others reach the subscribers. An adopted
    stream delivers only messages on these and on the channel's own subject."""
    retention: Literal["Limits", "Interest", "Work"] = "Limits"
    """Limits keeps events until a limit is reached, Interest until every subscriber has had them, Work until the one
    subscriber has. Work can't be changed into the others, nor the others into it."""
    max_consumers: Limit32 = 0
    """How many consumers the stream may have; each subscriber is one. 0 and -1: no limit."""
    max_msgs: Limit = 0
    """How many messages the stream holds at most. 0 and -1: no limit."""
    max_bytes: Limit = 0
    """How many bytes the stream holds at most. 0 and -1: no limit. Where the account demands a limit of every stream,
    the aside stream gets a quarter of this one, 2 MiB at least."""
    max_msgs_per_subject: Limit = 0
    """How many messages of one subject the stream holds at most; all of a channel's events have one subject."""
    discard: Literal["Old", "New"] = "Old"
    """When a limit is reached: Old discards the oldest events, New refuses new ones (507)."""
    discard_new_per_subject: bool = False
    """With discard New: refuse new messages of a subject that has maxMsgsPerSubject."""
    max_age: GoSpan = timedelta()
    """How long events are kept, like 24h; 0: for ever."""
    max_msg_size: Limit32 = 0
    """Bytes that one event may have, its attributes included. 0 and -1: what NATS allows."""
    storage: Literal["File", "Memory"] = "File"
    """Where NATS keeps the events. Memory forgets them when the server restarts. Can't be changed."""
    replicas: int = Field(0, ge=0, le=5)
    """How many servers of a cluster hold the stream, 1 to 5; 0: one, or as many as an adopted stream has."""
    no_ack: bool = False
    """Refused: without acknowledgement nobody can tell that an event is stored."""
    template: str = ""
    """Accepted and not obeyed: NATS has no stream templates any more."""
    duplicate_window: GoSpan = timedelta()
    """How long NATS knows an event again that is sent twice; when not given 2m, or maxAge if that is less."""
    placement: Placement | None = None
    """Which servers hold the stream."""
    mirror: SourceStream | None = None
    """Another stream that this one is a copy of; such a channel takes no events. It can be taken out, not changed."""
    sources: Annotated[tuple[SourceStream, ...], Field(strict=False, max_length=32)] = ()
    """Other streams whose messages are copied into this one."""
    compression: Literal["None", "S2"] = "None"
    """How the server compresses what it stores in files."""
    deny_delete: bool = False
    """Nobody may delete single messages. Can't be taken back."""
    deny_purge: bool = False
    """Nobody may purge the stream. Can't be taken back."""
    sealed: bool = False
    """Refused: a sealed stream takes no events."""
    allow_direct: bool = False
    """Let clients read single messages from any replica."""
    mirror_direct: bool = False
    """Let a mirror answer such reads for the stream that it mirrors."""
    allow_rollup: bool = False
    """Let publishers replace all earlier messages by one, with the header Nats-Rollup."""
    subject_transform: SubjectTransform | None = None
    """How subjects are rewritten before messages are stored."""
    republish: Republish | None = None
    """Where stored messages are published once more."""
    first_seq: Sequence = 0
    """The sequence of the first message of a new stream."""
    metadata: Labels = {}
    """Further metadata of the stream; headrace.dev/ and _nats are taken."""
    consumer_limits: ConsumerLimits | None = None
    """What the consumers of the stream may have at most."""
    allow_msg_ttl: bool = Field(False, alias="allowMsgTTL")
    """Let publishers give single messages an age, with the header Nats-TTL. Can't be taken back."""
    subject_delete_marker_ttl: GoSpan | None = Field(None, alias="subjectDeleteMarkerTTL")
    """Refused: the markers are messages of the stream that are no events."""
    allow_msg_schedules: bool = False
    """Let publishers store schedules; they are messages, too, so filterSubject or filterSubjects has to keep them
    from the subscribers. Can't be taken back."""
    allow_atomic: bool = False
    """Let publishers store batches of which all or nothing is kept."""
    allow_batched: bool = False
    """Let publishers use NATS' fast ingest."""
    persist_mode: Literal["Default", "Async"] = "Default"
    """Async answers 202 before an event is on disk: a crash of the server loses such events, with any
    `sync_interval`. Can't be changed."""

    hollow: ClassVar = ("mirror", "sources", "placement")
    rules: ClassVar = RULES
    fixed: ClassVar = FIXED


class StreamSpec(Part):
    """The JetStream stream of the channel."""

    override_name: StreamName = ""
    """The stream to use in place of KN_<NAMESPACE>__<NAME>; one that exists already is adopted, and never deleted.
    Can't be changed."""
    config: StreamConfig = StreamConfig()

    fixed: ClassVar = (
        Fixed(
            "overrideName",
            "(has(self.overrideName) ? self.overrideName : '')"
            " == (has(oldSelf.overrideName) ? oldSelf.overrideName : '')",
            "a channel can't move to another stream: put it back, or make a new channel",
        ),
    )
