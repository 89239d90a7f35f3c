"""Events that nobody takes: they go to the dead letter sink with the reason, else aside, and never into the void."""

from __future__ import annotations

import base64
import time
from datetime import timedelta
from typing import Any

import pytest

from headrace.forward import one_event
from tests.support.functions.functions import TOKEN, Function
from tests.support.functions.in_process import InProcess
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Nats, binary_event

pytest_plugins = ["tests.support.functions.served"]

QUICK = {"retry": 2, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}


# ── the dead letter sink ────────────────────────────────────────────────────────────────────────────────────────────


async def test_the_sink_gets_the_event_as_it_is_with_three_extensions_of_what_went_wrong(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(Say(422, {"x-request-id": "of-the-answer"}, b"no such order")), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri)
    stored = {**binary_event("1", note="gr%C3%BC%C3%9Fe"), "x-request-id": "of-the-event"}
    await nats.store(lane.channel.subject, b"\x00\xff", stored)
    await lane.take_one()
    [request] = sink.received
    left_out = ("host", "knative-headrace-delivery")
    assert {name: value for name, value in request.headers if name not in left_out} == {
        **stored,
        "ce-knativeerrordest": place.uri,
        "ce-knativeerrorcode": "422",
        "ce-knativeerrordata": base64.b64encode(b"no such order").decode(),
        "kn-namespace": "demo",
        "user-agent": "headrace",
        "headrace-hops": "1",
        "content-length": "2",
    }
    assert request.body == b"\x00\xff"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        pytest.param(b"", None, id="0 bytes are left out"),
        pytest.param(b"x" * 767, "eHh4" * 255 + "eHg=", id="767 bytes"),
        pytest.param(b"x" * 768, "eHh4" * 256, id="768 bytes fill the 1024 characters"),
        pytest.param(b"x" * 769, "eHh4" * 256, id="769 bytes are cut"),
        pytest.param(b"x" * 1024 * 1024, "eHh4" * 256, id="1 MiB is cut"),
        pytest.param(b"x" * 3 * 1024 * 1024, "eHh4" * 256, id="3 MiB, more than is read, are cut"),
        pytest.param(b"\x00\xff\r\n\xfe", "AP8NCv4=", id="binary"),
    ],
)
async def test_the_sink_is_told_the_beginning_of_the_answer(
    nats: Nats, forward: Function, subscriber: Subscriber, body: bytes, told: str | None
) -> None:
    place, sink = subscriber.place(Say(400, body=body)), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri)
    await lane.store("1")
    assert (await lane.take_one())["dead_lettered"] == 1
    assert sink.received[0].event.get("knativeerrordata") == told


