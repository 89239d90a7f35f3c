"""Where a streaming query stands in each stream, and how far its next batch goes. Pure.

An offset is `{"v":1,"streams":{<stream>:{"next":N,"base":B,"created":T}}}`:

    next     the first sequence that is not read
    base     where the query started in this stream. Spark keeps no initial offset, and asks for it more than once: an
             end that carries its start is what keeps messages between two askings from being lost
    created  when the stream was made: in another stream of that name the sequences mean nothing
    init     true in an initial offset only, which any end's base overrules

A stream that the query does not read any more keeps its part: when it is read again, the query goes on there. There are
no acks: the messages between two offsets can be read again, and are the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.core.errors import Misconfigured, Refused
from pyspark_jetstream.client.api import StreamInfo

VERSION = 1


@dataclass(frozen=True, slots=True)
class At:
    """One stream's part of an offset."""

    next: int
    base: int
    created: str
    init: bool = False


Offset: TypeAlias = Mapping[str, At]


@dataclass(frozen=True, slots=True)
class Range:
    """Sequences of one stream: `start <= sequence < end`.

    Attributes:
        opens: the range begins where the reading of this stream begins.
    """

    stream: str
    created: str
    start: int
    end: int
    opens: bool = False

    def __len__(self) -> int:
        return max(self.end - self.start, 0)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The limits of one batch; 0 for no limit."""

    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class OnLoss:
    """The reaction to a stream that is not the one that the offset knows.

    Attributes:
        fail_on_data_loss: the query ends when the stream has lost its start, or when a stream of the checkpoint is not
            read now.
        start_over: a stream that was made again or has shrunk is read from its start; otherwise the query ends.
    """

    fail_on_data_loss: bool = True
    start_over: bool = False


def to_json(offset: Offset) -> dict[str, Any]:
    """The offset as JSON with the streams in the order of their names, since Spark compares offsets as text."""
    streams = {}
    for name in sorted(offset):
        at = offset[name]
        streams[name] = {"next": at.next, "base": at.base, "created": at.created, **({"init": True} if at.init else {})}
    return {"v": VERSION, "streams": streams}


def from_json(said: Mapping[str, Any]) -> Offset:
    """Raises:
    Misconfigured: another version or another program wrote this checkpoint.
    """
    if said.get("v") != VERSION:
        raise Misconfigured(
            f"the checkpoint has an offset of version {said.get('v')!r}; this one reads {VERSION}: use the version of "
            "pyspark-jetstream that wrote it, or a new checkpoint",
            field="checkpointLocation",
        )
    return {
        name: At(int(at["next"]), int(at["base"]), str(at["created"]), bool(at.get("init")))
        for name, at in said["streams"].items()
    }


def left_out(start: Offset, streams: Collection[str]) -> list[str]:
    """The streams of an offset that are not among those that are read."""
    return sorted(set(start).difference(streams))


def latest(
    start: Offset, states: Mapping[str, StreamInfo], limits: ReadLimits, on_loss: OnLoss, joining: Mapping[str, int]
) -> Offset:
    """The end of the batch that starts at `start`; streams that are not read now keep their places.

    Args:
        states: those of the streams that are read.
        joining: the first sequence of each stream that `start` does not know.

    Raises:
        Refused: a stream is not the one that the offset knows, or is not read, and that is not allowed.
    """
    places = {name: At(start[name].next, start[name].base, start[name].created) for name in left_out(start, states)}
    if places and on_loss.fail_on_data_loss:
        raise Refused(missing(places, states), status=409)
    positions = {
        name: _position(start[name], state, on_loss)
        if name in start
        else At(joining[name], joining[name], state.created)
        for name, state in states.items()
    }
    backlogs = {name: max(state.last + 1 - max(positions[name].next, state.first), 0) for name, state in states.items()}
    most = _most(backlogs, states, limits)
    shares = share(backlogs, most) if most is not None else backlogs
    return places | {
        name: At(
            # Messages that are gone are skipped, and count for no limit.
            max(at.next, states[name].first) + shares[name] if shares[name] else at.next,
            at.base,
            at.created,
        )
        for name, at in positions.items()
    }


def ranges(start: Offset, end: Offset) -> list[Range]:
    """The ranges between two offsets; never beyond the end, whatever the start is."""
    found = []
    for name in sorted(end):
        at, to = start.get(name), end[name]
        goes_on = at is not None and not at.init and at.created == to.created
        begin = at.next if goes_on and at is not None else to.base
        found.append(Range(name, to.created, begin, to.next, opens=not goes_on))
    return [one for one in found if len(one)]


def share(backlogs: Mapping[str, int], most: int) -> dict[str, int]:
    """Give each stream a part of `most` in proportion to its backlog, `most` in all if there are so many."""
    total = sum(backlogs.values())
    if total <= most:
        return dict(backlogs)
    shares = {name: most * backlog // total for name, backlog in backlogs.items()}
    left = most - sum(shares.values())
    by_remainder = sorted(backlogs, key=lambda name: (-(most * backlogs[name] % total), name))
    for name in by_remainder[:left]:
        shares[name] += 1
    return shares


def partitions(wanted: list[Range], most_each: int, least: int) -> list[Range]:
    """Cut ranges into even parts of at most `most_each` sequences, and `least` of them if there are so many."""
    total = sum(map(len, wanted))
    found = []
    for one in wanted:
        size = len(one)
        count = min(max(-(-size // most_each), -(-size * least // total)), size)
        edges = [one.start + size * at // count for at in range(count + 1)]
        found += [Range(one.stream, one.created, edges[at], edges[at + 1], one.opens and not at) for at in range(count)]
    return found


def _position(at: At, state: StreamInfo, on_loss: OnLoss) -> At:
    is_another = at.created != state.created
    if is_another or state.last + 1 < at.next:
        if on_loss.start_over:
            return At(state.first, state.first, state.created)
        what = "was deleted and made again" if is_another else f"ends at {state.last}: it has shrunk"
        raise Refused(
            f"stream {state.name} {what}, while this query stands at {at.next}: use a new checkpoint, or set "
            "onStreamRecreated to startOver to read it from its first message",
            status=409,
        )
    if state.first > at.next and on_loss.fail_on_data_loss:
        raise Refused(data_loss(state.name, at.next, state.first), status=410)
    return At(at.next, at.base, at.created)


def missing(places: Offset, streams: Collection[str]) -> str:
    """The message about streams of the checkpoint that the query does not read."""
    known = ", ".join(f"{name} at {at.next}" for name, at in places.items())
    return (
        f"the checkpoint stands in streams that this query does not read ({known}; it reads {', '.join(streams)}): "
        "name them again to go on there, or start with a new checkpoint. With failOnDataLoss false the query goes on "
        "without them, and their places are kept"
    )


def data_loss(stream: str, wanted: int, first: int) -> str:
    """The message about data that were discarded before they were read."""
    return (
        f"messages {wanted} to {first - 1} of stream {stream} are gone, discarded by its limits or purged before they "
        "were read: set failOnDataLoss to false to go on with what there is"
    )


def _most(backlogs: Mapping[str, int], states: Mapping[str, StreamInfo], limits: ReadLimits) -> int | None:
    """How many messages the batch may have; None for no limit. Bytes are estimated by the streams' averages."""
    found = [limits.messages] if limits.messages else []
    if limits.bytes:
        size = sum(count * _average(states[name]) for name, count in backlogs.items())
        count = sum(backlogs.values())
        found.append(max(int(count * limits.bytes / size), 1) if size > limits.bytes else count)
    return min(found, default=None)


def _average(state: StreamInfo) -> float:
    return state.bytes / state.messages if state.messages else 0.0
