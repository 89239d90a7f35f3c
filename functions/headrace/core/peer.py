"""Consumers that the Go channel made for its subscribers, and how they become ours (design 10.11, ADR 023).

Its push consumers can't be made pull consumers, so one of ours takes the place of each, where its acknowledgements end;
its pull consumers become ours as they are. One that is still delivered from is left alone: its dispatcher would make it
again, and both would deliver.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.action import Action, CreateConsumer, DeleteConsumer, PurgeSubjects
from headrace.core.conditions import Condition
from headrace.core.raw_config import Config
from headrace.core.stream import PREFIX, Place

TAKEN_KEY = "headrace.dev/taken-over"
"""On consumers that took the place of the Go channel's: they begin where that one ended, whatever the template says."""

ADVICE = "scale the deployments jetstream-ch-controller and jetstream-ch-dispatcher to 0"
_PREFIX = "KN_SUB_"


@dataclass(frozen=True, slots=True)
class Peer:
    """One consumer of the Go channel.

    Attributes:
        push: and not pull.
        busy: somebody gets messages from it now.
        floor: everything up to this sequence of the stream is settled.
    """

    durable: str
    config: Config
    push: bool
    busy: bool
    floor: int


def read(infos: Iterable[Mapping[str, Any]], place: Place) -> dict[str, Peer]:
    """Those among the consumers of a channel's stream that the Go channel made, by durable name.

    Args:
        infos: CONSUMER.LIST.
    """
    found = (_peer(info, place) for info in infos)
    return {peer.durable: peer for peer in found if peer is not None}


def _peer(info: Mapping[str, Any], place: Place) -> Peer | None:
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


def successor(durable: str) -> str:
    """The durable name of the consumer that takes the place of one of theirs while that is still there."""
    return f"{durable}_pull"


def replacement(peer: Peer, place: Place, config: Config, forget: PurgeSubjects, retention: str) -> tuple[Action, ...]:
    """Put a pull consumer into the place of a push consumer; nothing is lost wherever this breaks off.

    What was settled beyond the floor is delivered once more.

    Args:
        config: of the new consumer, named for it.
        forget: its stage records, if it was here before.
        retention: of the stream, as the server writes it.
    """
    delete = DeleteConsumer(place.stream, peer.durable)
    if retention == "workqueue":
        # It takes one consumer at a time, and keeps what nobody has settled.
        return delete, forget, CreateConsumer(place.stream, config)
    start = {"deliver_policy": "by_start_sequence", "opt_start_seq": peer.floor + 1, "opt_start_time": None}
    # Without a consumer for a moment, a stream of interest would drop what comes in.
    return forget, CreateConsumer(place.stream, {**config, **start}), delete


def condition(busy: Iterable[str]) -> tuple[Condition, ...]:
    """What is still the Go channel's; nothing to say when nothing is.

    Args:
        busy: full names of the Subscriptions.
    """
    names = sorted(busy)
    if not names:
        return ()
    message = f"the Go channel's dispatcher still delivers to {', '.join(names)}: {ADVICE}"
    return (Condition("PeerTakenOver", False, "PeerStillDelivers", message, informative=True),)
