"""Events over HTTP: what is read from a request, what is sent, and what is refused."""

from __future__ import annotations

import pytest

from headrace.core.errors import InvalidEvent
from headrace.core.event.event import Event, make_event
from headrace.core.event.http_codec import (
    HttpMessage,
    from_http,
    is_event,
    passthrough,
    to_http,
)

ORDER = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}
ORDER_HEADERS = (
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"1"),
    (b"ce-source", b"/orders"),
    (b"ce-type", b"order.created"),
)
JSON_BODY = b'{"specversion":"1.0","id":"1","source":"/orders","type":"order.created"%s}'
STRUCTURED = (b"content-type", b"application/cloudevents+json")


def binary(*headers, body=b""):
    return HttpMessage((*ORDER_HEADERS, *headers), body)


def structured(members=b"", content_type=STRUCTURED[1]):
    return HttpMessage(((b"content-type", content_type),), JSON_BODY % members)


def faults_in(message):
    with pytest.raises(InvalidEvent) as refusal:
        from_http(message)
    return [fault.attribute for fault in refusal.value.faults]


# Binary mode


def test_headers_are_attributes_and_the_body_is_the_data_untouched():
    message = binary(
        (b"content-type", b"application/json"), (b"ce-tenant", b"acme"), (b"host", b"x"), body=b'{ "a":1.0 }'
    )
    assert from_http(message) == Event(
        {**ORDER, "datacontenttype": "application/json", "tenant": "acme"}, b'{ "a":1.0 }'
    )


def test_an_event_is_sent_in_binary_mode():
    event = make_event({**ORDER, "datacontenttype": "text/plain", "note": 'a "b" 100%'}, b"\xff\x00")
    assert to_http(event) == HttpMessage(
        (*ORDER_HEADERS, (b"content-type", b"text/plain"), (b"ce-note", b"a%20%22b%22%20100%25")), b"\xff\x00"
    )


@pytest.mark.parametrize(
    "content_type",
    ["application/cloudevents+json", "Application/CloudEvents-Batch+json", "application/cloudevents"],
)
def test_an_event_about_events_is_sent_in_structured_mode_or_it_would_be_taken_for_its_data(content_type):
    event = make_event({**ORDER, "datacontenttype": content_type}, b"{}")
    message = to_http(event)
    assert message.headers == ((b"content-type", b"application/cloudevents+json; charset=utf-8"),)
    assert from_http(message) == event


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        pytest.param(b"Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀", id="the example of the specification"),
        pytest.param(b"%e2%82%ac", "€", id="hex digits in lower case"),
        pytest.param("€ raw".encode(), "€ raw", id="raw UTF-8 is taken as it is"),
        pytest.param(b"a b", "a b", id="a raw blank inside is taken as it is"),
        pytest.param(b"  a\t", "a", id="blanks around a header value are not part of it"),
        pytest.param(b'"a \\"b\\" \\\\ c%20d"', 'a "b" \\ c d', id="quotes are undone before percent-decoding"),
        pytest.param(b'"', '"', id="a single quote mark is literal"),
        pytest.param(b'"a"b"', '"a"b"', id="quotes that do not pair up are literal"),
        pytest.param(b"a\\b", "a\\b", id="a backslash outside quotes is literal"),
        pytest.param(b"100%", "100%", id="a lone percent sign is literal"),
        pytest.param(b"%zz%4", "%zz%4", id="percent signs without two hex digits are literal"),
        pytest.param(b"%2541", "%41", id="only one round is decoded"),
    ],
)
def test_a_header_value_is_decoded_as_the_binding_says(sent, read):
    assert from_http(binary((b"ce-note", sent))).attributes["note"] == read


