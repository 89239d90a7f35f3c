"""The reading of a query, planned with NATS' answers: which streams, by which mode, from where to where.

Knows JetStream's API and the options. Does not know Spark. Called by both readers on the driver.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.core import names, subject_pattern
from headrace.core.errors import Misconfigured, Refused
from headrace.core.nats.stored_message import nanoseconds
from pyspark_jetstream.client.api import BlockingApi, StreamInfo
from pyspark_jetstream.offsets import Range, data_loss
from pyspark_jetstream.option_values import wrong
from pyspark_jetstream.options import EARLIEST, ChannelName, ReadOptions, StreamPosition

PULL = "pull"
DIRECT = "direct"
# The oldest server with several filters on a consumer, and with batches of Direct Get.
OLDEST = "2.10"
OLDEST_FOR_DIRECT = "2.11"


@dataclass(frozen=True, slots=True)
class Selected:
    """One stream, and the selection to be read from it.

    Attributes:
        filters: subjects; empty for all.
        mode: PULL or DIRECT.
    """

    info: StreamInfo
    filters: tuple[str, ...]
    mode: str


def selected(jetstream: BlockingApi, options: ReadOptions) -> dict[str, Selected]:
    """The streams that the options name, by name.

    Raises:
        Misconfigured: a stream does not exist, or can't be read as the options want it.
    """
    found: dict[str, Selected] = {}
    version = jetstream.connection.link.info.version
    if is_older(version, OLDEST):
        # An older server would ignore several filters, and give all messages.
        raise Misconfigured(f"the server is NATS {version}: at least {OLDEST} is needed", field="servers")
    for name in options.streams:
        info = jetstream.stream(name)
        if info is None:
            raise wrong("stream", name, "NATS has no such stream: check its name, and the account of the user")
        found[name] = Selected(info, options.subjects, mode_of(info, options.mode))
    for channel in options.channels:
        one = _of_channel(jetstream, channel, options)
        found.setdefault(one.info.name, one)
    if is_older(version, OLDEST_FOR_DIRECT) and any(one.mode == DIRECT for one in found.values()):
        raise wrong(
            "mode", DIRECT, f"the server is NATS {version}, and batches need at least {OLDEST_FOR_DIRECT}: use pull"
        )
    for option, position in (("startingOffsets", options.starting), ("endingOffsets", options.ending)):
        for name in position.by_stream:
            if name not in found:
                raise wrong(option, name, f"it is none of the streams that are read: {', '.join(found)}")
    _refuse_unmatched(jetstream, [one.info for one in found.values()], options.subjects)
    return found


def _refuse_unmatched(jetstream: BlockingApi, streams: Sequence[StreamInfo], filters: Sequence[str]) -> None:
    """Refuse a filter that no message can match: it would read nothing in silence."""
    for one in filters:
        if any(_may_match(jetstream, info, one) for info in streams):
            continue
        captured = "; ".join(f"{info.name} captures {', '.join(info.subjects)}" for info in streams)
        raise wrong("subject", one, f"no message has such a subject, or can get one: {captured}")


def _may_match(jetstream: BlockingApi, info: StreamInfo, one: str) -> bool:
    if info.is_fed or not info.subjects or any(subject_pattern.overlap(one, subject) for subject in info.subjects):
        return True
    # A message from before the stream's subjects were changed may match.
    return jetstream.message_after(info.name, 1, (one,)) is not None


def is_older(version: str, needed: str) -> bool:
    """Whether a server's version is lower; a server without a version counts as new."""
    found = re.match(r"(\d+)\.(\d+)", version)
    major, _, minor = needed.partition(".")
    return found is not None and (int(found[1]), int(found[2])) < (int(major), int(minor))


def mode_of(info: StreamInfo, wanted: str) -> str:
    """How to read a stream: by a consumer, unless it would count as interest there, or is not wanted."""
    is_queue = info.retention != "limits"
    if is_queue and wanted == PULL:
        raise wrong(
            "mode",
            wanted,
            f"stream {info.name} has {info.retention} retention, so a reader would take part: use direct",
        )
    mode = wanted or (DIRECT if is_queue else PULL)
    if mode == PULL or info.allow_direct:
        return mode
    cure = f"set allow_direct on it (nats stream edit {info.name} --allow-direct)"
    if wanted:
        pull = "" if is_queue else ", or use pull"
        raise wrong("mode", mode, f"stream {info.name} does not serve Direct Get: {cure}{pull}")
    raise Misconfigured(
        f"stream {info.name} has {info.retention} retention, where a consumer would take part, and so is read by "
        f"Direct Get, which it does not serve: {cure}",
        field="mode",
    )


