"""The options of reading: what, from where to where, and how; checked before NATS is asked for anything.

Knows names, kinds and defaults of the options, and which of them exclude each other. Does not know streams or Spark's
classes. Called by the source at planning. Names and meanings follow Spark's Kafka source where it has the like.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.core import names
from headrace.core.errors import InvalidSpec, Misconfigured
from pyspark_jetstream.client.access import Access
from pyspark_jetstream.client.subjects import is_filter, without_included
from pyspark_jetstream.connection_options import CONNECTION_OPTIONS, access
from pyspark_jetstream.option_values import Values, wrong

EARLIEST = "earliest"
LATEST = "latest"
# The numbers that stand for these words in the JSON of Spark's Kafka source.
_KAFKA_WORDS = {-1: LATEST, -2: EARLIEST}

# Large enough that making a consumer hardly counts, small enough that 300,000 messages keep three cores busy.
DEFAULT_PER_PARTITION = 100_000

READ_OPTIONS = (
    *CONNECTION_OPTIONS,
    "stream",
    "streams",
    "channel",
    "channels",
    "subject",
    "startingOffsets",
    "startingSequence",
    "startingTimestamp",
    "endingOffsets",
    "endingSequence",
    "endingTimestamp",
    "minPartitions",
    "maxMessagesPerPartition",
    "maxMessagesPerTrigger",
    "maxBytesPerTrigger",
    "includeHeaders",
    "includeReplays",
    "failOnDataLoss",
    "onStreamRecreated",
    "mode",
    "cloudevents",
    "parseMode",
)
_ENDINGS = ("endingOffsets", "endingSequence", "endingTimestamp")
# Names that people try, and the options that they should write.
_INSTEAD = {"path": "load() takes no path: name what is read in the option stream or channel"}
_ILLEGAL_IN_STREAM = frozenset(" .*>/\\\t\r\n\0")


@dataclass(frozen=True, slots=True)
class StreamPosition:
    """A place to start or to end at, of one of four kinds.

    Attributes:
        word: `earliest` or `latest`, for streams without another place.
        sequence: the one for all streams; as an end, the first one that is not read.
        time_ns: nanoseconds since the epoch; it stands for the first message that is not older.
        by_stream: sequences or words by the stream's name; they override the others.
    """

    word: str
    sequence: int | None = None
    time_ns: int | None = None
    by_stream: Mapping[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChannelName:
    """A channel as an option names it."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a reader; docs/spark.md has the meaning of each."""

    access: Access
    streams: tuple[str, ...]
    channels: tuple[ChannelName, ...]
    subjects: tuple[str, ...]
    starting: StreamPosition
    ending: StreamPosition
    min_partitions: int
    max_per_partition: int
    max_messages: int
    max_bytes: int
    include_headers: bool
    include_replays: bool
    fail_on_data_loss: bool
    start_over: bool
    mode: str
    cloudevents: bool
    parse_mode: str


def read_options(given: Mapping[str, str], environment: Mapping[str, str], *, streaming: bool | None) -> ReadOptions:
    """Args:
    streaming: None while it is not known, such as when Spark asks for the columns.

    Raises:
        Misconfigured: the message names the first wrong option.
    """
    values = Values(given)
    values.refuse_unknown(READ_OPTIONS, _INSTEAD)
    if streaming:
        _refuse(values, _ENDINGS, "a streaming query has no end: leave it out")
    elif streaming is False:
        bounds = f"leave it out, and bound the batch by {', '.join(_ENDINGS[:-1])} or {_ENDINGS[-1]}"
        _refuse(values, ("maxMessagesPerTrigger", "maxBytesPerTrigger"), f"a batch has no trigger: {bounds}")
        _refuse(values, ("onStreamRecreated",), "it is for streaming queries: leave it out")
    streams = _streams(values)
    channels = _channels(values)
    if not streams and not channels:
        raise Misconfigured(
            "none of the options stream, streams, channel and channels is given: say what to read", field="stream"
        )
    cloudevents = values.flag("cloudevents", False)
    if not cloudevents:
        _refuse(values, ("parseMode",), "it is for what is no event: set cloudevents to true, too, or leave it out")
    starting = _position(values, "starting", LATEST if streaming else EARLIEST, streaming=streaming)
    ending = _position(values, "ending", LATEST, streaming=streaming)
    _refuse_backwards(values, starting, ending)
    return ReadOptions(
        access=access(values, environment),
        streams=streams,
        channels=channels,
        subjects=_subjects(values),
        starting=starting,
        ending=ending,
        min_partitions=values.number("minPartitions", 1),
        max_per_partition=values.number("maxMessagesPerPartition", DEFAULT_PER_PARTITION),
        max_messages=values.number("maxMessagesPerTrigger", 0),
        max_bytes=values.number("maxBytesPerTrigger", 0),
        include_headers=values.flag("includeHeaders", True),
        include_replays=values.flag("includeReplays", False),
        fail_on_data_loss=values.flag("failOnDataLoss", True),
        start_over=values.choice("onStreamRecreated", ("fail", "startOver"), "fail") == "startOver",
        mode=values.choice("mode", ("pull", "direct"), ""),
        cloudevents=cloudevents,
        parse_mode=values.choice("parseMode", ("PERMISSIVE", "DROPMALFORMED", "FAILFAST"), "PERMISSIVE"),
    )