@pytest.mark.parametrize(
    ("header", "wrong"),
    [
        pytest.param((b"ce-note", b"%ff"), "note", id="a percent sequence that is not UTF-8"),
        pytest.param((b"ce-note", b"\xff"), "note", id="raw bytes that are not UTF-8"),
        pytest.param((b"ce-note", b"\xe2%82%ac"), "note", id="a character half raw and half encoded"),
        pytest.param((b"ce-note", b"%ED%A0%80"), "note", id="an encoded surrogate"),
        pytest.param((b"ce-note", b"a%0d%0aevil: 1"), "note", id="an encoded line break"),
        pytest.param((b"ce-note", b"a\r\nevil: 1"), "note", id="a raw line break"),
        pytest.param((b"ce-note", b"%00"), "note", id="an encoded NUL"),
        pytest.param((b"ce-id", b"2"), "id", id="an attribute sent twice"),
        pytest.param((b"ce-datacontenttype", b"text/plain"), "datacontenttype", id="the content type as an attribute"),
        pytest.param((b"ce-data", b"x"), "data", id="data as an attribute"),
        pytest.param((b"ce-my-tenant", b"x"), "my-tenant", id="a name with a dash"),
        pytest.param((b"content-type", b"\xe9/x"), "datacontenttype", id="a content type that is not ASCII"),
    ],
)
def test_a_faulty_header_is_refused(header, wrong):
    assert faults_in(binary(header)) == [wrong]


def test_two_content_types_are_refused():
    two = ((b"content-type", b"text/plain"), (b"content-type", b"text/html"))
    assert faults_in(binary(*two)) == ["content-type"]
    assert faults_in(HttpMessage((STRUCTURED, *two), b"")) == ["content-type"]


def test_every_fault_of_a_request_is_told_at_once():
    message = HttpMessage(
        ((b"ce-id", b"%ff"), (b"ce-specversion", b"2"), (b"ce-Tenant", b"x"), (b"ce-type", b"t")), b""
    )
    assert sorted(faults_in(message)) == ["Tenant", "id", "source", "specversion"]


def test_a_request_that_is_no_event_lacks_the_required_attributes():
    assert faults_in(HttpMessage(((b"content-type", b"application/json"),), b"{}")) == [
        "specversion",
        "id",
        "source",
        "type",
    ]


def test_the_data_encoding_of_version_0_3_is_ignored_for_bytes():
    message = HttpMessage(
        ((b"ce-specversion", b"0.3"), *ORDER_HEADERS[1:], (b"ce-datacontentencoding", b"base64")), b"aGk="
    )
    assert from_http(message) == Event({**ORDER, "specversion": "0.3"}, b"aGk=")


# Structured mode


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents+json",
        b"Application/CloudEvents+JSON; charset=UTF-8",
        b'application/cloudevents+json;charset="utf-8"',
        b"application/cloudevents+json; charset=utf8",
        b"application/cloudevents+json;charset=US-ASCII",
        b"application/cloudevents+json; charset=ascii",
        b"application/cloudevents+json; charset=",
    ],
)
def test_a_structured_event_is_known_by_its_content_type(content_type):
    assert from_http(structured(content_type=content_type)) == Event(ORDER)


def test_a_structured_event_is_read_from_the_body_alone():
    assert from_http(HttpMessage((STRUCTURED, (b"ce-id", b"2"), (b"ce-id", b"%ff")), JSON_BODY % b"")) == Event(ORDER)


@pytest.mark.parametrize(
    "content_type",
    [
        b"application/cloudevents-batch+json",
        b"application/cloudevents-batch",
        b"application/cloudevents+xml",
        b"application/cloudevents",
        b"application/cloudevents+json; charset=utf-16",
    ],
)
def test_only_single_events_as_json_in_utf_8_are_read_from_a_body(content_type):
    assert faults_in(structured(content_type=content_type)) == ["content-type"]


def test_a_byte_order_mark_before_the_json_is_passed_over():
    body = b"\xef\xbb\xbf" + JSON_BODY % b',"data":"\xef\xbb\xbf"'
    assert from_http(HttpMessage((STRUCTURED,), body)).data == b'"\xef\xbb\xbf"'


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-16-le"])
def test_json_in_another_encoding_is_refused_with_the_cause(encoding):
    text = "\ufeff" if encoding.endswith("le") else ""
    with pytest.raises(InvalidEvent, match="begins with the byte order mark of UTF-16 or UTF-32: send UTF-8"):
        from_http(HttpMessage((STRUCTURED,), (text + (JSON_BODY % b"").decode()).encode(encoding)))


