"""The streams that a channel wants, its own and the aside stream, as the JSON of the JetStream API.

Knows the configuration keys of the server. Does not know what exists: `headrace.core.channel.plan` compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace.core import names
from headrace.core.errors import InvalidSpec
from headrace.core.manifest.manifest import RETAIN, Manifest, Metadata
from headrace.core.manifest.stream_spec import Republish, SourceStream, StreamConfig, SubjectTransform
from headrace.core.nats.stream import ChannelStream, Owner, Role
from headrace.core.quoting import quoted
from headrace.core.raw_config import Config

# The server's own default, written out so that taking the setting out of a manifest takes effect.
_DUPLICATE_WINDOW = timedelta(minutes=2)
_RETENTION = {"Limits": "limits", "Interest": "interest", "Work": "workqueue"}
# NATS allows 255, and the aside stream's name is longer.
_LONGEST_NAME = 200
_FORBIDDEN_IN_NAMES = frozenset(" \t\r\n.*>/\\")


@dataclass(frozen=True, slots=True)
class WantedStreams:
    """The wanted streams of a channel.

    Attributes:
        config: of the stream.
        aside: of the aside stream; its replicas are the channel's.
        replicas: as the author set them; 0 for none set.
        defaults: keys of `config` that are defaults of ours, which nobody has asked for.
        unsaid: members of `spec.stream.config` that the author has not set, whatever a namespace's defaults say.
    """

    place: ChannelStream
    config: Config
    aside: Config
    replicas: int = 0
    unsaid: frozenset[str] = frozenset()
    defaults: frozenset[str] = frozenset()


def wanted(manifest: Manifest, cluster: str) -> WantedStreams:
    """The streams of a channel.

    Raises:
        InvalidSpec: a name that neither Kubernetes nor NATS takes, or settings that no stream of a channel can have.
    """
    where = place(manifest.metadata, manifest.spec.stream.override_name, cluster)
    config = manifest.spec.stream.config
    return WantedStreams(
        where,
        _stream_config(where, config),
        _aside_config(where, config),
        config.replicas,
        defaults=frozenset() if config.duplicate_window else frozenset({"duplicate_window"}),
    )


def place(metadata: Metadata, override: str, cluster: str) -> ChannelStream:
    """The channel's place: the stream that its author names, else the one of the grammar.

    Raises:
        InvalidSpec: Kubernetes or NATS take no such name.
    """
    channel = names.channel(metadata.namespace, metadata.name)
    stream = override or names.stream(metadata.namespace, metadata.name)
    if _FORBIDDEN_IN_NAMES & set(stream) or not stream.isprintable() or len(stream) > _LONGEST_NAME:
        field = "spec.stream.overrideName"
        problem = f"a stream's name has at most {_LONGEST_NAME} characters, no blanks and none of . * > / \\"
        raise InvalidSpec(f"{field} is {quoted(override)}: {problem}", field=field)
    owner = Owner(cluster, metadata.namespace, metadata.name, metadata.uid)
    return ChannelStream(owner, channel, stream, overridden=bool(override))


def retained(metadata: Metadata) -> bool:
    """Whether the streams outlive the channel; a value that is neither true nor false keeps them, to be safe."""
    return metadata.annotations.get(RETAIN, "false").lower() != "false"


def _stream_config(place: ChannelStream, config: StreamConfig) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "name": place.stream,
        "subjects": [] if config.mirror else list(dict.fromkeys((place.channel.subject, *config.additional_subjects))),
        "retention": _RETENTION[config.retention],
        "max_consumers": config.max_consumers or -1,
        "max_msgs": config.max_msgs or -1,
        "max_bytes": config.max_bytes or -1,
        "max_msg_size": config.max_msg_size or -1,
        "max_age": nanoseconds(config.max_age),
        "discard": config.discard.lower(),
        # The Go channel's noAck is not offered: no sender would ever know that its event is stored.
        "no_ack": False,
        "storage": config.storage.lower(),
        "num_replicas": config.replicas or 1,
        "mirror": _origin(config.mirror) if config.mirror else None,
        "sources": [_origin(origin) for origin in config.sources],
        **_grown(config),
        "metadata": {**config.metadata, **place.owner.mark(Role.CHANNEL)},
        **_placement(config),
    }
    if config.duplicate_window or not config.mirror:
        wanted["duplicate_window"] = nanoseconds(config.duplicate_window or _default_window(config))
    return wanted


def _aside_config(place: ChannelStream, config: StreamConfig) -> dict[str, Any]:
    return {
        "name": place.aside,
        "subjects": [place.channel.aside_subjects],
        "retention": "limits",
        "storage": "file",
        "num_replicas": config.replicas or 1,
        # One subject per consumer and sequence: the newest stage record replaces the one before.
        "max_msgs_per_subject": 1,
        "discard": "new",
        "allow_direct": True,
        "metadata": place.owner.mark(Role.ASIDE),
        **_placement(config),
    }


def _grown(config: StreamConfig) -> dict[str, Any]:
    """The settings that came after NATS 2.10, and those that channels seldom need.

    Unset ones are written out, too, so that taking a setting out of the manifest takes effect. Two kinds are left out:
    settings that can't be taken back, and newer keys, which an older server refuses or drops.
    """
    only_set = {
        "deny_delete": config.deny_delete,
        "deny_purge": config.deny_purge,
        "first_seq": config.first_seq,
        "allow_msg_ttl": config.allow_msg_ttl,
        "allow_msg_schedules": config.allow_msg_schedules,
        "allow_atomic": config.allow_atomic,
        "allow_batched": config.allow_batched,
        "persist_mode": "async" if config.persist_mode == "Async" else None,
    }
    limits = config.consumer_limits
    return {
        "max_msgs_per_subject": config.max_msgs_per_subject or -1,
        "discard_new_per_subject": config.discard_new_per_subject,
        "compression": config.compression.lower(),
        # Asking for schedules makes the server allow roll-ups, too.
        **({} if config.allow_msg_schedules else {"allow_rollup_hdrs": config.allow_rollup}),
        "allow_direct": config.allow_direct,
        "mirror_direct": config.mirror_direct,
        "subject_transform": _transform(config.subject_transform) if config.subject_transform else None,
        "republish": _republish(config.republish) if config.republish else None,
        # Limits that somebody has given our stream by hand would be every consumer's.
        "consumer_limits": {"max_ack_pending": limits.max_ack_pending, "inactive_threshold": 0} if limits else None,
        **{key: value for key, value in only_set.items() if value},
    }


def _transform(transform: SubjectTransform) -> dict[str, Any]:
    return {"src": transform.source, "dest": transform.destination}


def _republish(republish: Republish) -> dict[str, Any]:
    return {"src": republish.source, "dest": republish.destination, "headers_only": republish.headers_only}


def _default_window(config: StreamConfig) -> timedelta:
    # The server refuses a window beyond the age of its messages.
    return min(_DUPLICATE_WINDOW, config.max_age) if config.max_age else _DUPLICATE_WINDOW


def _placement(config: StreamConfig) -> dict[str, Any]:
    # Only if the author sets it: a stream that an administrator moved by hand is not moved back.
    if config.placement is None:
        return {}
    return {"placement": {"cluster": config.placement.cluster, "tags": [tag for tag in config.placement.tags if tag]}}


def _origin(origin: SourceStream) -> dict[str, Any]:
    body: dict[str, Any] = {"name": origin.name, "filter_subject": origin.filter_subject}
    if origin.opt_start_seq:
        body["opt_start_seq"] = origin.opt_start_seq
    if origin.opt_start_time:
        body["opt_start_time"] = origin.opt_start_time
    if origin.subject_transforms:
        body["subject_transforms"] = [_transform(transform) for transform in origin.subject_transforms]
    if origin.external:
        body["external"] = {"api": origin.external.api_prefix, "deliver": origin.external.deliver_prefix}
    return body


def nanoseconds(span: timedelta) -> int:
    """A span as the server counts; exact down to microseconds."""
    return span // timedelta(microseconds=1) * 1000
