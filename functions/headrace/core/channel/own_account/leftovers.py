"""The streams that a channel leaves behind in another NATS account when its credentials change.

NATS can't move a stream from one account to another, and nobody but the owner of the old credentials can get at it. So
a condition tells people what is left there, for them to drain or delete. Pure. Called by `headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.conditions import Condition
from headrace.core.nats.stream import ChannelStream, Ownership, Role, standing, uid_of
from headrace.core.plural import counted

CONDITION = "NothingLeftBehind"
IN_CLUSTER, ELSEWHERE = "StreamLeftInCluster", "StreamLeftBehind"

Raw = Mapping[str, Any]


def to_status(status: Raw, connection: str, created: str) -> dict[str, Any]:
    """The members of the status about the connection.

    Args:
        status: the earlier one.
        connection: the owner of the credentials, for people; empty for the installation's.
        created: when the stream that they lead to was created, as the server has it; empty when unknown.
    """
    if not created:
        # While it is unknown whether the stream is another one, the facts about the one before still count.
        return {key: status[key] for key in ("connection", "streamCreated") if key in status}
    return {"connection": connection, "streamCreated": created} if connection else {}


def condition(
    status: Raw, place: ChannelStream, connection: str, created: str, in_cluster: Raw | None
) -> Condition | None:
    """The condition about streams of this channel that are left behind; None for none.

    Args:
        status: the earlier one.
        in_cluster: STREAM.INFO in the installation's own account; None when there is no such stream, or when
            the channel is there.
    """
    if in_cluster is not None and created and in_cluster.get("created") != created and _ours(place, in_cluster):
        return _left_in_cluster(place, connection, in_cluster)
    before, known = str(status.get("connection") or ""), status.get("streamCreated")
    if before in ("", connection):
        return _told_before(status)
    if not created or not known or known == created:
        return None
    return _left_elsewhere(status, place, before)


def _left_in_cluster(place: ChannelStream, connection: str, info: Raw) -> Condition:
    events = counted(int(info.get("state", {}).get("messages", 0)), "event")
    message = (
        f"{place.stream} in the installation's own NATS account is this channel's, too, from before {connection}; "
        f"nothing is delivered from there any more, and it holds {events}. It goes with the channel: take "
        "the connection back to have them delivered, or delete it"
    )
    return Condition(CONDITION, False, IN_CLUSTER, message, informative=True)


def _left_elsewhere(status: Raw, place: ChannelStream, before: str) -> Condition:
    message = (
        f"{place.stream} and {place.aside} in the NATS account of {before} were this channel's; nothing is "
        f"delivered from there any more ({_waiting(status)} not been settled), and nobody here can "
        "delete them: take the connection back to have them delivered, or delete them there"
    )
    return Condition(CONDITION, False, ELSEWHERE, message, informative=True)


def _told_before(status: Raw) -> Condition | None:
    """A stream that was left elsewhere stays there, though only the earlier status tells of it."""
    for one in status.get("conditions") or ():
        if (one.get("type"), one.get("status"), one.get("reason")) == (CONDITION, "False", ELSEWHERE):
            return Condition(CONDITION, False, ELSEWHERE, str(one.get("message") or ""), informative=True)
    return None


def _waiting(status: Raw) -> str:
    waiting = sum(int(row.get("lag") or 0) for row in status.get("consumers") or ())
    return counted(waiting, "event has", "events have")


def _ours(place: ChannelStream, info: Raw) -> bool:
    config = info.get("config") or {}
    return standing(place, Role.CHANNEL, config) is Ownership.OURS and uid_of(config) in ("", place.owner.uid)
