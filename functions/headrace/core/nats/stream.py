"""The owner of a stream: the marks in its metadata, and what follows from them.

Knows the metadata keys and the few rules of who may touch what. Does not know how a channel wants its streams
(`headrace.core.channel.stream_config`) nor what is to be done about it (`headrace.core.channel.plan`).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum

from headrace.core import names, subject_pattern
from headrace.core.raw_config import Config

PREFIX = "headrace.dev/"
"""All our metadata keys begin so; the server's own begin with `_nats.`."""

CLUSTER_KEY = "headrace.dev/cluster"
NAMESPACE_KEY = "headrace.dev/namespace"
CHANNEL_KEY = "headrace.dev/channel"
UID_KEY = "headrace.dev/uid"
ROLE_KEY = "headrace.dev/role"
CREATED_KEY = "headrace.dev/created"
"""Only on streams that we took over: its value is `peer`, and the stream is then never deleted."""
ADDED_SUBJECT_KEY = "headrace.dev/added-subject"
"""On the aside stream of an adopted stream: the subject that we added there and take away again."""

PEER = "peer"

_IDENTITY = (CLUSTER_KEY, NAMESPACE_KEY, CHANNEL_KEY, ROLE_KEY)


class Role(StrEnum):
    CHANNEL = "channel"
    ASIDE = "aside"


@dataclass(frozen=True, slots=True)
class Owner:
    """The owner of a stream; `uid` changes when the channel is re-created under its name."""

    cluster: str
    namespace: str
    channel: str
    uid: str

    def mark(self, role: Role) -> dict[str, str]:
        """The metadata that names this owner."""
        return {
            CLUSTER_KEY: self.cluster,
            NAMESPACE_KEY: self.namespace,
            CHANNEL_KEY: self.channel,
            UID_KEY: self.uid,
            ROLE_KEY: role,
        }


@dataclass(frozen=True, slots=True)
class ChannelStream:
    """A channel's place in NATS.

    Attributes:
        channel: its subjects.
        stream: the name of its stream.
        overridden: the author named the stream, which then may be somebody else's.
    """

    owner: Owner
    channel: names.Channel
    stream: str
    overridden: bool

    @property
    def aside(self) -> str:
        return names.aside(self.stream)

    @property
    def stages(self) -> str:
        """The pattern of all stage records' subjects."""
        return self.channel.aside_subjects.removesuffix(">") + "stage.>"

    @property
    def parked(self) -> str:
        """The pattern of all parked events' subjects."""
        return self.channel.aside_subjects.removesuffix(">") + "parked.>"


class Ownership(Enum):
    """How a channel stands to a stream of the name that it wants.

    MISSING: there is none. OURS: it carries our mark. PEERS: unmarked, by the grammar's name and with our very subject,
    so the Go channel made it. ADOPTED: unmarked, named by the author; or it takes our subject by a wildcard, so that it
    was made for more than this channel. FOREIGN: someone else's.
    """

    MISSING = "missing"
    OURS = "ours"
    PEERS = "peers"
    ADOPTED = "adopted"
    FOREIGN = "foreign"


def standing(place: ChannelStream, role: Role, observed: Config | None) -> Ownership:
    """Decide from the marks; the uid does not count, since a channel may be re-created."""
    if observed is None:
        return Ownership.MISSING
    mark, ours = _mark_of(observed), place.owner.mark(role)
    if mark:
        return Ownership.OURS if all(mark.get(key) == ours[key] for key in _IDENTITY) else Ownership.FOREIGN
    if role is Role.ASIDE:
        return Ownership.FOREIGN
    if place.overridden:
        return Ownership.ADOPTED
    if place.channel.subject in (observed.get("subjects") or ()):
        return Ownership.PEERS
    return Ownership.ADOPTED if captures(observed, place.channel.subject) else Ownership.FOREIGN


def foreign_owner(observed: Config) -> str:
    """The owner of a foreign stream, for people."""
    mark = _mark_of(observed)
    if not mark:
        return "has no mark of Headrace and does not carry this channel's subject"
    channel = f"{mark.get(NAMESPACE_KEY, '?')}/{mark.get(CHANNEL_KEY, '?')}"
    kind = "the aside stream of channel" if mark.get(ROLE_KEY) == Role.ASIDE else "channel"
    return f"belongs to {kind} {channel} of cluster {mark.get(CLUSTER_KEY, '?')}"


def created_by_us(observed: Config) -> bool:
    """Whether a stream that carries our mark was made by us, and not taken over from the Go channel."""
    return CREATED_KEY not in _metadata(observed)


def uid_of(observed: Config) -> str:
    return _metadata(observed).get(UID_KEY, "")


def added_subject(aside: Config | None) -> str | None:
    """The subject that we added to an adopted stream, as its aside stream remembers it."""
    return _metadata(aside or {}).get(ADDED_SUBJECT_KEY)


def captures(config: Config, subject: str) -> bool:
    """Whether a stream stores messages that are published on `subject`, which has no wildcards."""
    return any(subject_pattern.covers(pattern, subject) for pattern in config.get("subjects") or ())


def _metadata(config: Config) -> dict[str, str]:
    return config.get("metadata") or {}


def _mark_of(config: Config) -> dict[str, str]:
    return {key: value for key, value in _metadata(config).items() if key in _IDENTITY}
