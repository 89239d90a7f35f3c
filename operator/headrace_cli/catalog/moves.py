"""Where a consumer stands, and where it is moved to; and how it is paused, resumed and deleted.

A reset is the server's own where it can do that (NATS 2.14, deliver policies that begin anywhere); else the consumer is
made again at its new place, which only a stream that keeps events without interest survives.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from headrace.core import names
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace_cli.access.session import Session
from headrace_cli.access.stream_reader import MessageReader
from headrace_cli.catalog.channels import forget_stages
from headrace_cli.catalog.subscriptions import CatalogSubscription
from headrace_cli.view import units

RESET_NOT_ALLOWED = 10204
# An operator may make the consumer again in between.
TRIES = 5
# NATS has no pause without an end.
FOR_EVER = datetime(2100, 1, 1, tzinfo=UTC)
_BEGINNINGS = ("opt_start_seq", "opt_start_time", "deliver_policy", "pause_until")


@dataclass(frozen=True, slots=True)
class ResetPoint:
    """The point at which a Subscription is to go on: a sequence, a time, or one end of the stream.

    Attributes:
        end: `first`: all events of the stream are delivered; `next`: none of them.
    """

    sequence: int | None = None
    time: datetime | None = None
    end: str = ""


@dataclass(frozen=True, slots=True)
class Move:
    """The effect of a reset, in numbers of sequences; they are numbers of events where none is missing in between.

    Attributes:
        sequence: the first one that is delivered after the reset.
        again: at most so many are delivered once more; skipped: at most so many are never delivered.
    """

    sequence: int
    again: int
    skipped: int
    unsettled: int


def move(one: CatalogSubscription, sequence: int) -> Move:
    """The effect of going on at `sequence`."""
    state = one.channel.info["state"]
    first, last = int(state["first_seq"]), int(state["last_seq"])
    to = max(sequence, first)
    delivered = int((one.info.get("delivered") or {}).get("stream_seq", 0))
    return Move(
        sequence=sequence,
        again=max(0, min(delivered, last) - to + 1),
        skipped=max(0, min(to - 1, last) - max(one.settled_to, first - 1)),
        unsettled=one.unacked,
    )


async def plan_reset(session: Session, one: CatalogSubscription, to: ResetPoint) -> Move:
    """The effect of going on at a point.

    Raises:
        Misconfigured: the sequence lies beyond the next one that the stream will give.
    """
    return move(one, await _sequence(session, one, to))


async def reset(session: Session, one: CatalogSubscription, sequence: int) -> None:
    """Let a Subscription go on at a sequence, and forget the stage records of its events under way.

    Raises:
        Refused: 409, the server can't, and making the consumer again would lose events; or the server's own words.
    """
    try:
        await session.api.call(f"CONSUMER.RESET.{one.channel.stream}.{one.consumer}", {"seq": sequence})
    except (ApiError, Unavailable) as error:
        # A server that does not know the request answers nothing at all.
        if isinstance(error, ApiError) and error.err_code != RESET_NOT_ALLOWED:
            raise
        await _make_again(session, one, sequence, str(error))
    await _forget(session, one)
    await session.jetstream.hint(names.wake_subject(one.channel.stream))


async def pause(session: Session, one: CatalogSubscription, until: datetime | None) -> dict[str, Any]:
    """Hand out no event until a time; None: go on now.

    Raises:
        Unavailable: the server does not know of pauses (before NATS 2.11), or is away.
    """
    subject = f"CONSUMER.PAUSE.{one.channel.stream}.{one.consumer}"
    answer = await session.api.call(subject, {"pause_until": units.stamp(until)} if until is not None else {})
    if until is None:
        await session.jetstream.hint(names.wake_subject(one.channel.stream))
    return answer


async def delete(session: Session, one: CatalogSubscription) -> None:
    """Delete a Subscription's consumer and the stage records of its events under way."""
    await session.api.find(f"CONSUMER.DELETE.{one.channel.stream}.{one.consumer}")
    await _forget(session, one)


async def _sequence(session: Session, one: CatalogSubscription, to: ResetPoint) -> int:
    state = one.channel.info["state"]
    following = int(state["last_seq"]) + 1
    if to.time is not None:
        return max(1, await MessageReader(session.api, one.channel.stream).sequence_at(to.time))
    if to.sequence is None:
        return following if to.end == "next" else max(1, int(state["first_seq"]))
    if to.sequence > following:
        problem = (
            f"--to-sequence is {to.sequence}, but the stream's next event is {following}: all up to there would be"
        )
        raise Misconfigured(f"{problem} passed over; give --new for what comes next", field="--to-sequence")
    return to.sequence


async def _make_again(session: Session, one: CatalogSubscription, sequence: int, why: str) -> None:
    retention = one.channel.info["config"].get("retention")
    if retention != "limits":
        raise Refused(
            f"the server can't reset {one.consumer} ({why}), and a stream with retention {retention} would lose its "
            f"events if the consumer were made again: use `kn jetstream replay {one.channel.ref} --to-subscription "
            f"{one.ref}`",
            status=409,
        )
    stream, consumer = one.channel.stream, one.consumer
    kept = {name: value for name, value in one.config.items() if name not in _BEGINNINGS}
    config = {**kept, "name": consumer, "deliver_policy": "by_start_sequence", "opt_start_seq": max(1, sequence)}
    if one.info.get("paused"):
        config["pause_until"] = one.config.get("pause_until")
    for tries in range(1, TRIES + 1):
        await session.api.find(f"CONSUMER.DELETE.{stream}.{consumer}")
        try:
            body = {"stream_name": stream, "config": config, "action": "create"}
            await session.api.call(f"CONSUMER.CREATE.{stream}.{consumer}", body)
            return
        except ApiError:
            if tries == TRIES:
                raise


async def _forget(session: Session, one: CatalogSubscription) -> None:
    if one.channel.aside is not None:
        await forget_stages(session.api, one.channel.aside_name, names.stage_subjects(one.consumer))
