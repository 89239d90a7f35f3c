"""Who may open a lease, on which consumers, and the answers of `forward` to all others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import Reply, send
from tests.support.http.subscriber import Subscriber
from tests.support.nats.streams import METADATA_KEY, Lane, Nats, metadata

pytest_plugins = ["tests.support.functions.served"]

BEARER = {"authorization": f"Bearer {TOKEN}"}
GONE = {"state": "gone", "goneSince": "2026-01-31T09:30:00Z"}
AUDIENCE = {"deadLetter": {"uri": "http://127.0.0.1/", "audience": "someone"}}
REFUSED = {"state": "refused", "reason": "OIDCIdentityMissing: spec.subscribers[0].auth.serviceAccountName"}


@pytest.fixture
async def lane(nats: Nats, forward: Function, subscriber: Subscriber) -> Lane:
    lane = await nats.serve(forward, subscriber=subscriber.place().uri)
    await lane.store("1")
    return lane


async def call(function: Function, body: object, headers: dict[str, str] = BEARER, method: str = "POST") -> Reply:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await send(function.url, data, headers, method)


async def is_untouched(lane: Lane) -> bool:
    info = await lane.info()
    return (info["num_pending"], info["num_ack_pending"], info["num_waiting"]) == (1, 0, 0)


# ── the token ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param({}, id="none"),
        pytest.param({"authorization": "Bearer "}, id="an empty one"),
        pytest.param({"authorization": "Bearer wrong"}, id="a wrong one"),
        pytest.param({"authorization": f"Bearer {TOKEN}x"}, id="one that begins like it"),
        pytest.param({"authorization": "Basic dXNlcjpwYXNz"}, id="another scheme"),
        pytest.param({"authorization": TOKEN}, id="one without its scheme"),
    ],
)
async def test_without_the_token_there_is_no_lease(lane: Lane, forward: Function, headers: dict[str, str]) -> None:
    body = {"stream": lane.channel.stream, "consumer": lane.consumer, "linger": 0.05}
    reply = await call(forward, body, headers)
    assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert await is_untouched(lane)


# ── the arguments ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param(b"", "body", id="no body"),
        pytest.param(b"{stream", "body", id="broken JSON"),
        pytest.param(b"[" * 5000, "body", id="JSON without end"),
        pytest.param([], "body", id="no object"),
        pytest.param({"consumer": "C"}, "stream", id="no stream"),
        pytest.param({"stream": "S"}, "consumer", id="no consumer"),
        pytest.param({"stream": 5, "consumer": "C"}, "stream", id="a stream that is no text"),
        pytest.param({"stream": "S.>", "consumer": "C"}, "stream", id="a stream that is a wildcard"),
        pytest.param({"stream": "S", "consumer": "C\r\nPUB x 0"}, "consumer", id="a consumer with a line break"),
        pytest.param({"stream": "S", "consumer": "C", "seconds": "20"}, "seconds", id="seconds that are no number"),
        pytest.param({"stream": "S", "consumer": "C", "seconds": -1}, "seconds", id="negative seconds"),
        pytest.param({"stream": "S", "consumer": "C", "linger": True}, "linger", id="linger that is no number"),
        pytest.param({"stream": "S", "consumer": "C", "max_in_flight": []}, "max_in_flight", id="no count"),
    ],
)
async def test_wrong_arguments_are_refused_by_name(forward: Function, body: Any, field: str) -> None:
    reply = await call(forward, body)
    assert (reply.status, reply.json["title"]) == (400, f"Invalid {field}")


async def test_leases_are_opened_with_post(forward: Function) -> None:
    reply = await call(forward, b"", method="GET")
    assert (reply.status, reply.headers["Allow"]) == (405, "POST")


# ── the consumer ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_consumer_or_stream_that_does_not_exist_is_not_found(lane: Lane, forward: Function) -> None:
    for body in ({"stream": lane.channel.stream, "consumer": "nobody"}, {"stream": "NOWHERE", "consumer": "nobody"}):
        reply = await call(forward, body)
        assert reply.status == 404
        assert "nobody" in reply.detail


@pytest.mark.parametrize(
    ("metadata_", "title"),
    [
        pytest.param({}, "Not our consumer", id="somebody else's"),
        pytest.param({"owner": "nats-cli"}, "Not our consumer", id="somebody else's with metadata"),
        pytest.param({METADATA_KEY: "{"}, "Damaged consumer", id="damaged"),
        pytest.param({METADATA_KEY: "[]"}, "Damaged consumer", id="damaged into a list"),
        pytest.param({METADATA_KEY: '{"v":1}'}, "Damaged consumer", id="damaged, fields missing"),
    ],
)
async def test_a_consumer_that_is_not_ours_is_left_alone(
    lane: Lane, nats: Nats, forward: Function, metadata_: dict[str, str], title: str
) -> None:
    durable = await nats.make_consumer(lane.channel, metadata_)
    status, answer = await Lane(nats, forward, lane.channel, durable).ask()
    assert (status, answer["title"]) == (409, title)
    assert await is_untouched(Lane(nats, forward, lane.channel, durable))


@pytest.mark.parametrize(
    "uri",
    [
        pytest.param("http://user:secret@127.0.0.1/", id="with a password"),
        pytest.param("http://user@127.0.0.1/", id="with a user"),
        pytest.param("ftp://127.0.0.1/", id="of another scheme"),
        pytest.param("file:///etc/passwd", id="of a file"),
        pytest.param("http:///path", id="without a host"),
        pytest.param("http://127.0.0.1/a b", id="with a blank"),
        pytest.param("http://127.0.0.1:99999/", id="with an impossible port"),
    ],
)
@pytest.mark.parametrize("role", ["subscriber", "reply", "dead_letter"])
async def test_nothing_is_sent_to_an_address_that_no_subscriber_can_have(
    lane: Lane, nats: Nats, forward: Function, role: str, uri: str
) -> None:
    addresses: dict[str, Any] = {"subscriber": "http://127.0.0.1/", role: uri}
    other = await nats.serve(forward, lane.channel, **addresses)
    status, answer = await other.ask()
    assert (status, answer["title"]) == (409, "Damaged consumer")
    assert "secret" not in json.dumps(answer)
    assert await is_untouched(other)


@pytest.mark.parametrize(
    ("state", "words"),
    [
        pytest.param(GONE, "gone", id="its Subscription is gone"),
        pytest.param(REFUSED, "OIDCIdentityMissing", id="its Subscription asks for what we can't"),
        pytest.param(AUDIENCE, "needs tokens", id="its sink needs a token that the lease lacks"),
    ],
)
async def test_a_consumer_that_may_not_be_delivered_to_keeps_its_events(
    lane: Lane, nats: Nats, forward: Function, subscriber: Subscriber, state: dict[str, Any], words: str
) -> None:
    place = subscriber.place()
    other = await nats.serve(forward, lane.channel, subscriber=place.uri, **state)
    status, answer = await other.ask()
    assert (status, answer["title"]) == (409, "Not deliverable")
    assert words in answer["detail"]
    assert await is_untouched(other)
    assert place.received == []


async def test_an_edited_subscriber_takes_effect_with_the_next_lease(
    lane: Lane, nats: Nats, subscriber: Subscriber
) -> None:
    await lane.take_one()
    place = subscriber.place()
    edited = {METADATA_KEY: json.dumps(metadata(lane.channel, subscriber=place.uri))}
    await nats.edit_consumer(lane.channel, lane.consumer, edited)
    await lane.store("2")
    await lane.take_one()
    assert place.ids == ["2"]
