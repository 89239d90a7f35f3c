"""A subscriber gets an event as it was sent, in attributes and bytes: by us, by the Go channel, by strangers.

The first tests go all the way, through a real `receive` and a real `forward`.
"""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Ask
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.streams import Nats

pytest_plugins = ["tests.support.functions.served"]

# What every request has, beside the event.
FRAME = {"host", "content-length", "user-agent", "kn-namespace", "prefer", "knative-headrace-delivery", "headrace-hops"}

# The Go channel's only header; it knows no other place for the id.
GO_HEADERS = {"Nats-Msg-Id": "1"}
GO_EVENT = (
    b'{"specversion":"1.0","id":"1","source":"/go","type":"order.created","datacontenttype":"application/json",'
    b'"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"","data":{ "n" : 1.0 }}'
)


# ── all the way ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("headers", "data"),
    [
        pytest.param({}, b"", id="no data"),
        pytest.param({}, b'{ "n" : 1.0, "n" : 1e400 }\n', id="JSON of odd form"),
        pytest.param({"content-type": "application/octet-stream"}, bytes(range(256)) * 100, id="all bytes"),
        pytest.param({"content-type": "text/plain; charset=latin-1"}, "grüße".encode("latin-1"), id="another charset"),
        pytest.param({"ce-specversion": "0.3", "ce-schemaurl": "/schema"}, b"1", id="version 0.3"),
        pytest.param(
            {"ce-subject": "a/b", "ce-time": "2026-01-31T09:30:00.123456789+01:00", "ce-dataschema": "urn:x"},
            b"1",
            id="optional attributes, a time to the nanosecond",
        ),
        pytest.param(
            {"ce-partitionkey": "k", "ce-knativebrokerttl": "254", "ce-empty": "", "ce-a1": "0"},
            b"1",
            id="extensions, an empty one among them",
        ),
        pytest.param({"ce-note": "gr%C3%BC%C3%9Fe%20%E2%82%AC%22%25", "ce-id": "%F0%9F%A6%86"}, b"1", id="not ASCII"),
        pytest.param({"ce-note": "x" * 8000}, b"1", id="a long attribute"),
        pytest.param(
            {
                "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "tracestate": "vendor=1",
                "x-request-id": "r-1",
                "x-b3-traceid": "80f198ee56343ba864fe8b2a57d3eff7",
                "knative-error-code": "500",
            },
            b"1",
            id="headers that travel",
        ),
    ],
)
async def test_an_event_arrives_as_it_was_sent(
    ask: Ask, nats: Nats, forward: Function, subscriber: Subscriber, headers: dict[str, str], data: bytes
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    assert (await ask(lane.channel.path, data, {**BINARY, **headers})).status == 202
    assert (await lane.take_one())["delivered"] == 1
    [request] = place.received
    assert {name: value for name, value in request.headers if name not in FRAME} == {**BINARY, **headers}
    assert request.body == data


async def test_the_largest_event_arrives(ask: Ask, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    data = bytes(1_040_000)
    assert (await ask(lane.channel.path, data)).status == 202
    assert (await lane.take_one())["delivered"] == 1
    assert place.received[0].body == data


async def test_a_structured_event_arrives_in_binary_mode_with_its_data_s_own_bytes(
    ask: Ask, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await ask(lane.channel.path, GO_EVENT, {"content-type": "application/cloudevents+json"})
    await lane.take_one()
    [request] = place.received
    assert request.event["id"] == "1"
    assert (request.header("content-type"), request.body) == ("application/json", b'{ "n" : 1.0 }')


async def test_an_event_whose_data_is_an_event_stays_in_its_envelope(
    ask: Ask, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    inner = b'{"specversion":"1.0","id":"inner","source":"/x","type":"y"}'
    outer = {
        "specversion": "1.0",
        "id": "outer",
        "source": "/shop",
        "type": "order.wrapped",
        "datacontenttype": "application/cloudevents+json",
        "data_base64": base64.b64encode(inner).decode(),
    }
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    structured = {"content-type": "application/cloudevents+json"}
    assert (await ask(lane.channel.path, json.dumps(outer).encode(), structured)).status == 202
    await lane.take_one()
    [request] = place.received
    assert (request.header("content-type") or "").startswith("application/cloudevents+json")
    assert (json.loads(request.body)["id"], b'"inner"' in request.body) == ("outer", True)


async def test_a_subscriber_is_told_the_namespace_and_asked_for_a_reply(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, await nats.make_channel(nats.name_channel("shop")), subscriber=place.uri)
    await lane.store("1")
    await lane.take_one()
    [request] = place.received
    assert request.method == "POST"
    assert (request.header("kn-namespace"), request.header("prefer")) == ("shop", "reply")
    assert request.header("authorization") is None


# ── published by others ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_event_that_the_go_channel_stored_is_delivered(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await nats.store(lane.channel.subject, GO_EVENT, GO_HEADERS)
    assert (await lane.take_one())["delivered"] == 1
    [request] = place.received
    assert request.event == {
        "specversion": "1.0",
        "id": "1",
        "source": "/go",
        "type": "order.created",
        "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "tracestate": "",
    }
    assert (request.header("content-type"), request.body) == ("application/json", b'{ "n" : 1.0 }')


async def test_an_event_whose_headers_were_written_in_another_case_is_delivered(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    headers = {"Ce-Specversion": "1.0", "CE-ID": "7", "ce-Source": "/x", "Ce-Type": "y", "Content-Type": "text/plain"}
    await nats.store(lane.channel.subject, b"data", headers)
    await lane.take_one()
    [request] = place.received
    assert request.event == {"specversion": "1.0", "id": "7", "source": "/x", "type": "y"}
    assert request.header("content-type") == "text/plain"


@pytest.mark.parametrize(
    ("headers", "data", "content_type"),
    [
        pytest.param({}, b"\x00\xff", None, id="bytes without headers"),
        pytest.param({"Content-Type": "text/csv"}, b"a;b", "text/csv", id="with a content type"),
        pytest.param({}, b'{"temperature": 20}', None, id="JSON that is no event"),
        pytest.param({}, b'{"specversion":"1.0","id":"1"}', None, id="JSON that is nearly an event"),
        pytest.param({}, b"", None, id="nothing at all"),
    ],
)
async def test_a_foreign_message_becomes_an_event(
    nats: Nats,
    forward: Function,
    subscriber: Subscriber,
    headers: dict[str, str],
    data: bytes,
    content_type: str | None,
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await nats.store(lane.channel.subject, data, headers)
    assert (await lane.take_one())["delivered"] == 1
    [request] = place.received
    assert request.event == {
        "specversion": "1.0",
        "id": f"{lane.channel.stream}:1",
        "source": f"nats:{lane.channel.stream}",
        "type": "headrace.foreign",
        "subject": lane.channel.subject,
    }
    assert (request.header("content-type"), request.body) == (content_type, data)


# ── what claims to be an event and is none ──────────────────────────────────────────────────────────────────────────

MALFORMED = [
    pytest.param({"ce-specversion": "1.0", "ce-id": "1", "ce-type": "y"}, b"\x00\xff", id="no source"),
    pytest.param({"ce-specversion": "7", "ce-id": "1", "ce-source": "/x", "ce-type": "y"}, b"1", id="unknown version"),
    pytest.param({"content-type": "application/cloudevents+json"}, b"{broken", id="structured in name only"),
]


@pytest.mark.parametrize(("headers", "data"), MALFORMED[:2])
async def test_a_malformed_event_goes_to_the_sink_as_a_foreign_message(
    nats: Nats, forward: Function, subscriber: Subscriber, headers: dict[str, str], data: bytes
) -> None:
    place, sink = subscriber.place(), subscriber.place(Say(503), Say(202))
    policy = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy=policy)
    await nats.store(lane.channel.subject, data, headers)
    answer = await lane.lease(linger=0.3)
    assert (answer["dead_lettered"], answer["retried"], answer["ack_pending"]) == (1, 1, 0)
    assert place.received == []
    for request in sink.received:
        assert (request.event["type"], request.body) == ("headrace.foreign", data)
        assert (request.event["knativeerrordest"], request.event["knativeerrorcode"]) == (place.uri, "400")
        assert base64.b64decode(request.event["knativeerrordata"]) != b""


async def test_a_malformed_structured_event_goes_to_the_sink_in_an_envelope_so_that_nobody_takes_it_for_the_event(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    sink = subscriber.place()
    lane = await nats.serve(forward, subscriber=subscriber.place().uri, dead_letter=sink.uri)
    await nats.store(lane.channel.subject, b"{broken", {"content-type": "application/cloudevents+json"})
    assert (await lane.take_one())["dead_lettered"] == 1
    envelope = json.loads(sink.received[0].body)
    assert (envelope["type"], envelope["knativeerrorcode"]) == ("headrace.foreign", "400")
    assert base64.b64decode(envelope["data_base64"]) == b"{broken"


@pytest.mark.parametrize(("headers", "data"), MALFORMED)
async def test_a_malformed_event_is_parked_as_it_is_without_a_sink(
    nats: Nats, forward: Function, subscriber: Subscriber, headers: dict[str, str], data: bytes
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await nats.store(lane.channel.subject, data, headers)
    assert (await lane.take_one())["parked"] == 1
    assert place.received == []
    [parked] = await lane.aside()
    assert parked.data == data
    assert headers.items() <= parked.headers.items()
    assert "the message is not a valid event" in parked.headers["Headrace-Reason"]
