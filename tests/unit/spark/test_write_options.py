"""The options of writing, and which columns can be written."""

from __future__ import annotations

import pytest

from headrace.core.errors import Misconfigured
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.options import CONTENT, EVENT, WriteOptions, write_options

ENVIRONMENT = {"NATS_URL": "nats://nats.example:4222"}


def options(*, streaming: bool = False, **given: str) -> WriteOptions:
    return write_options({name.lower(): value for name, value in given.items()}, ENVIRONMENT, streaming=streaming)


def test_a_channel_is_its_subject_and_takes_events():
    found = options(channel="shop/orders")
    assert (found.subject, found.cloudevents, found.msg_ids) == ("shop.orders._knative", True, EVENT)


def test_a_subject_takes_messages_whose_ids_are_of_their_content():
    found = options(subject="orders.created")
    assert (found.cloudevents, found.msg_ids, found.fast, found.marker_stream) == (False, CONTENT, True, "")


def test_what_spark_hands_on_of_a_query_is_no_option_of_ours():
    assert options(subject="a", checkpointLocation="somewhere", queryName="q", streaming=True).subject == "a"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        pytest.param({"channel": "orders"}, "namespace/name", id="a channel has a namespace"),
        pytest.param({"channel": "a/b", "subject": "c"}, "give one of them", id="one target"),
        pytest.param({"subject": "a.*"}, "without wildcards", id="no wildcards"),
        pytest.param({"subject": "a", "msgIds": "event"}, "only events", id="messages have no event id"),
        pytest.param({"subject": "a", "msgIds": "row"}, "event, content", id="kinds of ids are named"),
        pytest.param({"subject": "a", "ackWindow": "0"}, "at least 1", id="a window has room"),
        pytest.param({"subject": "a", "ackWindow": "70000"}, "at most 65536", id="a window is bounded"),
        pytest.param({"subject": "a", "acksWindow": "7"}, "did you mean ackWindow", id="a typo is seen"),
        pytest.param({"stream": "A"}, "use subject, or channel", id="a stream is written to by its subject"),
        pytest.param({"channels": "a/b"}, "use channel", id="one channel"),
        pytest.param({"subject": "a", "commitMarker": "true"}, "needs a runId", id="a marker is of a named run"),
        pytest.param({"commitMarker": "true", "runId": "r"}, "one stream", id="a marker is of one stream"),
        pytest.param({"subject": "a", "onFaultyRow": "drop"}, "fail, skip", id="what to do with faulty rows"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(given: dict[str, str], words: str):
    with pytest.raises(Misconfigured, match=words):
        options(**given)


def test_a_streaming_query_is_known_by_its_checkpoint():
    with pytest.raises(Misconfigured, match="leave it out"):
        options(subject="a", runId="r", streaming=True)


EVENT_COLUMNS = [("id", "string"), ("source", "string"), ("type", "string")]


def test_other_columns_of_an_event_are_extensions_but_for_those_of_stored_messages():
    columns = [*EVENT_COLUMNS, ("partitionkey", "int"), ("sequence", "bigint"), ("data", "string"), ("error", "string")]
    found = parts(columns, options(channel="a/b"))
    assert found.attributes == {"id": 0, "source": 1, "type": 2, "partitionkey": 3}
    assert found.others == {"data": 5, "error": 6}


@pytest.mark.parametrize(
    ("columns", "given", "words"),
    [
        pytest.param([*EVENT_COLUMNS, ("order_no", "int")], {"channel": "a/b"}, "'order_no'.*a-z", id="bad name"),
        pytest.param([*EVENT_COLUMNS, ("price", "decimal(9,2)")], {"channel": "a/b"}, "price is a dec", id="bad type"),
        pytest.param([*EVENT_COLUMNS, ("data", "struct<a:int>")], {"channel": "a/b"}, "to_json", id="data is bytes"),
        pytest.param(EVENT_COLUMNS[:2], {"channel": "a/b"}, "no column type", id="missing attribute"),
        pytest.param(EVENT_COLUMNS, {"cloudevents": "true"}, "nats_subject", id="no target for events"),
        pytest.param([("data", "binary")], {}, "column subject", id="no target for messages"),
        pytest.param([("subject", "string")], {}, "no column data", id="no data"),
        pytest.param([("data", "binary"), ("key", "string")], {"subject": "a"}, "'key'.*msg_id", id="unknown column"),
    ],
)
def test_columns_that_can_not_be_written_are_refused_by_name(
    columns: list[tuple[str, str]], given: dict[str, str], words: str
):
    with pytest.raises(Misconfigured, match=words):
        parts(columns, options(**given))
