"""CloudEvents as rows: read as columns or one by one by the codec, the rows are the same."""

from __future__ import annotations

from time import tzset

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import TimestampType

from headrace.core.errors import InvalidEvent
from pyspark_jetstream import event_rows
from pyspark_jetstream.client import Messages
from pyspark_jetstream.event_columns import Plain, plain_events
from pyspark_jetstream.event_rows import event_batch
from pyspark_jetstream.event_times import microseconds
from pyspark_jetstream.schema import EVENT_COLUMNS

KINDS = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "binary": pa.binary(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
}
COLUMNS = {**EVENT_COLUMNS, "specversion": "string"}
SCHEMA = pa.schema([pa.field(name, KINDS[kind]) for name, kind in COLUMNS.items()])
WHOLE = {"ce-specversion": "1.0", "ce-id": "7", "ce-source": "/shop", "ce-type": "order.created"}


def stored(*blocks: dict[str, str] | bytes, payload: bytes = b"{}") -> Messages:
    """Messages with these headers; `times` are seconds since the epoch by their number."""
    made = [
        block
        if isinstance(block, bytes)
        else "".join(["NATS/1.0\r\n", *(f"{k}: {v}\r\n" for k, v in block.items()), "\r\n"]).encode()
        for block in blocks
    ]
    count = len(made)
    return Messages(
        [b"shop.orders"] * count,
        list(range(1, count + 1)),
        made,
        [payload] * count,
        times=[n * 10**9 for n in range(count)],
    )


def rows(messages: Messages, parse_mode: str = "PERMISSIVE") -> list[dict[str, object]]:
    found: list[dict[str, object]] = event_batch(messages, "EV", SCHEMA, parse_mode).to_pylist()
    return found


def test_attributes_become_columns_and_the_others_extensions() -> None:
    headers = {
        **WHOLE,
        "ce-time": "2026-01-31T09:30:00.25+01:00",
        "ce-traceid": "a1",
        "content-type": "text/plain",
        "x": "y",
    }
    [row] = rows(stored(headers, payload=b"hi"))
    assert row["time"].isoformat() == "2026-01-31T08:30:00.250000+00:00"  # type: ignore[attr-defined]  # a datetime
    assert {
        name: row[name]
        for name in ("id", "source", "type", "subject", "datacontenttype", "extensions", "data", "error")
    } == {
        "id": "7",
        "source": "/shop",
        "type": "order.created",
        "subject": None,
        "datacontenttype": "text/plain",
        "extensions": [("traceid", "a1")],
        "data": b"hi",
        "error": None,
    }


def test_structured_json_and_foreign_messages_are_events() -> None:
    body = b'{"specversion":"1.0","id":"8","source":"/s","type":"t","ext":true,"data":{"a":1}}'
    [structured] = rows(stored(b"", payload=body))
    assert (structured["id"], structured["data"], structured["extensions"]) == ("8", b'{"a":1}', [("ext", "true")])
    [foreign] = rows(stored(b"", payload=b"\xff\x00"))
    assert (foreign["id"], foreign["type"], foreign["data"]) == ("EV:1", "headrace.foreign", b"\xff\x00")