def _refuse(values: Values, unwanted: tuple[str, ...], why: str) -> None:
    for name in unwanted:
        if name in values:
            raise wrong(name, values.text(name), why)


def _refuse_backwards(values: Values, starting: StreamPosition, ending: StreamPosition) -> None:
    """Refuse an end before the start: it would read nothing in silence. Equal offsets and times are an empty part."""
    if starting.sequence is not None and ending.sequence is not None and starting.sequence >= ending.sequence:
        raise _backwards(values, "endingSequence", "startingSequence")
    if starting.time_ns is not None and ending.time_ns is not None and starting.time_ns > ending.time_ns:
        raise _backwards(values, "endingTimestamp", "startingTimestamp")
    for stream, start in starting.by_stream.items():
        end = ending.by_stream.get(stream)
        if isinstance(start, int) and isinstance(end, int) and start > end:
            raise _backwards(values, "endingOffsets", "startingOffsets")


def _backwards(values: Values, end: str, start: str) -> Misconfigured:
    return wrong(end, values.text(end), f"it is before {start} ({values.text(start)}): write one behind it")


def _streams(values: Values) -> tuple[str, ...]:
    found = []
    for option in ("stream", "streams"):
        for name in values.names(option):
            check_stream_name(option, name)
            found.append(name)
    return tuple(dict.fromkeys(found))


def check_stream_name(option: str, name: str) -> None:
    """Raises:
    Misconfigured: no stream can have that name.
    """
    if _ILLEGAL_IN_STREAM.intersection(name):
        raise wrong(option, name, "a stream's name has no blanks and none of . * > / \\")


def _channels(values: Values) -> tuple[ChannelName, ...]:
    found = [channel_name(option, text) for option in ("channel", "channels") for text in values.names(option)]
    return tuple(dict.fromkeys(found))


def channel_name(option: str, text: str) -> ChannelName:
    """Raises:
    Misconfigured: no channel can have that name.
    """
    namespace, slash, name = text.partition("/")
    if not slash:
        raise wrong(option, text, "write it as namespace/name")
    try:
        names.channel(namespace, name)
    except InvalidSpec as error:
        raise wrong(option, text, f"write it as namespace/name ({error})") from error
    return ChannelName(namespace, name)


def _subjects(values: Values) -> tuple[str, ...]:
    filters = values.names("subject")
    for one in filters:
        if not is_filter(one):
            raise wrong("subject", one, "write subjects with commas, as orders.*.created,payments.>")
    return without_included(filters)


def _position(values: Values, which: str, default: str, *, streaming: bool | None) -> StreamPosition:
    offsets, sequence, time = f"{which}Offsets", f"{which}Sequence", f"{which}Timestamp"
    given = [name for name in (offsets, sequence, time) if name in values]
    if len(given) > 1:
        raise wrong(given[1], values.text(given[1]), f"{given[0]} is given, too: give one of them")
    if sequence in values:
        # An ending sequence is the last one that is read.
        return StreamPosition(default, sequence=values.number(sequence, 1) + (which == "ending"))
    if time in values:
        return StreamPosition(default, time_ns=values.time(time))
    if offsets not in values:
        return StreamPosition(default)
    forbidden = "" if streaming is not False else LATEST if which == "starting" else EARLIEST
    position = _offsets(values, offsets, default)
    if forbidden and forbidden in (position.word, *position.by_stream.values()):
        other = "earliest, or the place to start at" if which == "starting" else "latest, or the place to end at"
        raise wrong(
            offsets,
            values.text(offsets),
            f"a batch that has {which} offsets of {forbidden} reads nothing: write {other}, or leave it out",
        )
    return position


def _offsets(values: Values, name: str, default: str) -> StreamPosition:
    text = values.text(name)
    if text.lower() in (EARLIEST, LATEST):
        return StreamPosition(text.lower())
    by_stream: dict[str, int | str] = {}
    wanted = 'write earliest, latest, or JSON by stream, as {"ORDERS": 1200, "PAYMENTS": "earliest"}'
    if not text.startswith("{"):
        raise wrong(name, text, wanted)
    for stream, value in values.parsed(name, dict).items():
        known = _KAFKA_WORDS.get(value, value) if isinstance(value, int) else value
        if known not in (EARLIEST, LATEST) and (not isinstance(known, int) or isinstance(known, bool)):
            raise wrong(name, text, wanted)
        if isinstance(known, int) and known < 1:
            raise wrong(name, text, f"sequences start at 1, and {stream} has {known}: {wanted}")
        by_stream[stream] = known
    return StreamPosition(default, by_stream=by_stream)
