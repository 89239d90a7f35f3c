"""Record batches to messages: types of columns, maps with gaps, sliced batches."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import Refused
from headrace.core.event import nats_codec
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.nats.nats_wire import Headers, header_block
from pyspark_jetstream.client import Outgoing
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.ids import ContentIds
from pyspark_jetstream.writing.messages import RowFault, messages, texts
from pyspark_jetstream.writing.options import write_options

MAP = pa.map_(pa.string(), pa.string())


def made(batch: pa.RecordBatch, kinds: list[str], **options: str) -> list[Outgoing | RowFault]:
    given = {"servers": "nats://nats.example", "subject": "a.b", **options}
    wanted = write_options(given, {}, streaming=False)
    found = parts(zip(batch.schema.names, kinds, strict=True), wanted)
    return list(messages(batch, found, wanted, ContentIds("s."), 0))


def headers_of(message: Outgoing | RowFault) -> dict[str, str]:
    assert isinstance(message, Outgoing)
    return dict(Headers(message.block))


MOMENT = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("values", "then"),
    [
        pytest.param(pa.array([True, False, None]), ["true", "false", None], id="booleans"),
        pytest.param(pa.array([7, -1, None], pa.int32()), ["7", "-1", None], id="integers"),
        pytest.param(pa.array([b"\x00\xff", None], pa.binary()), ["AP8=", None], id="bytes are base64"),
        pytest.param(pa.array(["größe", None], pa.large_string()), ["größe", None], id="text"),
        pytest.param(
            pa.array([MOMENT, MOMENT + timedelta(milliseconds=250), None], pa.timestamp("us", "UTC")),
            ["2026-01-31T09:30:00Z", "2026-01-31T09:30:00.25Z", None],
            id="times, with the decimals that they need",
        ),
        pytest.param(
            pa.array([MOMENT.astimezone(timezone(timedelta(hours=5)))], pa.timestamp("us", "+05:00")),
            ["2026-01-31T09:30:00Z"],
            id="times of another zone, in UTC",
        ),
    ],
)
def test_columns_become_canonical_strings(values: pa.Array, then: list[str | None]):
    assert texts(values) == then


@given(st.integers(0, 250_000_000_000_000_000))
def test_every_time_reads_back_as_it_was(microseconds: int):
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=microseconds)
    [text] = texts(pa.array([moment], pa.timestamp("us", "UTC")))
    assert text is not None
    assert datetime.fromisoformat(text) == moment
    assert text.rstrip("Z").rpartition(".")[2][-1:] != "0" or "." not in text


names = st.text("abcdefghij0123456789", min_size=1, max_size=8).filter(lambda name: name not in ("data", "id"))
values = st.text(min_size=0, max_size=20).filter(str.isprintable)


@given(st.lists(st.tuples(values.filter(bool), st.dictionaries(names, values, max_size=4), st.binary(max_size=20))))
def test_an_event_reads_back_as_its_columns(rows: list[tuple[str, dict[str, str], bytes]]):
    arrays = [
        pa.array([id for id, _, _ in rows], pa.string()),
        pa.array(["/s"] * len(rows), pa.string()),
        pa.array(["t"] * len(rows), pa.string()),
        pa.array([list(extensions.items()) for _, extensions, _ in rows], MAP),
        pa.array([data for _, _, data in rows], pa.binary()),
    ]
    batch = pa.RecordBatch.from_arrays(arrays, ["id", "source", "type", "extensions", "data"])
    found = made(batch, ["string", "string", "string", "map<string,string>", "binary"], cloudevents="true")
    assert len(found) == len(rows)
    for message, (id, extensions, data) in zip(found, rows, strict=True):
        assert isinstance(message, Outgoing)
        stored = NatsMessage(message.subject, Headers(message.block), message.data)
        event = nats_codec.from_nats(stored, stream="S", sequence=1)
        assert dict(event.attributes) == {"specversion": "1.0", "id": id, "source": "/s", "type": "t", **extensions}
        assert event.data == data


def test_maps_of_a_slice_are_its_own_and_gaps_are_left_out():
    maps: list[Any] = [[("a", "0")], [("a", "1"), ("b", None)], None, [("c", "3")], []]
    batch = pa.RecordBatch.from_arrays([pa.array(maps, MAP), pa.array([b"x"] * 5)], ["headers", "data"])
    found = made(batch.slice(1, 4), ["map<string,string>", "binary"])
    own = [{name: value for name, value in headers_of(one).items() if name != "nats-msg-id"} for one in found]
    assert own == [{"a": "1"}, {}, {"c": "3"}, {}]


header_maps = st.dictionaries(names, st.text(max_size=8), max_size=3)


@given(st.lists(st.one_of(st.none(), header_maps), min_size=1, max_size=5))
def test_headers_of_a_column_are_those_of_the_encoder_and_what_it_refuses_is_a_fault(
    given: list[dict[str, str] | None],
):
    maps = [None if one is None else list(one.items()) for one in given]
    batch = pa.RecordBatch.from_arrays([pa.array(maps, MAP), pa.array([b"x"] * len(maps))], ["headers", "data"])
    for message, headers in zip(made(batch, ["map<string,string>", "binary"]), given, strict=True):
        try:
            block = header_block(headers) if headers else b""
        except Refused:
            assert isinstance(message, RowFault)
        else:
            assert isinstance(message, Outgoing)
            [own] = [line for line in message.block.split(b"\r\n") if line.startswith(b"Nats-Msg-Id")]
            bare = message.block.replace(own + b"\r\n", b"")
            assert bare == (block or b"NATS/1.0\r\n\r\n")


def test_a_message_has_the_id_that_was_made_for_it_and_no_other():
    batch = pa.RecordBatch.from_arrays([pa.array(["1"]), pa.array(["/s"]), pa.array(["t"])], ["id", "source", "type"])
    kinds = ["string", "string", "string"]
    [by_event] = made(batch, kinds, cloudevents="true")
    [by_content] = made(batch, kinds, cloudevents="true", msgids="content")
    assert headers_of(by_event)["nats-msg-id"] == nats_codec.msg_id("/s", "1")
    assert headers_of(by_content)["nats-msg-id"].startswith("s.")
    assert isinstance(by_content, Outgoing)
    assert by_content.block.lower().count(b"nats-msg-id") == 1
