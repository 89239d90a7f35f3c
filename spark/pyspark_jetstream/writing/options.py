"""The options of writing: where to, as what, and how a repetition is kept from storing twice. Pure.

Knows names, kinds and defaults, and which options exclude each other. Does not know columns, streams or Spark's
classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.core import names
from pyspark_jetstream.client.access import Access
from pyspark_jetstream.client.publish import WINDOW_MESSAGES
from pyspark_jetstream.client.subjects import is_filter
from pyspark_jetstream.connection_options import CONNECTION_OPTIONS, access
from pyspark_jetstream.option_values import Values, wrong
from pyspark_jetstream.options import channel_name, check_stream_name

EVENT = "event"
CONTENT = "content"
FAIL = "fail"
SKIP = "skip"
MARKER_STREAM = "headrace_spark"

WRITE_OPTIONS = (
    *CONNECTION_OPTIONS,
    "subject",
    "channel",
    "cloudevents",
    "msgIds",
    "runId",
    "runSelection",
    "ackWindow",
    "fastIngest",
    "onFaultyRow",
    "commitMarker",
    "commitMarkerStream",
    "maxRowsPerSecond",
    "summaryFile",
)
# Spark hands a query's own options to its sink.
_OF_SPARK = ("checkpointLocation", "path", "queryName")
_BY_SUBJECT = "a stream is written to by a subject that it captures: use subject, or channel for a channel's"
_INSTEAD = {"stream": _BY_SUBJECT, "streams": _BY_SUBJECT, "channels": "a sink has one: use channel"}
# Far below the number of messages that a server keeps between arrival and storing.
_MOST_WINDOW = 65_536


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a writer.

    Attributes:
        subject: that of every message; empty when a column has it.
        is_channel: whether the subject is a channel's, so that room is left for parking.
        cloudevents: rows are events; otherwise they have subject, headers and data.
        msg_ids: EVENT, from source and id; or CONTENT, from the run and the row's content.
        run: names a batch, with the same name for a repetition; empty for a batch that nobody repeats.
        selection: the choice of the run's rows, in free words; empty when it is not given.
        window: messages that may be unacknowledged at once, per task.
        fast: use fast ingest where the stream allows it.
        on_faulty_row: FAIL or SKIP.
        marker_stream: the stream of the commit marker; empty for no marker.
        rows_per_second: the limit for one task; zero for no limit.
        summary_file: a file on the driver's machine that gets a line of JSON per batch; empty for none.
    """

    access: Access
    subject: str
    is_channel: bool
    cloudevents: bool
    msg_ids: str
    run: str
    selection: str
    window: int
    fast: bool
    on_faulty_row: str
    marker_stream: str
    rows_per_second: int
    summary_file: str


def write_options(given: Mapping[str, str], environment: Mapping[str, str], *, streaming: bool) -> WriteOptions:
    """Raises:
    Misconfigured: the message names the first wrong option.
    """
    values = Values(given)
    values.refuse_unknown((*WRITE_OPTIONS, *_OF_SPARK), _INSTEAD)
    channel = values.text("channel")
    if channel and "subject" in values:
        raise wrong("subject", values.text("subject"), f"channel is given, too ({channel}): give one of them")
    found = channel_name("channel", channel) if channel else None
    subject = names.channel(found.namespace, found.name).subject if found else _subject(values.text("subject"))
    cloudevents = values.flag("cloudevents", bool(channel))
    msg_ids = values.choice("msgIds", (EVENT, CONTENT), EVENT if cloudevents else CONTENT)
    if msg_ids == EVENT and not cloudevents:
        raise wrong("msgIds", msg_ids, "only events have a source and an id: use content, or a column msg_id")
    run = values.text("runId")
    if streaming and run:
        raise wrong("runId", run, "a streaming query is known by its checkpoint: leave it out")
    has_marker = values.flag("commitMarker", False)
    selection = values.text("runSelection")
    if selection and (streaming or not has_marker):
        raise wrong("runSelection", selection, "it is kept in the commit marker of a batch: set commitMarker and runId")
    if has_marker and not streaming and not run:
        raise wrong("commitMarker", "true", "a batch needs a runId, too: a name that a repetition has again")
    if has_marker and not subject:
        raise wrong("commitMarker", "true", "it needs one stream: give subject or channel, not a column")
    if not has_marker and "commitMarkerStream" in values:
        raise wrong("commitMarkerStream", values.text("commitMarkerStream"), "set commitMarker to true, too")
    return WriteOptions(
        access=access(values, environment),
        subject=subject,
        is_channel=bool(channel),
        cloudevents=cloudevents,
        msg_ids=msg_ids,
        run=run,
        selection=selection,
        window=values.number("ackWindow", WINDOW_MESSAGES, most=_MOST_WINDOW),
        fast=values.choice("fastIngest", ("auto", "off"), "auto") == "auto",
        on_faulty_row=values.choice("onFaultyRow", (FAIL, SKIP), FAIL),
        marker_stream=_marker_stream(values) if has_marker else "",
        rows_per_second=values.number("maxRowsPerSecond", 0),
        summary_file=values.text("summaryFile"),
    )


def _marker_stream(values: Values) -> str:
    name = values.text("commitMarkerStream", MARKER_STREAM)
    check_stream_name("commitMarkerStream", name)
    return name


def _subject(text: str) -> str:
    if text and (not is_filter(text) or "*" in text.split(".") or ">" in text.split(".")):
        raise wrong("subject", text, "write one subject without wildcards, as orders.created")
    return text
