"""The names of everything: subjects, streams, consumers, hosts and paths, all computed, none looked up.

Knows the grammar of names and its limits in DNS, Kubernetes and NATS. Does not know any object or connection.
Called by every part that has to name something: `receive` from a Host or a path, `reconcile` from a manifest.

    label     <name>-kn-jsm-channel, or <16 characters><md5 of name>-kn-jsm-channel
    subject   <namespace>.<name>._knative           plain names, as the Go channel has them
              <namespace>.<label>._knative          all others
    aside     <namespace>.<name or label>._knative_aside.stage.<consumer>.<sequence>
              <namespace>.<name or label>._knative_aside.stage.<consumer>.<sequence>.stuck
              <namespace>.<name or label>._knative_aside.stage.<consumer>.<sequence>.forgotten
              <namespace>.<name or label>._knative_aside.stage.<consumer>.discarded.total
              <namespace>.<name or label>._knative_aside.stage.<consumer>.pulls.trouble
              <namespace>.<name or label>._knative_aside.stage.<consumer>.position.ahead
              <namespace>.<name or label>._knative_aside.parked.<consumer>.<sequence>.<stored>
    stream    KN_<NAMESPACE>__<NAME>                plain names
              KN_<NAMESPACE>__<NAME>_x<16 hex>      all others: a lower-case end that no plain one has

A name is plain when neither it nor its namespace holds `--`, it holds no dot, and its label is not shortened.
Only then can namespace and name be told apart again in the stream's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b, md5

from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted

SUFFIX = "-kn-jsm-channel"
READ_ONLY = "/read-only"
"""Behind the path of a channel: the address of one that takes no events. `receive` knows by it, without any look-up."""

# <group>/<kind>/, lower case as all of an audience is.
_AUDIENCE = "messaging.knative.dev/natsjetstreamchannel/"
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"(?=.{1,253}\Z)[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_PORT = re.compile(r":[0-9]{1,5}\Z")
_UID = re.compile(r"(?=.*[A-Za-z0-9])[A-Za-z0-9-]{1,128}")

# kmeta.ChildName of knative.dev/pkg: 63 characters in all, of which 32 are the md5 and 15 the suffix.
_LONGEST = 63 - len(SUFFIX)
_HEAD = 63 - 32 - len(SUFFIX)
_SHORTENED = re.compile(rf".{{{_HEAD}}}[0-9a-f]{{32}}")

# NATS allows 255; the rest is room for `_aside` and for the file names of the server.
_LONGEST_STREAM = 180


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel as the data plane knows it: its namespace and the first label of its Service's host name."""

    namespace: str
    label: str

    @property
    def subject(self) -> str:
        """Where its events are published."""
        return f"{self._prefix}._knative"

    @property
    def aside_subjects(self) -> str:
        """What its aside stream captures."""
        return f"{self._prefix}._knative_aside.>"

    def stage_subject(self, consumer: str, sequence: int) -> str:
        """Where the stage record of one event and one consumer lies."""
        return f"{self._prefix}._knative_aside.stage.{consumer}.{sequence}"

    def stuck_subject(self, consumer: str, sequence: int) -> str:
        """Where it is noted that one event can be neither delivered nor parked; an empty message."""
        return f"{self.stage_subject(consumer, sequence)}.stuck"

    def forgotten_subject(self, consumer: str, sequence: int) -> str:
        """Where it is marked that one event waits for a retry, and its consumer does not hold it."""
        return f"{self.stage_subject(consumer, sequence)}.forgotten"

    def discarded_subject(self, consumer: str) -> str:
        """Where it is counted how many events the server discarded before one consumer had them."""
        return f"{self._prefix}._knative_aside.stage.{consumer}.discarded.total"

    def pull_trouble_subject(self, consumer: str) -> str:
        """Where it is noted why a lease of one consumer could not pull."""
        return f"{self._prefix}._knative_aside.stage.{consumer}.pulls.trouble"

    def ahead_subject(self, consumer: str) -> str:
        """Where it is marked that one consumer stands ahead of its stream."""
        return f"{self._prefix}._knative_aside.stage.{consumer}.position.ahead"

    def sunk_subject(self, consumer: str) -> str:
        """Where it is counted how many events of one consumer went to its dead letter sink."""
        return f"{self._prefix}._knative_aside.stage.{consumer}.sunk.total"

    @property
    def probe_subject(self) -> str:
        """Where it is asked whether the server has room; nothing of ours reads it."""
        return f"{self._prefix}._knative_aside.stage.room.probe"

    def parked_subject(self, consumer: str, sequence: int, stored: int) -> str:
        """Where one event is parked for one consumer.

        Args:
            stored: when the stream stored it, nanoseconds since the epoch: when a lost stream is made again its
                sequences begin again, and no event may replace another (ADR 013).
        """
        return f"{self._prefix}._knative_aside.parked.{consumer}.{sequence}.{stored}"

    @property
    def _prefix(self) -> str:
        stem = self.label.removesuffix(SUFFIX)
        shortened = _SHORTENED.fullmatch(stem) is not None
        plain = not shortened and "--" not in stem and "--" not in self.namespace
        return f"{self.namespace}.{stem if plain else self.label}"


def channel(namespace: str, name: str) -> Channel:
    """The channel of a manifest; InvalidSpec when Kubernetes would not have such a namespace or name."""
    if not _LABEL.fullmatch(namespace):
        problem = "a namespace is a DNS label: a-z, 0-9 and -, at most 63 characters"
        raise InvalidSpec(f"metadata.namespace is {quoted(namespace)}; {problem}", field="metadata.namespace")
    if not _SUBDOMAIN.fullmatch(name):
        problem = "a name is a DNS subdomain: a-z, 0-9, - and ., at most 253 characters"
        raise InvalidSpec(f"metadata.name is {quoted(name)}; {problem}", field="metadata.name")
    return Channel(namespace, f"{_shortened(name) if _is_shortened(name) else name}{SUFFIX}")


