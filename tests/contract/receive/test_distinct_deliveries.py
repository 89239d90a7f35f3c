"""A distinct delivery is a distinct message, and a repeat of one is none, where one channel delivers into another."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.support.functions.functions import Function
from tests.support.http.relay import Relay
from tests.support.http.sending import BINARY, Ask, send
from tests.support.http.subscriber import Received, Say, Subscriber
from tests.support.nats.nats_permissions import PermittedServer, inbox_of
from tests.support.nats.streams import METADATA_KEY, Channel, Lane, Nats, binary_event, metadata
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

QUICK = {"retry": 3, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}
IMPATIENT = {**QUICK, "timeout": "PT0.5S"}
MOST_HOPS = 255


@pytest.fixture(scope="module")
def stranger(shared_server: PermittedServer, served_directory: Path) -> Iterator[Function]:
    """The `forward` of another installation: what it claims nobody here can prove."""
    url, inbox = shared_server.url_of("forward"), inbox_of("forward")
    settings = {"NATS_INBOX_PREFIX": inbox, "HEADRACE_DELIVERY_KEY": "5" * 64}
    with Function("forward", url, served_directory, **settings) as function:
        yield function


async def beside(lane: Lane, name: str, **addresses: str) -> Lane:
    """Another Subscription of the same channel."""
    said = json.dumps(metadata(lane.channel, name=name, **addresses))
    durable = await lane.nats.make_consumer(lane.channel, {METADATA_KEY: said})
    return Lane(lane.nats, lane.function, lane.channel, durable)


async def ids(nats: Nats, channel: Channel) -> list[str]:
    """Of the events that a channel has stored, in their order."""
    return [one.headers["ce-id"] for one in await nats.stored(channel.stream)]


async def until_stored(nats: Nats, stream: str) -> None:
    """Something has come to the stream."""

    async def came() -> bool:
        return bool(await nats.stored(stream))

    await until(f"something is in {stream}", came)


def as_it_came(request: Received) -> Say:
    """The event of a request as the answer, its hops and its claim with it."""
    own = ("ce-", "content-type", "headrace-", "knative-")
    return Say(200, {name: value for name, value in request.headers if name.startswith(own)}, request.body)


# ── every delivery arrives ──────────────────────────────────────────────────────────────────────────────────────────


async def test_dead_letters_of_two_subscriptions_are_two_messages_of_the_channel_that_is_their_sink(
    nats: Nats, receive: Function, forward: Function, subscriber: Subscriber, orders: Channel
) -> None:
    sink, refusing = receive.url + orders.path, subscriber.place(Say(400))
    first = await nats.serve(forward, subscriber=refusing.uri, dead_letter=sink)
    second = await beside(first, "shipping", subscriber=refusing.uri, dead_letter=sink)
    await first.store("1")
    assert [(await lane.take_one())["dead_lettered"] for lane in (first, second)] == [1, 1]
    assert await ids(nats, orders) == ["1", "1"]


async def test_two_branches_that_reply_with_the_event_as_it_came_join_as_two_messages(
    nats: Nats, receive: Function, forward: Function, subscriber: Subscriber, orders: Channel
) -> None:
    echo = subscriber.place().decides(as_it_came)
    join = receive.url + orders.path
    first = await nats.serve(forward, subscriber=echo.uri, reply=join)
    second = await beside(first, "branch-2", subscriber=echo.uri, reply=join)
    await first.store("1")
    assert [(await lane.take_one())["replied"] for lane in (first, second)] == [1, 1]
    assert await ids(nats, orders) == ["1", "1"]


async def test_a_reply_that_keeps_source_and_id_and_changes_the_type_is_not_taken_for_the_event_that_it_answers(
    ask: Ask, nats: Nats, receive: Function, forward: Function, subscriber: Subscriber
) -> None:
    # As behind a Broker, whose replies come back to the channel: there, as here, nobody sees it in a manifest.
    def paid(request: Received) -> Say:
        return Say(200, {**BINARY, "ce-id": request.event["id"], "ce-type": "order.paid"}, request.body)

    place, own = subscriber.place().decides(paid), await nats.make_channel()
    lane = await nats.serve(forward, own, subscriber=place.uri, reply=receive.url + own.path)
    await ask(own.path, b"1", BINARY)
    assert (await lane.lease(seconds=1))["replied"] >= 2
    types = [one.headers["ce-type"] for one in await nats.stored(own.stream)]
    assert types[:3] == ["order.created", "order.paid", "order.paid"]


async def test_a_reply_by_a_broker_s_ingress_is_not_taken_for_the_event_that_it_answers(
    ask: Ask, nats: Nats, receive: Function, forward: Function, subscriber: Subscriber, orders: Channel
) -> None:
    async def ingress(request: web.Request) -> web.Response:
        # As Knative's does: attributes, and of other headers a few.
        passed = ("ce-", "content-type", "x-request-id", "knative-", "x-b3-")
        headers = {name: value for name, value in request.headers.items() if name.lower().startswith(passed)}
        return web.Response(status=(await send(receive.url + orders.path, await request.read(), headers)).status)

    def paid(request: Received) -> Say:
        done = request.event["type"] == "order.paid"
        return Say() if done else Say(200, {**BINARY, "ce-type": "order.paid"}, request.body)

    app = web.Application()
    app.router.add_post("/{namespace}/{broker}", ingress)
    async with TestServer(app) as server:
        place = subscriber.place().decides(paid)
        lane = await nats.serve(forward, orders, subscriber=place.uri, reply=str(server.make_url("/demo/broker")))
        await ask(orders.path, b"1", BINARY)
        answer = await lane.lease(linger=1)
    assert (answer["delivered"], answer["replied"]) == (2, 1)
    assert [one.headers["ce-type"] for one in await nats.stored(orders.stream)] == ["order.created", "order.paid"]


async def test_two_subscriptions_that_deliver_into_one_channel_give_it_two_messages(
    nats: Nats, receive: Function, forward: Function, orders: Channel
) -> None:
    first = await nats.serve(forward, subscriber=receive.url + orders.path)
    second = await beside(first, "again", subscriber=receive.url + orders.path)
    # The first event opens the connection; the others go the short way.
    for number in range(4):
        await first.store(str(number))
    for lane in (first, second):
        assert (await lane.lease(linger=0.5))["delivered"] == 4
    assert sorted(await ids(nats, orders)) == ["0", "0", "1", "1", "2", "2", "3", "3"]
    assert {one.headers["headrace-hops"] for one in await nats.stored(orders.stream)} == {"1"}


# ── a repeat is none ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stage", ["subscriber", "reply", "dead_letter"])
async def test_a_delivery_whose_answer_was_lost_is_tried_again_and_stored_once(
    nats: Nats, receive: Function, forward: Function, subscriber: Subscriber, orders: Channel, stage: str
) -> None:
    async with Relay(receive.port) as lossy:
        into = f"http://127.0.0.1:{lossy.port}{orders.path}"
        answers = {"reply": Say(200, BINARY, b"reply"), "dead_letter": Say(400)}
        addresses = {"subscriber": subscriber.place(answers.get(stage, Say())).uri, stage: into}
        lane = await nats.serve(forward, policy=IMPATIENT, **addresses)
        await lane.store("1")
        lossy.hold()
        async with lane.leased(linger=2) as lease:
            await until_stored(nats, orders.stream)
            await until_stored(nats, lane.channel.aside)
            lossy.release()
            answer = await lease
    assert answer["retried"] >= 1
    assert answer["dead_lettered" if stage == "dead_letter" else "delivered"] == 1
    assert (answer["parked"], await ids(nats, orders)) == (0, ["1"])


async def test_a_delivery_that_forward_did_not_live_to_settle_is_stored_once(
    shared_server: PermittedServer,
    tmp_path: Path,
    nats: Nats,
    receive: Function,
    forward: Function,
    orders: Channel,
) -> None:
    url, inbox = shared_server.url_of("forward"), inbox_of("forward")
    async with Relay(receive.port) as lossy:
        into = f"http://127.0.0.1:{lossy.port}{orders.path}"
        with Function("forward", url, tmp_path, NATS_INBOX_PREFIX=inbox) as dying:
            lane = await nats.serve(dying, subscriber=into, consumer={"ack_wait": 10**9})
            await lane.store("1")
            lossy.hold()
            lease = asyncio.create_task(lane.lease())
            await until_stored(nats, orders.stream)
            dying.kill()
            await asyncio.gather(lease, return_exceptions=True)
        lossy.release()
        again = Lane(nats, forward, lane.channel, lane.consumer)
        assert (await again.lease(linger=2))["delivered"] == 1
    assert await ids(nats, orders) == ["1"]


# ── whose duplicate it is ───────────────────────────────────────────────────────────────────────────────────────────


async def test_the_answer_says_that_an_event_was_stored_before(ask: Ask, orders: Channel) -> None:
    replies = [await ask(orders.path) for _ in range(2)]
    said = [(reply.status, reply.headers.get("headrace-duplicate")) for reply in replies]
    assert said == [(202, None), (202, "event")]


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "in chunks"])
async def test_a_sender_is_told_that_a_stranger_has_used_its_source_and_id_and_in_another_channel_it_has_not(
    ask: Ask, nats: Nats, orders: Channel, chunked: bool
) -> None:
    async def chunks():
        yield b"ours"

    others = await nats.make_channel()
    assert (await ask(orders.path, b"theirs")).status == 202
    replies = [await ask(channel.path, chunks() if chunked else b"ours") for channel in (orders, others)]
    said = [(reply.status, reply.headers.get("headrace-duplicate")) for reply in replies]
    assert said == [(202, "event"), (202, None)]
    stored = [[one.data for one in await nats.stored(channel.stream)] for channel in (orders, others)]
    assert stored == [[b"theirs"], [b"ours"]]


@pytest.mark.parametrize(
    "claim",
    [
        pytest.param("KN_X/KN_SUB_X/reply/0011223344556677/1/2.00112233445566778899aabbccddeeff", id="made up"),
        pytest.param("", id="empty"),
        pytest.param(".", id="a dot"),
        pytest.param("x" * 3000, id="long"),
    ],
)
@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "in chunks"])
async def test_a_claim_that_is_not_proven_is_passed_over_and_not_passed_on(
    ask: Ask, nats: Nats, orders: Channel, claim: str, chunked: bool
) -> None:
    async def chunks():
        yield b"1"

    def body():
        return chunks() if chunked else b"1"

    replies = [
        await ask(orders.path, body(), headers)
        for headers in (
            BINARY,
            {**BINARY, "knative-headrace-delivery": claim},
            {**BINARY, "Knative-Headrace-Delivery": f"{claim}1"},
        )
    ]
    assert [reply.status for reply in replies] == [202, 202, 202]
    assert [reply.headers.get("headrace-duplicate") for reply in replies] == [None, "event", "event"]
    [stored] = await nats.stored(orders.stream)
    assert set(stored.headers) == {"Nats-Msg-Id", *BINARY}


async def test_a_claim_with_another_event_does_not_give_the_id_of_the_first(
    ask: Ask, nats: Nats, forward: Function, subscriber: Subscriber, orders: Channel
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    await lane.store("1")
    await lane.take_one()
    claim = {"knative-headrace-delivery": place.received[0].header("knative-headrace-delivery") or ""}
    replies = [await ask(orders.path, b"1", {**BINARY, "ce-id": id, **claim}) for id in ("1", "2", "1", "2")]
    said = [(reply.status, reply.headers.get("headrace-duplicate")) for reply in replies]
    assert said == [(202, None), (202, None), (202, "delivery"), (202, "delivery")]
    assert await ids(nats, orders) == ["1", "2"]


async def test_a_claim_tells_which_delivery_it_is_and_no_address(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=f"{place.uri}?token=secret")
    await lane.store("1")
    await lane.take_one()
    claim = subscriber.find(place.uri.removeprefix(f"http://127.0.0.1:{subscriber.port}") + "?token=secret")
    told = (claim.received[0].header("knative-headrace-delivery") or "").split("/")
    assert told[:3] + told[4:5] == [lane.channel.stream, lane.consumer, "subscriber", "1"]
    assert "secret" not in "/".join(told)


@pytest.mark.parametrize("stage", ["subscriber", "reply", "dead_letter"])
async def test_another_one_s_duplicate_is_never_taken_for_a_delivery(
    nats: Nats, receive: Function, stranger: Function, subscriber: Subscriber, orders: Channel, stage: str
) -> None:
    into = receive.url + orders.path
    assert (await send(into, b"1", binary_event("1"))).status == 202
    answers = {"reply": Say(200, binary_event("1"), b"reply"), "dead_letter": Say(400)}
    addresses = {"subscriber": subscriber.place(answers.get(stage, Say())).uri, stage: into}
    lane = await nats.serve(stranger, policy=QUICK, **addresses)
    await lane.store("1")
    answer = await lane.take_one()
    assert (answer["delivered"], answer["dead_lettered"], answer["retried"], answer["parked"]) == (0, 0, 0, 1)
    [parked] = await lane.aside()
    why = "gave status 202 and took the event for one that it has, by source and id"
    assert why in parked.headers["Headrace-Reason"]


async def test_another_one_s_duplicate_goes_to_the_dead_letter_sink(
    nats: Nats, receive: Function, stranger: Function, subscriber: Subscriber, orders: Channel
) -> None:
    into, sink = receive.url + orders.path, subscriber.place()
    lane = await nats.serve(stranger, subscriber=into, dead_letter=sink.uri)
    # The second goes the short way.
    for id in ("1", "2"):
        assert (await send(into, b"1", binary_event(id))).status == 202
        await lane.store(id)
    answer = await lane.lease(linger=0.5)
    assert (answer["delivered"], answer["dead_lettered"]) == (0, 2)
    assert [one.event["knativeerrorcode"] for one in sink.received] == ["202", "202"]


@pytest.mark.parametrize("chunked", [False, True], ids=["whole", "in chunks"])
async def test_nobody_is_woken_for_an_event_that_was_stored_before(
    ask: Ask, nats: Nats, orders: Channel, chunked: bool
) -> None:
    hints = await nats.client.subscribe(f"headrace.wake.{orders.stream}")
    await nats.client.flush()

    async def chunks():
        yield b"1"

    for id in ("1", "1", "1"):
        await ask(orders.path, chunks() if chunked else b"1", {**BINARY, "ce-id": id})
        # Longer than hints are held back for one another.
        await asyncio.sleep(0.15)
    assert hints.pending_msgs == 1


async def test_what_receive_may_have_stored_itself_is_told_apart_and_wakes(
    shared_server: PermittedServer, tmp_path: Path, nats: Nats, orders: Channel
) -> None:
    hints = await nats.client.subscribe(f"headrace.wake.{orders.stream}")
    await nats.client.flush()
    url = urlsplit(shared_server.url_of("receive"))
    async with Relay(url.port or 0) as slow:
        through = url._replace(netloc=f"{url.username}:{url.password}@127.0.0.1:{slow.port}").geturl()
        receive = Function("receive", through, tmp_path, NATS_INBOX_PREFIX=inbox_of("receive"))
        try:
            # The relay works on this loop.
            await asyncio.to_thread(receive.start)
            slow.hold()
            sending = asyncio.create_task(send(receive.url + orders.path, b"1", BINARY))
            # The first try has two seconds.
            await asyncio.sleep(2.5)
            slow.release()
            reply = await sending
            assert (reply.status, reply.headers.get("headrace-duplicate")) == (202, "unsure")
            await until("somebody is woken", lambda: hints.pending_msgs == 1)
        finally:
            receive.stop()
    assert await ids(nats, orders) == ["1"]


# ── round and round ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", ["subscriber", "reply", "dead_letter"])
async def test_an_event_that_goes_round_over_two_channels_is_parked(
    nats: Nats, receive: Function, forward: Function, subscriber: Subscriber, by: str
) -> None:
    one, other = await nats.make_channel(), await nats.make_channel()

    def addresses(to: Channel) -> dict[str, str]:
        echo = subscriber.place().decides(as_it_came)
        places = {"reply": echo, "dead_letter": subscriber.place(Say(400))}
        return {**({"subscriber": places[by].uri} if by in places else {}), by: receive.url + to.path}

    lanes = [await nats.serve(forward, one, **addresses(other)), await nats.serve(forward, other, **addresses(one))]
    await lanes[0].store("1")
    answers = await asyncio.gather(*(lane.lease(linger=3) for lane in lanes))
    assert sum(answer["parked"] for answer in answers) == 1
    parked = [event for lane in lanes for event in await lane.aside()]
    assert f"it has passed {MOST_HOPS} channels, so it goes round in a loop" in parked[0].headers["Headrace-Reason"]
    stored = await nats.stored(one.stream) + await nats.stored(other.stream)
    # The first one is as its producer has sent it.
    assert sorted(int(one.headers.get("headrace-hops", 0)) for one in stored) == list(range(MOST_HOPS + 1))


async def test_a_parked_event_of_a_loop_that_was_opened_is_replayed_as_if_it_were_new(
    nats: Nats, forward: Function, subscriber: Subscriber, orders: Channel
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, orders, subscriber=place.uri)
    await nats.store(orders.subject, b"1", {**binary_event("1"), "headrace-hops": str(MOST_HOPS)})
    await nats.store(orders.subject, b"1", {**binary_event("2"), "headrace-hops": str(MOST_HOPS - 1)})
    await nats.store(orders.subject, b"1", {**binary_event("3"), "headrace-hops": "no number"})
    answer = await lane.lease(linger=0.5)
    assert (answer["delivered"], answer["parked"]) == (2, 1)
    assert {one.event["id"]: one.header("headrace-hops") for one in place.received} == {"2": "255", "3": "1"}
    [parked] = await lane.aside()
    assert parked.headers["ce-id"] == "1"
    assert "headrace-hops" not in parked.headers