async def test_the_sink_is_told_of_a_connection_that_failed_as_500(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    sink, dead = subscriber.place(), f"http://127.0.0.1:{free_port()}/"
    lane = await nats.serve(forward, subscriber=dead, dead_letter=sink.uri)
    await lane.store("1")
    await lane.take_one()
    [request] = sink.received
    assert (request.event["knativeerrordest"], request.event["knativeerrorcode"]) == (dead, "500")
    assert base64.b64decode(request.event["knativeerrordata"]).startswith(b"dispatch error: ")


async def test_the_sink_is_told_the_last_of_several_failures(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(Say(503), Say(500), Say(429, body=b"enough")), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1")
    await lane.lease(linger=0.3)
    [request] = sink.received
    assert request.event["knativeerrorcode"] == "429"
    assert request.event["knativeerrordata"] == base64.b64encode(b"enough").decode()


async def test_a_sink_is_tried_again_without_calling_the_subscriber_again(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(Say(400)), subscriber.place(Say(503), Say(408), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy=QUICK)
    await lane.store("1")
    answer = await lane.lease(linger=0.3)
    assert (answer["dead_lettered"], answer["retried"], answer["ack_pending"]) == (1, 2, 0)
    assert [len(one.received) for one in (place, sink)] == [1, 3]


async def test_an_event_in_a_sink_s_answer_is_no_reply(nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    event = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/sink", "ce-type": "seen"}
    reply, sink = subscriber.place(), subscriber.place(Say(200, event))
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri, reply=reply.uri, dead_letter=sink.uri)
    await lane.store("1")
    assert (await lane.take_one())["dead_lettered"] == 1
    assert reply.received == []


# ── aside ───────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_parked_event_keeps_its_headers_and_bytes_and_says_where_it_came_from_and_why(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(503))
    lane = await nats.serve(forward, subscriber=place.uri, policy=QUICK)
    stored = {**binary_event("1", note="gr%C3%BC%C3%9Fe"), "x-request-id": "r-1", "Nats-Msg-Id": "of-the-event"}
    await nats.store(lane.channel.subject, bytes(range(256)), stored)
    answer = await lane.lease(linger=0.3)
    assert (answer["parked"], answer["retried"], answer["ack_pending"]) == (1, 2, 0)
    [parked] = await lane.aside()
    # The last token tells when the stream stored the event, in nanoseconds.
    *subject, stored_at = parked.subject.split(".")
    assert ".".join(subject) == f"demo.{lane.channel.name}._knative_aside.parked.{lane.consumer}.1"
    assert abs(int(stored_at) / 1e9 - time.time()) < 60
    assert parked.data == bytes(range(256))
    assert parked.headers == {
        **stored,
        "Nats-Msg-Id": f"{lane.channel.stream}:1:{stored_at}:{lane.consumer}",
        "Headrace-Origin-Stream": lane.channel.stream,
        "Headrace-Origin-Sequence": "1",
        "Headrace-Origin-Subject": lane.channel.subject,
        "Headrace-Consumer": lane.consumer,
        "Headrace-Subscription": "demo/billing",
        "Headrace-Destination": place.uri,
        "Headrace-Status": "503",
        "Headrace-Attempts": "3",
        "Headrace-Reason": "no dead letter sink, and subscriber gave status 503 on attempt 3",
    }
    assert await lane.aside("stage") == []


async def test_a_parked_event_that_fails_without_an_answer_says_so(nats: Nats, forward: Function) -> None:
    lane = await nats.serve(forward, subscriber=f"http://127.0.0.1:{free_port()}/")
    await lane.store("1")
    assert (await lane.take_one())["parked"] == 1
    [parked] = await lane.aside()
    assert parked.headers["Headrace-Status"] == "500"
    assert parked.headers["Headrace-Reason"].startswith("no dead letter sink, and subscriber failed (can't connect to ")


async def test_one_event_is_parked_for_each_subscriber_that_refuses_it(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    first = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    second = await nats.serve(forward, first.channel, subscriber=subscriber.place(Say(410)).uri)
    await first.store("1")
    await first.lease()
    await second.take_one()
    assert [one.headers["Headrace-Status"] for one in await first.aside()] == ["400"]
    assert [one.headers["Headrace-Status"] for one in await second.aside()] == ["410"]


async def test_an_event_is_not_too_large_to_be_parked_only_because_of_what_was_answered(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400, body=b"no" * 5000)).uri)
    await _limit_aside(nats, lane.channel.aside, lane.channel.name, max_msg_size=2000)
    await lane.store("small", data=b"x")
    await lane.store("large", data=bytes(600))
    assert (await lane.lease(linger=0.3))["parked"] == 2
    kept = {one.headers["ce-id"]: "Headrace-Answer" in one.headers for one in await lane.aside()}
    assert kept == {"small": True, "large": False}


@pytest.mark.parametrize("limit", [{"max_msgs": 1}, {"max_bytes": 1000}], ids=["of messages", "of bytes"])
async def test_an_event_that_can_t_be_parked_stays_where_it_is(
    nats: Nats, forward: Function, subscriber: Subscriber, limit: dict[str, Any]
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await _limit_aside(nats, lane.channel.aside, lane.channel.name, **limit)
    await lane.store("1", "2", data=bytes(300))
    answer = await lane.lease(max_in_flight=1)
    assert (answer["parked"], answer["stuck"], answer["ack_pending"]) == (1, 1, 1)
    assert 28 <= answer["next_due_seconds"] <= 30
    assert [one.headers["ce-id"] for one in await lane.aside()] == ["1"]


async def test_an_event_that_could_not_be_parked_is_delivered_once_there_is_room(
    nats: Nats, shared_server: NatsServer, subscriber: Subscriber, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", shared_server.url)
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    monkeypatch.setattr(one_event, "LEAST_STUCK_WAIT", timedelta(seconds=0.4))
    place = subscriber.place(Say(400))
    with InProcess("forward") as forward:
        lane = await nats.serve(forward, subscriber=place.uri)
        await _limit_aside(nats, lane.channel.aside, lane.channel.name, max_msgs=1)
        await lane.store("1", "2")
        first = await lane.lease(max_in_flight=1)
        assert (first["parked"], first["stuck"]) == (1, 1)
        await nats.call(f"STREAM.PURGE.{lane.channel.aside}")
        second = await lane.lease(linger=0.6)
    assert (second["parked"], second["stuck"], second["ack_pending"]) == (1, 0, 0)
    assert [one.headers["ce-id"] for one in await lane.aside()] == ["2"]
    assert place.ids == ["1", "2", "2"]


async def test_without_room_for_its_record_an_event_is_tried_again_all_the_same(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(503), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, policy=QUICK)
    await _limit_aside(nats, lane.channel.aside, lane.channel.name, max_bytes=1)
    await lane.store("1")
    answer = await lane.lease(linger=0.3)
    assert (answer["delivered"], answer["ack_pending"]) == (1, 0)
    assert len(place.received) == 2


async def _limit_aside(nats: Nats, aside: str, channel: str, **limits: int) -> None:
    """The aside stream with little room."""
    config = {
        "name": aside,
        "subjects": [f"demo.{channel}._knative_aside.>"],
        "storage": "file",
        "max_msgs_per_subject": 1,
        "allow_direct": True,
        "discard": "new",
        **limits,
    }
    await nats.call(f"STREAM.UPDATE.{aside}", config)
