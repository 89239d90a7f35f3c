"""Targets: events from producers and subscribers, and messages that strangers publish to a stream."""

from __future__ import annotations

from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec, json_format, nats_codec
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.event import Event, faults_of
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.event.whole_post import WholePost, WholePosts
from headrace.core.nats import nats_wire
from tests.fuzz import mutations
from tests.fuzz.mutations import Header
from tests.fuzz.target import Target

_CONTROLS = bytes((*range(0x20), 0x7F))
Headers = tuple[Header, ...]

BINARY: Headers = (
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"order-1"),
    (b"ce-source", b"/shop"),
    (b"ce-type", b"shop.order"),
    (b"ce-time", b"2026-01-31T09:30:00.5Z"),
    (b"ce-subject", b"%E2%82%AC 5"),
    (b"content-type", b"application/json"),
    (b"traceparent", b"00-1-2-01"),
)
STRUCTURED: Headers = ((b"content-type", b"application/cloudevents+json; charset=utf-8"), (b"knative-x", b"1"))
NAMES = (
    *(b"ce-specversion", b"ce-id", b"ce-source", b"ce-type", b"ce-time", b"ce-subject", b"ce-dataschema", b"ce-data"),
    *(b"ce-schemaurl", b"ce-datacontenttype", b"ce-datacontentencoding", b"ce-data_base64", b"ce-", b"ce-a-b", b"ce-A"),
    *(b"content-type", b"content-length", b"traceparent", b"tracestate", b"knative-x", b"x-b3-traceid", b"knative-"),
    *(b"x-request-id", b"retry-after", b"accept", b"ce-x\r\ny", b"knative-\r\nx", b"nats-msg-id", b"headrace-only"),
)
VALUES = (
    *(
        b"1.0",
        b"0.3",
        b"2.0",
        b"",
        b" ",
        b"a b",
        b"50%",
        b"%41",
        b"%2541",
        b"%00",
        b"%0d%0aNats-Msg-Id: x",
        b"%ff",
        b"%ed%a0%80",
    ),
    *(
        b'"q\\"r"',
        b'"',
        b'"\r\n"',
        b"a\r\nb: c",
        b"a\nb: c",
        b"\x00",
        b"\x85",
        b"\xc2\x85",
        b"\xef\xb7\x90",
        b"\xc3\xa9",
    ),
    *(b"2026-02-30T00:00:00Z", b"0000-02-29T00:00:00Z", b"2026-01-01T00:00:60.0+23:59", b"text/plain; charset=utf-8"),
    *(b"application/json", b"application/cloudevents+json", b"application/cloudevents-batch+json", b"Text/X+JSON"),
    *(
        b"application/cloudevents+json;charset=latin-1",
        b"application/cloudevents",
        b"a/b;\x7f",
        b"\xef\xbf\xbf",
        b"\tx\t",
    ),
)
JSON_EVENTS = (
    {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": {"a": [1, "b", None]}, "ext": 5, "on": True},
    {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "a/b", "data_base64": "aGVsbG8="},
    {"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "text/plain", "data": "hello"},
    {
        "specversion": "0.3",
        "id": "1",
        "source": "/s",
        "type": "t",
        "time": "2026-01-31T09:30:00Z",
        "datacontentencoding": "base64",
        "data": "aGVsbG8=",
        "schemaurl": "x",
    },
)
_bodies = mutations.json_texts(*JSON_EVENTS)
_good_body = json_format.write(json_format.parse(b'{"specversion":"1.0","id":"1","source":"/s","type":"t","data":"x"}'))
_headers = st.one_of(*(mutations.headers(good, NAMES, VALUES) for good in (BINARY, BINARY, STRUCTURED)))


def written_well(headers: Headers) -> None:
    """Nothing in these headers can end a line, or the value that it stands in."""
    for name, value in headers:
        assert name, "a header without a name is written"
        assert name.translate(None, _CONTROLS) == name, f"a control character in the name {name!r} is written"
        assert value.translate(None, _CONTROLS) == value, f"a control character in the value of {name!r} is written"


def comes_back(event: Event, passing: Headers = ()) -> None:
    """What was accepted is valid, is written without smuggling, and is read back as it was, in all modes."""
    assert faults_of(event.attributes) == ()
    for write in (http_codec.to_http, http_codec.to_binary, http_codec.to_structured):
        written_well(write(event).headers)
    assert http_codec.from_http(http_codec.to_http(event)) == event
    assert http_codec.from_http(http_codec.to_structured(event)) == event
    assert json_format.parse(json_format.write(event)) == event
    for stored in (nats_codec.to_binary(event, "s", passing), nats_codec.to_structured(event, "s", passing)):
        block = nats_codec.encoded(stored).block
        written = tuple((name.encode(), value.encode()) for name, value in nats_wire.pairs(block))
        written_well(written)
        assert len(written) == len(stored.headers) == block.count(b"\n") - 2
        kept = NatsMessage("s", nats_wire.Headers(block), stored.data)
        assert nats_codec.from_nats(kept, stream="S", sequence=1) == event
        assert nats_codec.passthrough_of(kept) == passing


def _read_http(given: tuple[Headers, bytes]) -> tuple[Event, Headers]:
    headers, body = given
    http_codec.is_event(headers)
    passing = http_codec.passthrough(headers)
    return http_codec.from_http(HttpMessage(headers, body)), passing


def _hold_http(given: object, result: tuple[Event, Headers]) -> None:
    event, passing = result
    written_well(passing)
    comes_back(event, passing)


def _read_nats(given: tuple[bytes, bytes, str]) -> tuple[Event, Event, Headers]:
    block, data, subject = given
    message = NatsMessage(subject, nats_wire.Headers(block), data)
    foreign = nats_codec.foreign(message, "KN_S__C", 7)
    try:
        event = nats_codec.from_nats(message, stream="KN_S__C", sequence=7)
    except InvalidEvent:
        event = foreign
    return event, foreign, nats_codec.passthrough_of(message)


def _hold_nats(given: tuple[bytes, bytes, str], result: tuple[Event, Event, Headers]) -> None:
    event, foreign, passing = result
    assert foreign.data == given[1], "a stranger's bytes are changed"
    written_well(passing)
    comes_back(foreign)
    comes_back(event, passing)


def _hold_json(given: bytes, event: Event) -> None:
    comes_back(event)


def _post(given: tuple[Headers, bytes]) -> bytes:
    headers, body = given
    lines = ((b"host", b"h"), (b"content-length", b"%d" % len(body)), *headers)
    return b"POST / HTTP/1.1\r\n%b\r\n%b" % (b"".join(b"%b: %b\r\n" % line for line in lines), body)


def _read_post(given: tuple[Headers, bytes]) -> WholePost | int | None:
    return WholePosts(Claims()).match(_post(given))


def _hold_post(given: tuple[Headers, bytes], post: WholePost | int | None) -> None:
    """The short way says what the codecs say of the headers that stand there, and nothing where they refuse."""
    if post is None:
        return
    assert isinstance(post, WholePost), "more is waited for than there is"
    # As the socket has it: what a header holds may be another header.
    head, _, body = _post(given).partition(b"\r\n\r\n")
    lines = (line.partition(b": ") for line in head.split(b"\r\n")[1:])
    headers = tuple((name.lower(), value) for name, _, value in lines)
    event = http_codec.from_http(HttpMessage(headers, body))
    message = nats_codec.encoded(nats_codec.to_binary(event, "s", http_codec.passthrough(headers)))
    short, long = (list(nats_wire.pairs(found)) for found in (post.block, message.block))
    assert sorted(short) == sorted(long), "the short way stores other headers than the codecs"
    assert post.data == message.data
    assert len(short) == post.block.count(b"\n") - 2 == post.block.count(b"\r") - 2
    assert b"\0" not in post.block


_blocks = mutations.mutated(
    [
        b"NATS/1.0\r\nNats-Msg-Id: 1\r\n" + b"\r\n".join(b": ".join(header) for header in BINARY) + b"\r\n\r\n",
        b"NATS/1.0\r\nCE-Id: 1\r\nce-id: 2\r\nContent-Type: application/cloudevents+json\r\n\r\n",
        b"NATS/1.0 503 No Responders\r\n\r\n",
        b"",
    ],
    [*(name + b": v\r\n" for name in NAMES), *VALUES],
)

TARGETS = (
    Target(
        "http_codec",
        st.tuples(_headers, _bodies | mutations.mutated([b"data"])),
        ((BINARY, b"{}"), (STRUCTURED, _good_body)),
        _read_http,
        _hold_http,
        (InvalidEvent,),
    ),
    Target(
        "nats_codec",
        st.tuples(_blocks, _bodies | mutations.mutated([b"data"]), mutations.mutated_text(["shop.orders._knative"])),
        ((b"NATS/1.0\r\nx: y\r\n\r\n", b"data", "a.b"), (b"", _good_body, "a.b")),
        _read_nats,
        _hold_nats,
        (),
    ),
    Target("json_format", _bodies, (_good_body,), json_format.parse, _hold_json, (InvalidEvent,)),
    Target(
        "whole_post",
        st.tuples(_headers, _bodies | mutations.mutated([b"data"])),
        ((BINARY, b"data"), (STRUCTURED, _good_body)),
        _read_post,
        _hold_post,
        (),
    ),
)