EMPTY = {"subject": "", "time": "", "dataschema": ""}


def test_an_optional_attribute_that_is_empty_is_none_and_an_extension_may_be_empty():
    headers = [(f"ce-{name}".encode(), b"") for name in (*EMPTY, "note")]
    assert from_http(binary(*headers, (b"content-type", b""))) == Event({**ORDER, "note": ""})

    members = b"".join(b',"%b":""' % name.encode() for name in (*EMPTY, "note", "datacontenttype"))
    event = from_http(structured(members + b',"data":{"n":1}'))
    assert event == Event({**ORDER, "note": "", "datacontenttype": "application/json"}, b'{"n":1}')


def test_what_is_optional_depends_on_the_version():
    headers = ((b"ce-specversion", b"0.3"), *ORDER_HEADERS[1:], (b"ce-schemaurl", b""), (b"ce-dataschema", b""))
    assert from_http(HttpMessage(headers, b"")) == Event({**ORDER, "specversion": "0.3", "dataschema": ""})
    assert faults_in(HttpMessage((*ORDER_HEADERS[:1], *ORDER_HEADERS[2:], (b"ce-id", b"")), b"")) == ["id"]


def test_batches_are_refused_with_the_cure():
    with pytest.raises(InvalidEvent, match="send events one by one"):
        from_http(structured(content_type=b"application/cloudevents-batch+json"))


# Replies and pass-through headers


@pytest.mark.parametrize(
    ("headers", "then"),
    [
        pytest.param([(b"ce-specversion", b"9")], True, id="a specversion is a claim, true or not"),
        pytest.param([(b"content-type", b"application/cloudevents+json; charset=utf-8")], True, id="structured"),
        pytest.param([(b"content-type", b"application/cloudevents; x=1")], True, id="the bare type"),
        pytest.param([(b"content-type", b"application/cloudevents-batch+json")], False, id="a batch"),
        pytest.param(
            [(b"ce-specversion", b"1.0"), (b"content-type", b"application/cloudevents-batch+json")],
            False,
            id="still a batch",
        ),
        pytest.param([(b"content-type", b"application/cloudeventsx")], False, id="a type that only looks similar"),
        pytest.param([(b"ce-id", b"1"), (b"content-type", b"text/html")], False, id="without specversion"),
        pytest.param([], False, id="nothing"),
    ],
)
def test_whether_a_reply_claims_to_be_an_event(headers, then):
    assert is_event(headers) is then


def test_headers_that_travel_with_an_event():
    assert passthrough(
        [
            (b"X-Request-Id", b"r1"),
            (b"retry-after", b" 5 "),
            (b"traceparent", b"00-a-b-01"),
            (b"tracestate", b"x=1"),
            (b"tracestate", b"y=2"),
            (b"knative-foo", b"1"),
            (b"x-b3-traceid", b"2"),
            (b"authorization", b"secret"),
            (b"ce-id", b"1"),
            (b"content-type", b"a/b"),
            (b"knative-bad", b"\xe9"),
            (b"knative-evil", b"a\r\nb: c"),
            (b"knative-a b", b"1"),
            (b"kn-namespace", b"x"),
        ]
    ) == (
        (b"x-request-id", b"r1"),
        (b"retry-after", b"5"),
        (b"traceparent", b"00-a-b-01"),
        (b"tracestate", b"x=1, y=2"),
        (b"knative-foo", b"1"),
        (b"x-b3-traceid", b"2"),
    )


def test_an_empty_header_adds_nothing_to_one_of_the_same_name():
    trace = (b"tracestate", b"a=1")
    for headers in ([(b"tracestate", b""), trace], [trace, (b"tracestate", b" ")], [trace]):
        assert passthrough(headers) == (trace,)
    assert passthrough([(b"tracestate", b"")]) == ((b"tracestate", b""),)