def start_of(jetstream: BlockingApi, info: StreamInfo, options: ReadOptions, *, streaming: bool) -> int:
    """The first sequence to read.

    Raises:
        Refused: that sequence is gone, and `failOnDataLoss` is true.
        Misconfigured: that sequence is behind the end, so there is no message, or not the one that is meant.
    """
    at = _sequence(jetstream, info, options.starting)
    if at < info.first:
        if options.fail_on_data_loss:
            raise Refused(data_loss(info.name, at, info.first), status=410)
        return info.first
    if streaming and at > info.last + 1:
        raise Misconfigured(
            f"the query should start at {at} in stream {info.name}, which ends at {info.last}: use latest to wait for "
            "what is to come",
            field="startingSequence",
        )
    # With one sequence for several streams, a short stream may have nothing to read.
    is_meant = info.name in options.starting.by_stream or len(options.streams) + len(options.channels) == 1
    if is_meant and at > info.last + 1:
        raise Misconfigured(
            f"the batch should start at {at} in stream {info.name}, which ends at {info.last}: start there or before",
            field="startingSequence",
        )
    return at


def range_of(jetstream: BlockingApi, info: StreamInfo, options: ReadOptions) -> Range:
    """The range that a batch reads from a stream as it is now."""
    start = start_of(jetstream, info, options, streaming=False)
    end = min(_sequence(jetstream, info, options.ending), info.last + 1)
    return Range(info.name, info.created, start, end, opens=is_open(options.starting, info.name))


def is_open(starting: StreamPosition, stream: str) -> bool:
    """Whether a query starts with whichever message is the first, so that none before it is missed."""
    word = starting.by_stream.get(stream, starting.word)
    return word == EARLIEST and starting.sequence is None and starting.time_ns is None


def sequence_at(jetstream: BlockingApi, info: StreamInfo, time_ns: int) -> int:
    """The first sequence that was stored at a time or later; the one behind the last if there is none.

    Bisection, since every server can answer that; streams are in the order of time.
    """
    low, high = info.first, info.last + 1
    while low < high:
        middle = (low + high) // 2
        message = jetstream.message_after(info.name, middle)
        if message is None or int(message["seq"]) >= high or nanoseconds(str(message["time"])) >= time_ns:
            high = middle
        else:
            low = int(message["seq"]) + 1
    return low


def _sequence(jetstream: BlockingApi, info: StreamInfo, position: StreamPosition) -> int:
    if position.sequence is not None:
        return position.sequence
    if position.time_ns is not None:
        return sequence_at(jetstream, info, position.time_ns)
    wanted = position.by_stream.get(info.name, position.word)
    if isinstance(wanted, int):
        return wanted
    return info.first if wanted == EARLIEST else info.last + 1


def _of_channel(jetstream: BlockingApi, channel: ChannelName, options: ReadOptions) -> Selected:
    """The stream of a channel, found by the channel's subject; from an adopted stream only that subject is read."""
    whole = f"{channel.namespace}/{channel.name}"
    own = names.stream(channel.namespace, channel.name)
    subject = names.channel(channel.namespace, channel.name).subject
    candidates = jetstream.streams_of(subject)
    name = own if own in candidates else next(iter(candidates), "")
    info = jetstream.stream(name) if name else None
    if info is None:
        raise wrong("channel", whole, f"no stream captures its subject {subject}: check the name, and that it is ready")
    if options.subjects or name == own:
        return Selected(info, options.subjects, mode_of(info, options.mode))
    lies_at = subject_pattern.stored(subject, info.subject_transform)
    if lies_at is None:
        problem = f"stream {name} stores its subject {subject} where no filter can follow, by its subject_transform"
        raise wrong("channel", whole, f"{problem}: name the stream, and the subjects that are to be read")
    return Selected(info, (lies_at,), mode_of(info, options.mode))
