"""A subscriber's answer: an event in it reaches the reply address, and everything else is no reply.

Also subscribers that have nothing but a reply address.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
from pathlib import Path

import aiohttp
import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Lane, Nats, binary_event
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

QUICK = {"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.1S"}
REPLY = {
    "ce-specversion": "1.0",
    "ce-id": "r-1",
    "ce-source": "/billing",
    "ce-type": "order.paid",
    "ce-comment": "bezahlt%20%E2%82%AC",
    "content-type": "text/plain",
}
PAID = Say(200, REPLY, b"paid \x00\xff")
STRUCTURED = {"content-type": "application/cloudevents+json"}


# ── delivery.format ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_an_event_goes_to_subscriber_reply_and_sink_as_one_body_of_json_where_that_is_asked_for(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, reply, sink = subscriber.place(PAID), subscriber.place(Say(422)), subscriber.place()
    addresses = {"subscriber": place.uri, "reply": reply.uri, "dead_letter": sink.uri}
    lane = await nats.serve(forward, **addresses, format="json")
    stored = {**binary_event("1", note="gr%C3%BC%C3%9Fe"), "content-type": "application/json", "x-request-id": "a"}
    await nats.store(lane.channel.subject, b'{"a": 1.0}', stored)
    await lane.take_one()

    (first,), (second,), (third,) = place.received, reply.received, sink.received
    for request in (first, second, third):
        assert request.header("content-type") == "application/cloudevents+json; charset=utf-8"
        assert not [name for name, _ in request.headers if name.startswith("ce-")]
    assert (first.header("prefer"), first.header("x-request-id")) == ("reply", "a")
    assert b'"data":{"a": 1.0}' in first.body, "data is not written anew"
    assert json.loads(first.body)["note"] == "grüße"
    paid = json.loads(second.body)
    assert (paid["id"], paid["data_base64"]) == ("r-1", base64.b64encode(b"paid \x00\xff").decode())
    dead = json.loads(third.body)
    assert (dead["id"], dead["knativeerrorcode"], dead["data"]) == ("1", "422", {"a": 1.0})


# ── what is a reply ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_binary_event_in_the_answer_is_delivered_to_the_reply_address(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    travelling = {"x-request-id": "of-the-answer", "knative-step": "2"}
    place = subscriber.place(Say(200, {**REPLY, **travelling, "set-cookie": "c=1", "server": "x"}, b"paid \x00\xff"))
    reply = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri)
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["delivered"], answer["replied"], answer["ack_pending"]) == (1, 1, 0)
    [request] = reply.received
    assert request.method == "POST"
    assert request.body == b"paid \x00\xff"
    added = {"kn-namespace": "demo", "user-agent": "headrace", "content-length": "7", "headrace-hops": "1"}
    left_out = ("host", "knative-headrace-delivery")
    assert {name: value for name, value in request.headers if name not in left_out} == {
        **REPLY,
        **travelling,
        **added,
    }


@pytest.mark.parametrize(
    ("body", "content_type", "data"),
    [
        pytest.param(
            b'{"specversion":"1.0","id":"r-1","source":"/billing","type":"order.paid","data":{ "n" : 1.0 }}',
            "application/json",
            b'{ "n" : 1.0 }',
            id="JSON",
        ),
        pytest.param(
            b'{"specversion":"1.0","id":"r-1","source":"/billing","type":"order.paid",'
            b'"datacontenttype":"image/png","data_base64":"AAH/"}',
            "image/png",
            b"\x00\x01\xff",
            id="base64",
        ),
    ],
)
async def test_a_structured_event_in_the_answer_is_delivered_to_the_reply_address(
    nats: Nats, forward: Function, subscriber: Subscriber, body: bytes, content_type: str, data: bytes
) -> None:
    reply = subscriber.place()
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(200, STRUCTURED, body)).uri, reply=reply.uri)
    await lane.store("1")
    assert (await lane.take_one())["replied"] == 1
    [request] = reply.received
    assert request.event["id"] == "r-1"
    assert (request.header("content-type"), request.body) == (content_type, data)


async def test_a_reply_of_version_0_3_stays_one(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place, reply = subscriber.place(Say(201, {**REPLY, "ce-specversion": "0.3"})), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri)
    await lane.store("1")
    await lane.take_one()
    assert [request.event["specversion"] for request in reply.received] == ["0.3"]


@pytest.mark.parametrize(
    "says",
    [
        pytest.param(Say(202, REPLY, b"paid"), id="202 with an event"),
        pytest.param(Say(200), id="200 without a body"),
        pytest.param(Say(200, {"content-type": "text/html"}, b"<h1>thanks</h1>"), id="200 with HTML"),
        pytest.param(Say(200, {"content-type": "application/json"}, b'{"specversion":"1.0"}'), id="200 with JSON"),
        pytest.param(Say(200, {"ce-specversion": "1.0", "ce-id": "r"}, b"x"), id="an event that lacks attributes"),
        pytest.param(Say(200, {**REPLY, "ce-specversion": "9"}, b"x"), id="an event of an unknown version"),
        pytest.param(Say(200, STRUCTURED, b'{"specversion":'), id="a structured event that is broken JSON"),
        pytest.param(Say(200, STRUCTURED, b""), id="a structured event without a body"),
        pytest.param(Say(200, {"content-type": "application/cloudevents-batch+json"}, b"[]"), id="a batch"),
    ],
)
async def test_what_is_no_reply_is_success_and_goes_nowhere(
    nats: Nats, forward: Function, subscriber: Subscriber, says: Say
) -> None:
    reply, sink = subscriber.place(), subscriber.place()
    lane = await nats.serve(
        forward, subscriber=subscriber.place(says).uri, reply=reply.uri, dead_letter=sink.uri, policy=QUICK
    )
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["delivered"], answer["replied"], answer["ack_pending"]) == (1, 0, 0)
    assert (reply.received, sink.received) == ([], [])


async def test_a_reply_without_a_reply_address_is_dropped(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(PAID).uri)
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["delivered"], answer["replied"], answer["ack_pending"]) == (1, 0, 0)


async def test_a_reply_larger_than_is_read_goes_to_the_sink_and_not_into_the_void(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    reply, sink = subscriber.place(), subscriber.place()
    place = subscriber.place(Say(200, REPLY, bytes(1024 * 1024 + 1)))
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, dead_letter=sink.uri)
    await lane.store("1")
    assert (await lane.take_one())["dead_lettered"] == 1
    [request] = sink.received
    assert (request.event["id"], request.event["knativeerrordest"]) == ("1", reply.uri)
    assert request.event["knativeerrorcode"] == "413"
    assert reply.received == []


@pytest.mark.parametrize("mode", [REPLY, STRUCTURED], ids=["binary", "structured"])
async def test_a_compressed_reply_goes_to_nobody_without_its_label_and_the_sink_is_told_why(
    nats: Nats, forward: Function, subscriber: Subscriber, mode: dict[str, str]
) -> None:
    reply, sink = subscriber.place(), subscriber.place()
    place = subscriber.place(Say(200, {**mode, "content-encoding": "gzip"}, gzip.compress(b"{}")))
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1")
    assert (await lane.take_one())["dead_lettered"] == 1
    [request] = sink.received
    assert (request.event["id"], request.event["knativeerrordest"]) == ("1", reply.uri)
    assert request.event["knativeerrorcode"] == "415"
    why = "the reply event is compressed (content-encoding 'gzip'): answer with it as it is"
    assert base64.b64decode(request.event["knativeerrordata"]).decode() == why
    [asked] = place.received
    assert (asked.header("accept-encoding"), reply.received) == ("identity", [])


# ── a reply that fails ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_reply_is_tried_again_without_calling_the_subscriber_again(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, reply = subscriber.place(PAID), subscriber.place(Say(503), Say(404), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, policy=QUICK)
    await lane.store("1")
    answer = await lane.lease(linger=0.5)
    assert (answer["replied"], answer["retried"], answer["ack_pending"]) == (1, 2, 0)
    assert len(place.received) == 1
    assert {request.body for request in reply.received} == {b"paid \x00\xff"}
    assert await lane.aside("stage") == []


async def test_the_next_lease_goes_on_with_the_reply(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    place, reply = subscriber.place(PAID), subscriber.place(Say(503), Say(202))
    policy = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, policy=policy)
    await lane.store("1")
    first = await lane.take_one()
    second = await lane.take_one()
    assert [(one["retried"], one["replied"]) for one in (first, second)] == [(1, 0), (0, 1)]
    assert len(place.received) == 1


async def test_a_reply_that_failed_outlives_the_process(
    shared_server: NatsServer, nats: Nats, subscriber: Subscriber, tmp_path: Path
) -> None:
    place, reply = subscriber.place(PAID), subscriber.place(Say(503), Say(202))
    policy = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT1S"}
    with Function("forward", shared_server.url, tmp_path) as mortal:
        lane = await nats.serve(mortal, subscriber=place.uri, reply=reply.uri, policy=policy)
        await lane.store("1")
        async with lane.leased() as lease:
            await until("the event is put off", lambda: _has_stage(lane))
            # The NAK follows the record at once.
            await asyncio.sleep(0.1)
            mortal.kill()
            with pytest.raises(aiohttp.ClientConnectionError):
                await lease
        assert len(reply.received) == 1
        mortal.start()
        async with lane.leased(linger=1):
            await reply.wait(2)
            await until("the event is settled", lambda: _is_settled(lane))
    assert len(place.received) == 1
    assert [request.event["id"] for request in reply.received] == ["r-1", "r-1"]


async def _has_stage(lane: Lane) -> bool:
    return len(await lane.aside("stage")) == 1


async def _is_settled(lane: Lane) -> bool:
    return bool((await lane.info())["num_ack_pending"] == 0)


async def test_a_reply_that_fails_for_good_sends_the_original_event_to_the_sink(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(200, {**REPLY, "x-request-id": "of-the-answer"}))
    reply, sink = subscriber.place(Say(503, body=b"busy")), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1", data=b'{"n": 1}')
    answer = await lane.lease(linger=0.5)
    assert (answer["dead_lettered"], answer["retried"]) == (1, 2)
    assert [len(one.received) for one in (place, reply, sink)] == [1, 3, 1]
    [request] = sink.received
    assert request.event == {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "order.created",
        "knativeerrordest": reply.uri,
        "knativeerrorcode": "503",
        "knativeerrordata": base64.b64encode(b"busy").decode(),
    }
    assert request.body == b'{"n": 1}'
    assert request.header("x-request-id") == "of-the-answer"
    assert request.header("prefer") is None


async def test_a_reply_that_is_refused_is_not_tried_again_and_is_parked_without_a_sink(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, reply = subscriber.place(PAID), subscriber.place(Say(400))
    lane = await nats.serve(forward, subscriber=place.uri, reply=reply.uri, policy=QUICK)
    await lane.store("1")
    assert (await lane.take_one())["parked"] == 1
    [parked] = await lane.aside()
    assert (parked.headers["ce-id"], parked.headers["Headrace-Destination"]) == ("1", reply.uri)
    assert parked.headers["Headrace-Reason"] == "no dead letter sink, and reply gave status 400 on attempt 1"


# ── nothing but a reply address ─────────────────────────────────────────────────────────────────────────────────────


async def test_without_a_subscriber_the_event_itself_goes_to_the_reply_address(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    reply = subscriber.place(PAID)
    lane = await nats.serve(forward, reply=reply.uri)
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["delivered"], answer["ack_pending"]) == (1, 0)
    [request] = reply.received
    assert (request.event["id"], request.event["source"]) == ("1", "/shop")
    assert (request.header("kn-namespace"), request.header("prefer")) == ("demo", None)


async def test_without_a_subscriber_a_failure_is_the_reply_address_s(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    reply, sink = subscriber.place(Say(503)), subscriber.place()
    lane = await nats.serve(forward, reply=reply.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1")
    answer = await lane.lease(linger=0.5)
    assert (answer["dead_lettered"], answer["retried"]) == (1, 2)
    assert len(reply.received) == 3
    assert sink.received[0].event["knativeerrordest"] == reply.uri
