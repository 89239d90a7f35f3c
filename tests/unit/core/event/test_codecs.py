"""Laws of the codecs: events come back as they were, and the official SDK understands us."""

from __future__ import annotations

import json

from cloudevents.core.bindings import http as sdk
from cloudevents.core.v1.event import CloudEvent
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.event import faults_of, make_event
from headrace.core.event.http_codec import HttpMessage, decode_value, encode_value, from_http

ORDER = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}
# What has rules of its own, in one version or the other.
CORE = {"data", "time", "subject", "datacontenttype", "dataschema", "schemaurl", "datacontentencoding"}

values = st.text(min_size=1).filter(lambda text: not faults_of({**ORDER, "id": text}))
names = st.from_regex(r"[a-z0-9]{1,20}", fullmatch=True).filter(lambda name: name not in CORE)
header_names = st.sampled_from([b"content-type", *(b"ce-" + name.encode() for name in ORDER), b"ce-", b"x"])
media_types = [
    "application/json",
    "Application/X+JSON;v=1",
    "text/plain",
    "text/x;charset=latin-1",
    "a/b",
    "application/cloudevents+json",
]
json_texts = st.recursive(st.none() | st.booleans() | st.floats() | st.integers() | st.text(), st.lists, max_leaves=5)
datas = st.one_of(
    st.binary(),
    st.text().map(str.encode),
    json_texts.map(lambda value: json.dumps(value, indent=1).encode()),
)


@st.composite
def events(draw):
    versions = st.sampled_from(["1.0", "0.3"])
    required = {"specversion": versions, "id": values, "source": values, "type": values}
    optional = {
        "subject": values,
        "time": st.just("2026-01-31T09:30:00.1234567Z"),
        "datacontenttype": st.sampled_from(media_types),
    }
    extensions = draw(st.dictionaries(names, st.just("") | values, max_size=3))
    return make_event({**extensions, **draw(st.fixed_dictionaries(required, optional=optional))}, draw(datas))


def event_in(message):
    try:
        return from_http(message)
    except InvalidEvent:
        return None


def sdk_message(message):
    return sdk.HTTPMessage({name.decode(): value.decode() for name, value in message.headers}, message.body)


def our_message(message):
    headers = ((name.encode(), value.encode()) for name, value in message.headers.items())
    return HttpMessage(tuple(headers), message.body)


@given(events())
@example(make_event({**ORDER, "datacontenttype": "text/x; charset=iso-8859-1"}, "é".encode()))
@example(make_event({**ORDER, "specversion": "0.3", "datacontenttype": "application/json"}, b"not json"))
def test_an_event_comes_back_over_http_in_either_mode_as_it_was(event):
    assert from_http(http_codec.to_structured(event)) == event
    assert from_http(http_codec.to_http(event)) == event


@given(events())
def test_an_event_comes_back_from_a_stream_as_it_was(event):
    stored = nats_codec.to_binary(event, "s", extra=((b"knative-x", b"1"),))
    assert nats_codec.from_nats(stored, stream="S", sequence=1) == event
    structured = nats_codec.to_structured(event, "s")
    assert nats_codec.from_nats(structured, stream="S", sequence=1) == event


@given(events())
def test_stored_headers_are_printable_ascii_on_one_line(event):
    for name, value in nats_codec.to_binary(event, "s").headers.items():
        assert (name + value).isascii()
        assert (name + value).isprintable()


@given(st.text(st.characters(exclude_categories=("Cs",))))
def test_an_encoded_value_is_printable_ascii_and_decodes_to_itself(value):
    encoded = encode_value(value)
    assert encoded.isascii()
    assert encoded.isprintable()
    assert not set(encoded) & {" ", '"'}
    assert decode_value(encoded) == value


@given(st.lists(st.tuples(header_names, st.binary(max_size=9)), max_size=9).map(tuple), st.binary())
def test_any_message_is_either_a_valid_event_or_refused(headers, body):
    event = event_in(HttpMessage(headers, body))
    assert event is None or not faults_of(event.attributes)


@given(events())
def test_the_official_sdk_reads_what_we_write(event):
    # The SDK turns time into a datetime, and makes one up where there is none.
    plain = make_event({n: v for n, v in event.attributes.items() if n != "time"}, event.data)
    for message in (http_codec.to_binary(plain), http_codec.to_structured(plain)):
        read = sdk.from_http_event(sdk_message(message)).get_attributes()
        assert {n: v for n, v in read.items() if n not in ("time", "datacontentencoding")} == plain.attributes


@given(values, values, st.binary(min_size=1), st.sampled_from(["application/json", "application/x-thing"]))
def test_we_read_what_the_official_sdk_writes(id, note, data, media_type):
    attributes = {"id": id, "source": "/s", "type": "t", "note": note, "datacontenttype": media_type}
    theirs = CloudEvent(attributes, data)
    for message in (sdk.to_binary_event(theirs), sdk.to_structured_event(theirs)):
        event = from_http(our_message(message))
        assert (event.id, event.attributes["note"], event.datacontenttype) == (id, note, media_type)
        assert event.data == data
