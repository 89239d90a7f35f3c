"""Consumers that the Go channel made for its subscribers, and how they become ours (ADR 023).

A push consumer can't be made a pull consumer. So one of ours takes the place of each, and begins where its
acknowledgements end. A pull consumer becomes ours as it is. A consumer from which the Go channel's dispatcher still
delivers is left alone: the dispatcher would make it again, and both would deliver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.conditions import Condition
from headrace.core.nats.action import Action, CreateConsumer, DeleteConsumer, PurgeSubjects
from headrace.core.nats.stream import PREFIX, ChannelStream
from headrace.core.raw_config import Config

TAKEN_KEY = "headrace.dev/taken-over"
"""Marks a consumer that took the place of one of the Go channel's; it began where that one ended."""

ADVICE = "scale the deployments jetstream-ch-controller and jetstream-ch-dispatcher to 0"
_PREFIX = "KN_SUB_"


@dataclass(frozen=True, slots=True)
class Peer:
    """One consumer of the Go channel.

    Attributes:
        push: a push consumer, not a pull consumer.
        busy: somebody receives messages from it now.
        floor: everything up to this stream sequence is settled (`ack_floor`).
    """

    durable: str
    config: Config
    push: bool
    busy: bool
    floor: int


def recognize(infos: Iterable[Mapping[str, Any]], place: ChannelStream) -> dict[str, Peer]:
    """The consumers of a channel's stream that the Go channel made, by durable name.

    Args:
        infos: CONSUMER.LIST.
    """
    found = (_peer(info, place) for info in infos)
    return {peer.durable: peer for peer in found if peer is not None}


def _peer(info: Mapping[str, Any], place: ChannelStream) -> Peer | None:
    name, config = str(info["name"]), info["config"]
    marked = any(key.startswith(PREFIX) for key in config.get("metadata") or {})
    if marked or not name.startswith(_PREFIX) or config.get("ack_policy") != "explicit":
        return None
    deliver = config.get("deliver_subject") or ""
    uid = name.removeprefix(_PREFIX).lower()
    if deliver and deliver != f"{place.channel.subject}_consumer.{uid}":
        return None
    return Peer(
        durable=name,
        config={**config, "name": name},
        push=bool(deliver),
        busy=bool(info.get("push_bound")) or int(info.get("num_waiting") or 0) > 0,
        floor=int((info.get("ack_floor") or {}).get("stream_seq") or 0),
    )


def sees(peer: Peer) -> tuple[str, ...]:
    """The subjects that it delivers; none for all of them."""
    single = str(peer.config.get("filter_subject") or "")
    return tuple(peer.config.get("filter_subjects") or ((single,) if single else ()))


def successor(durable: str) -> str:
    """The durable name of the consumer that replaces one of theirs while that is still there."""
    return f"{durable}_pull"


def replacement(
    peer: Peer, place: ChannelStream, config: Config, forget: PurgeSubjects, retention: str
) -> tuple[Action, ...]:
    """Put a pull consumer into the place of a push consumer; nothing is lost wherever this breaks off.

    Events beyond the ack floor that were settled already are delivered once more.

    Args:
        config: of the new consumer, with its name.
        forget: deletes stage records that an earlier consumer of that name may have left.
        retention: of the stream, as the server writes it.
    """
    delete = DeleteConsumer(place.stream, peer.durable)
    if retention == "workqueue":
        # Such a stream takes one consumer at a time, and keeps unsettled events.
        return delete, forget, CreateConsumer(place.stream, config)
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": peer.floor + 1, "opt_start_time": None}
    # Ours first: a stream with interest retention drops new events while it has no consumer.
    return forget, CreateConsumer(place.stream, {**config, **start}), delete


def condition(busy: Iterable[str]) -> tuple[Condition, ...]:
    """The condition that tells the Subscriptions that the Go channel still delivers to; none without any.

    Args:
        busy: full names of the Subscriptions.
    """
    names = sorted(busy)
    if not names:
        return ()
    message = f"the Go channel's dispatcher still delivers to {', '.join(names)}: {ADVICE}"
    return (Condition("PeerTakenOver", False, "PeerStillDelivers", message, informative=True),)