@pytest.mark.parametrize("zone", ["Etc/GMT+12", "UTC", "Pacific/Kiritimati"])
@pytest.mark.parametrize(
    ("time", "is_shown"),
    [
        pytest.param("0001-01-01T00:00:00Z", False, id="Go's zero time"),
        pytest.param("0001-01-03T00:00:00Z", True, id="the first"),
        pytest.param("9999-12-30T23:59:59.999999Z", True, id="the last"),
        pytest.param("9999-12-31T23:59:59Z", False, id="the end of time"),
    ],
)
def test_a_time_is_null_that_ends_whoever_collects_it_somewhere(
    zone: str, time: str, is_shown: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    [row] = rows(stored({**WHOLE, "ce-time": time}))
    assert (row["id"], row["error"], row["time"] is not None) == ("7", None, is_shown)
    found = microseconds(time)
    monkeypatch.setenv("TZ", zone)
    tzset()
    try:
        # As PySpark does it.
        assert found is None or TimestampType().fromInternal(found) is not None
    finally:
        monkeypatch.undo()
        tzset()


def test_version_03_gives_its_schemaurl_as_dataschema() -> None:
    [row] = rows(stored({**WHOLE, "ce-specversion": "0.3", "ce-schemaurl": "http://a/b"}))
    assert (row["dataschema"], row["extensions"], row["specversion"]) == ("http://a/b", [], "0.3")
    [row] = rows(stored({**WHOLE, "ce-specversion": "0.3", "ce-dataschema": "http://a/b"}))
    # In 0.3 that name means nothing.
    assert (row["dataschema"], row["extensions"]) == (None, [("dataschema", "http://a/b")])


def test_what_is_no_event_gets_a_row_with_an_error_none_or_fails_the_read() -> None:
    messages = stored(WHOLE, {"ce-specversion": "1.0", "ce-id": "9"}, WHOLE, payload=b"?")
    permissive = rows(messages)
    assert [row["id"] for row in permissive] == ["7", None, "7"]
    assert "source: is missing" in str(permissive[1]["error"])
    assert (permissive[1]["data"], permissive[1]["extensions"], permissive[1]["sequence"]) == (b"?", None, 2)
    assert [row["sequence"] for row in rows(messages, "DROPMALFORMED")] == [1, 3]
    with pytest.raises(InvalidEvent, match="message 2 of stream EV"):
        rows(messages, "FAILFAST")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({}, id="a plain event"),
        pytest.param({"ce-time": "2026-02-28T09:30:00.123456789Z", "content-type": "a/b; c=d"}, id="all attributes"),
        pytest.param({"traceparent": "00-ab-cd-01", "Nats-Msg-Id": "x"}, id="other headers"),
        pytest.param({"ce-subject": "gr%C3%B6%C3%9Fe%201", "x": "100%"}, id="percent-encoded"),
    ],
)
def test_plain_events_are_read_as_columns(change: dict[str, str]) -> None:
    """Or the property below would hold for nothing."""
    [group] = plain_events(stored(*[{**WHOLE, **change}] * 3))
    assert list(group.positions) == [0, 1, 2]


names = st.sampled_from(
    ["ce-id", "ce-source", "ce-type", "ce-specversion", "ce-time", "ce-subject", "ce-ext", "CE-Ext", "ce-data",
     "ce-b d", "content-type", "Content-Type", "ce-schemaurl", "ce-dataschema", "ce-datacontentencoding", "x-other"]
)  # fmt: skip
values = st.sampled_from(
    ["1.0", "0.3", "", "a", "a%20b", "%C3%A4", "%FF", "%00", "1%2E0", "%22a%22", "2026-01-31T09%3A30:00Z",
     '"a"', "ä", "a b", "text/plain", "application/cloudevents+json", "no type", "%",
     "2026-01-31T09:30:00Z", "2026-02-30T09:30:00Z", "2026-01-31t09:30:60.5z", "0000-01-01T00:00:00Z",
     "9999-12-31T23:59:59.999999999-23:59", "1969-12-31T23:59:59.9999999Z", "2026-01-31T09:30:00.123456789+05:30"]
)  # fmt: skip
changes = st.dictionaries(names, values, max_size=4)
blocks = st.one_of(
    changes.map(lambda change: {**WHOLE, **change}),
    changes,
    st.sampled_from([b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"NATS/1.0\r\nce-id\r\n\r\n"]),
)
many = st.one_of(
    st.lists(blocks, min_size=1, max_size=6), st.tuples(blocks, st.integers(1, 4)).map(lambda of: [of[0]] * of[1])
)


@given(many, st.sampled_from(["PERMISSIVE", "DROPMALFORMED"]))
def test_columns_and_codec_give_the_same_rows(given: list[dict[str, str] | bytes], parse_mode: str) -> None:
    messages = stored(*given)

    def nobody_is_plain(_messages: Messages) -> list[Plain]:
        return []

    by_columns = rows(messages, parse_mode)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_rows, "plain_events", nobody_is_plain)
        one_by_one = rows(messages, parse_mode)
    assert by_columns == one_by_one
