"""Events in NATS: what is stored, and what is read from a stream, whoever wrote it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event.event import Event, faults_of, make_event
from headrace.core.event.nats_codec import (
    NatsMessage,
    encoded,
    foreign,
    from_nats,
    msg_id,
    passthrough_of,
    to_binary,
)

ORDER = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}
ORDER_JSON = b'{"specversion":"1.0","id":"1","source":"/orders","type":"order.created","data":{"a": 1.0}}'
FOREIGN = {
    "specversion": "1.0",
    "id": "KN_SHOP__ORDERS:7",
    "source": "nats:KN_SHOP__ORDERS",
    "type": "headrace.foreign",
    "subject": "orders.eu",
}


def read(headers, data=b"", subject="orders.eu"):
    return from_nats(NatsMessage(subject, headers, data), stream="KN_SHOP__ORDERS", sequence=7)


def test_an_event_is_stored_in_binary_mode_with_its_data_untouched():
    event = make_event({**ORDER, "datacontenttype": "text/plain", "note": "é 1"}, b"\xff\x00")
    assert to_binary(event, "shop.orders._knative", extra=((b"traceparent", b"00-a-b-01"),)) == NatsMessage(
        "shop.orders._knative",
        {
            "Nats-Msg-Id": "3ee0152c075cd36f348d82d09eebc5c0",
            "ce-specversion": "1.0",
            "ce-id": "1",
            "ce-source": "/orders",
            "ce-type": "order.created",
            "content-type": "text/plain",
            "ce-note": "%C3%A9%201",
            "traceparent": "00-a-b-01",
        },
        b"\xff\x00",
    )


def test_header_names_are_read_in_any_case():
    headers = {
        "Ce-Specversion": "1.0",
        "CE-ID": "1",
        "ce-Source": "/orders",
        "Ce-Type": "order.created",
        "Content-Type": "a/b",
    }
    assert read(headers, b"x") == Event({**ORDER, "datacontenttype": "a/b"}, b"x")


def test_the_structured_json_of_the_go_channel_is_read_though_no_header_says_so():
    assert read({"Nats-Msg-Id": "1"}, ORDER_JSON) == Event(
        {**ORDER, "datacontenttype": "application/json"}, b'{"a": 1.0}'
    )


def test_structured_json_with_its_content_type_is_read():
    assert read({"content-type": "application/cloudevents+json"}, ORDER_JSON).id == "1"


def test_binary_mode_wins_over_a_content_type_of_events():
    headers = {f"ce-{name}": value for name, value in ORDER.items()} | {"content-type": "application/cloudevents+json"}
    assert read(headers, b"{}") == Event({**ORDER, "datacontenttype": "application/cloudevents+json"}, b"{}")


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        pytest.param({"ce-specversion": "1.0"}, b"", id="binary without the required attributes"),
        pytest.param({"ce-specversion": "%ff"}, b"", id="an unreadable specversion"),
        pytest.param({"ce-specversion": "1.0", "Ce-Specversion": "0.3"}, b"", id="two specversions"),
        pytest.param(
            {f"ce-{name}": value for name, value in ORDER.items()} | {"ce-note": "%0d%0a"},
            b"",
            id="a line break in a value",
        ),
        pytest.param(
            {"content-type": "application/cloudevents+json"},
            b"{}",
            id="structured without the required attributes",
        ),
        pytest.param({"content-type": "application/cloudevents+json"}, b"\xff", id="structured without JSON"),
        pytest.param({"content-type": "application/cloudevents+xml"}, b"<a/>", id="another event format"),
        pytest.param({"content-type": "application/cloudevents-batch+json"}, b"[]", id="a batch"),
    ],
)
def test_a_message_that_claims_to_be_an_event_and_is_faulty_is_refused(headers, data):
    with pytest.raises(InvalidEvent):
        read(headers, data)


@pytest.mark.parametrize(
    ("headers", "data", "attributes"),
    [
        pytest.param({}, b"hello", {}, id="bytes"),
        pytest.param({}, b"", {}, id="nothing"),
        pytest.param({"Content-Type": "text/csv"}, b"a,b", {"datacontenttype": "text/csv"}, id="bytes of a known type"),
        pytest.param({"content-type": "nonsense"}, b"a", {}, id="an illegal content type is left out"),
        pytest.param({"ce-id": "1"}, b"a", {}, id="some other ce- header is no claim"),
        pytest.param({}, b'{"specversion":"1.0"}', {}, id="JSON that is only similar to an event"),
        pytest.param({}, b'{"a":{"specversion":"1.0"}', {}, id="broken JSON"),
    ],
)
def test_any_other_message_becomes_a_foreign_event(headers, data, attributes):
    assert read(headers, data) == Event({**FOREIGN, **attributes}, data)


@given(
    st.text(),
    st.text(),
    st.dictionaries(st.sampled_from(["content-type", "Content-Type", "ce-id", "x"]), st.text()),
    st.binary(),
)
def test_any_bytes_can_be_handed_on_as_a_valid_event(stream, subject, headers, data):
    event = foreign(NatsMessage(subject, headers, data), stream, 7)
    assert faults_of(event.attributes) == ()
    assert event.data == data


def test_a_stream_name_that_is_no_uri_is_percent_encoded():
    event = foreign(NatsMessage("s", {}, b""), "Aufträge/1", 7)
    assert (event.id, event.source) == ("Auftr%C3%A4ge%2F1:7", "nats:Auftr%C3%A4ge%2F1")


def test_the_message_id_is_made_of_source_and_id():
    assert msg_id("/orders", "1") == "3ee0152c075cd36f348d82d09eebc5c0"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(("/a", "1"), ("/b", "1"), id="the same id from another source"),
        pytest.param(("/a", "11"), ("/a1", "1"), id="the border between source and id moved"),
        pytest.param(("a", "1:b"), ("a1:", "b"), id="a border that looks like the prefix"),
    ],
)
def test_different_events_have_different_message_ids(one, other):
    assert msg_id(*one) != msg_id(*other)


def test_pass_through_headers_are_read_back_and_nothing_else():
    message = to_binary(make_event(ORDER), "s", extra=((b"traceparent", b"00-a-b-01"), (b"x-b3-sampled", b"1")))
    assert passthrough_of(message) == ((b"traceparent", b"00-a-b-01"), (b"x-b3-sampled", b"1"))
    assert passthrough_of(NatsMessage("s", {"Knative-X": "1", "tracestate": "\udcff", "knative-é": "1"}, b"")) == (
        (b"knative-x", b"1"),
    )


def test_the_size_is_what_goes_over_the_wire():
    message = NatsMessage("s", {"a": "1", "content-type": "é"}, b"data")
    assert encoded(message).size == len("NATS/1.0\r\na: 1\r\ncontent-type: é\r\n\r\ndata".encode())


def test_a_message_without_headers_has_no_header_block():
    assert encoded(NatsMessage("s", {}, b"data")).size == 4