def channel_of_host(host: str, domain: str = "cluster.local") -> Channel | None:
    """The channel of a Host header, `<label>.<namespace>.svc[.<domain>][:port]`; None for other hosts.

    Nobody can register a name below `svc`; `<label>.<namespace>` could be anybody's, as with the namespace `dev`.
    """
    if not host.isascii():
        return None
    label, _, rest = _PORT.sub("", host).lower().removesuffix(f".{domain}").partition(".")
    namespace, _, svc = rest.partition(".")
    stem = label.removesuffix(SUFFIX)
    if svc != "svc" or stem == label or not all(map(_LABEL.fullmatch, (stem, label, namespace))):
        return None
    return Channel(namespace, label)


def channel_of_path(path: str) -> Channel | None:
    """The channel that a request path means, `/<namespace>/<name>`; None for other paths."""
    parts = path.split("/")
    if len(parts) != 3 or parts[0]:
        return None
    try:
        return channel(parts[1], parts[2])
    except InvalidSpec:
        return None


def audience(namespace: str, name: str) -> str:
    """For whom a token has to be that is sent to the channel, as Knative's channels name themselves."""
    return f"{_AUDIENCE}{namespace}/{name}"


def channel_of_audience(audience: str) -> Channel | None:
    """The channel that an audience names; None for other audiences."""
    return channel_of_path(f"/{audience[len(_AUDIENCE) :]}") if audience.startswith(_AUDIENCE) else None


def host(namespace: str, name: str, domain: str = "cluster.local") -> str:
    """The host name of the channel's Service."""
    return f"{channel(namespace, name).label}.{namespace}.svc.{domain}"


def path(namespace: str, name: str) -> str:
    """The path of the channel at the shared `receive` Service."""
    channel(namespace, name)
    return f"/{namespace}/{name}"


def is_plain(namespace: str, name: str) -> bool:
    """Whether the channel's subject and stream have the names that the Go channel gives them."""
    return "--" not in namespace and "--" not in name and not _is_shortened(name)


def stage_subjects(consumer: str) -> str:
    """What matches the subjects of all stage records of a consumer in an aside stream."""
    return f"*.*._knative_aside.stage.{consumer}.*"


def parked_subjects(consumer: str = "*") -> str:
    """What matches the subjects of all parked events in an aside stream, or of those of one consumer."""
    return f"*.*._knative_aside.parked.{consumer}.>"


def stream(namespace: str, name: str) -> str:
    """The stream of the channel, at most 180 characters; InvalidSpec as `channel`."""
    channel(namespace, name)
    legal = _upper(namespace, name)
    if is_plain(namespace, name):
        return legal
    digest = blake2b(f"{len(namespace)}:{namespace}{name}".encode(), digest_size=8).hexdigest()
    return f"{legal[: _LONGEST_STREAM - 18]}_x{digest}"


def parse_stream(stream: str) -> tuple[str, str] | None:
    """Namespace and name in the name of a plain stream, for display: what counts is the stream's metadata."""
    namespace, _, name = stream.removeprefix("KN_").lower().replace("_", "-").partition("--")
    if not (_LABEL.fullmatch(namespace) and _LABEL.fullmatch(name) and is_plain(namespace, name)):
        return None
    return (namespace, name) if _upper(namespace, name) == stream else None


def aside(stream: str) -> str:
    """The aside stream of a stream; lower case at the end, so that no channel's stream can have the name."""
    return f"{stream}_aside"


def durable(uid: str) -> str:
    """The consumer of a subscriber, by the uid it was born with; InvalidSpec when that is no uid."""
    if not _UID.fullmatch(uid):
        problem = "a uid has letters, digits and dashes only, at most 128"
        raise InvalidSpec(f"uid is {quoted(uid)}; {problem}", field="uid")
    return f"KN_SUB_{uid.replace('-', '').upper()}"


FULL_HINT = b"full"
"""What a hint carries that tells of a stream without room, and not of something new in it."""


def wake_subject(stream: str) -> str:
    """Where `receive` hints, in core NATS, that a stream has something new."""
    return f"headrace.wake.{stream}"


def kinds_subject(place: str) -> str:
    """Where the `receive` of a namespace tells, in core NATS, of new kinds of events."""
    return f"headrace.types.{place}"


def labels(subject: str) -> tuple[str, str]:
    """Namespace and name of a channel by its subject, for display; a name that is not plain in its shortened form."""
    namespace, _, rest = subject.partition(".")
    return namespace, rest.partition(".")[0].removesuffix(SUFFIX)


def _upper(namespace: str, name: str) -> str:
    return f"KN_{namespace}__{name}".replace("-", "_").replace(".", "_").upper()


def _is_shortened(name: str) -> bool:
    """Whether the name cannot stand in its label: too long, dotted, or to be mistaken for a shortened one."""
    return len(name) > _LONGEST or "." in name or _SHORTENED.fullmatch(name) is not None


def _shortened(name: str) -> str:
    """As kmeta.ChildName does. Short dotted names are padded, so that the length tells a shortened label."""
    head = name[:_HEAD].replace(".", "-").ljust(_HEAD, "-")
    return head + md5(name.encode(), usedforsecurity=False).hexdigest()
