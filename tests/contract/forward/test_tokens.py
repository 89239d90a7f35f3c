"""Events to addresses that check tokens: a real `forward`, a real nats-server, and an HTTP server that checks them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Answer, Received, Say, Subscriber
from tests.support.nats.streams import Lane, Nats

pytest_plugins = ["tests.support.functions.served"]

OLD, NEW, DEAD = "old.billing.c2VjcmV0b2xk", "new.billing.c2VjcmV0bmV3", "new.dead.c2VjcmV0ZGVhZA"
SECRETS = (OLD, NEW, DEAD)
HOUR, FRESH = 3600.0, 0.0
EVENT = {
    "ce-specversion": "1.0",
    "ce-id": "r1",
    "ce-source": "/billing",
    "ce-type": "billed",
    "content-type": "application/json",
}


def tokens(age: float = FRESH, **of: str) -> dict[str, Any]:
    return {audience: {"token": token, "age": age} for audience, token in of.items()}


def checks(*good: str, then: Answer | None = None) -> Callable[[Received], Answer]:
    """An address that takes these tokens only, and repeats what it was sent where it refuses."""

    def choose(request: Received) -> Answer:
        said = request.header("authorization") or ""
        if said in [f"Bearer {token}" for token in good]:
            return then or Say(202)
        return Say(401, {"content-type": "text/plain"}, f"no: {request.headers}".encode())

    return choose


def at(uri: str, audience: str) -> dict[str, str]:
    return {"uri": uri, "audience": audience}


async def lane_of(nats: Nats, forward: Function, **members: Any) -> Lane:
    return await nats.serve(forward, serviceAccount="billing-oidc", **members)


async def nothing_tells(lane: Lane, forward: Function, answer: dict[str, Any]) -> None:
    """No token is in the answer, the log, the consumer, the records or what is parked."""
    records = [*await lane.aside("stage"), *await lane.aside("parked")]
    told = [json.dumps(answer), forward.log, json.dumps(await lane.info()), *map(repr, records)]
    held = [base64.b64decode(one) for one in _data_of(records)]
    assert [secret for secret in SECRETS for text in told if secret in text] == []
    assert [secret for secret in SECRETS for text in held if secret.encode() in text] == []


def _data_of(records: list[Any]) -> list[str]:
    """The parts of records and parked events that are in base64."""
    found = [value for one in records for name, value in one.headers.items() if name.endswith("knativeerrordata")]
    for one in records:
        if one.data.startswith(b"{"):
            found += [part for part in (json.loads(one.data).get("failure") or [])[2:3] if part]
    return found


async def test_each_address_gets_the_token_for_its_audience_and_no_other(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, reply = subscriber.place().decides(checks(NEW, then=Say(200, EVENT, b"{}"))), subscriber.place()
    lane = await lane_of(nats, forward, subscriber=at(place.uri, "billing"), reply=reply.uri)
    await lane.store(*map(str, range(5)))

    answer = await lane.lease(tokens=tokens(billing=NEW))

    assert (answer["delivered"], answer["replied"]) == (5, 5)
    assert {one.header("authorization") for one in place.received} == {f"Bearer {NEW}"}
    assert {one.header("authorization") for one in reply.received} == {None}
    assert "outdated_tokens" not in answer
    await nothing_tells(lane, forward, answer)


async def test_a_lease_without_a_token_that_its_addresses_ask_for_is_refused_and_the_events_wait(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(), subscriber.place()
    lane = await lane_of(nats, forward, subscriber=at(place.uri, "billing"), dead_letter=at(sink.uri, "dead"))
    await lane.store("1")

    status, answer = await lane.ask(tokens=tokens(billing=NEW))

    assert (status, answer["title"]) == (409, "Not deliverable")
    assert "no token for 'dead' came with the lease" in answer["detail"]
    assert (await lane.info())["num_pending"] == 1
    assert place.received == []
    await nothing_tells(lane, forward, answer)


@pytest.mark.parametrize("retry", [0, 3])
async def test_a_refused_token_of_some_age_ends_the_lease_and_the_next_one_shows_a_fresh_one(
    nats: Nats, forward: Function, subscriber: Subscriber, retry: int
) -> None:
    place, sink = subscriber.place().decides(checks(NEW)), subscriber.place()
    policy = {"retry": retry, "backoffDelay": "PT0.05S"}
    lane = await lane_of(
        nats, forward, subscriber=at(place.uri, "billing"), dead_letter=at(sink.uri, "dead"), policy=policy
    )
    await lane.store(*map(str, range(40)))

    first = await lane.lease(tokens=tokens(HOUR, billing=OLD, dead=DEAD), linger=5, max_in_flight=4)
    assert first["outdated_tokens"] == ["billing"]
    assert (first["delivered"], first["dead_lettered"]) == (0, 0)
    refused = len(place.received)
    # Those in hand were refused; the others were not even tried.
    assert 1 <= refused <= 8
    await nothing_tells(lane, forward, first)

    counts = []
    while (await lane.info())["num_ack_pending"] or (await lane.info())["num_pending"]:
        counts.append(await lane.lease(tokens=tokens(billing=NEW, dead=DEAD)))
    assert sum(one["delivered"] for one in counts) == 40
    assert len(place.received) == 40 + refused
    assert sink.received == []
    await nothing_tells(lane, forward, counts[-1])


async def test_an_event_is_not_shown_an_outdated_token_twice_whatever_other_leases_still_have(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place().decides(checks(NEW))
    policy = {"retry": 1, "backoffDelay": "PT0.05S"}
    lane = await lane_of(nats, forward, subscriber=at(place.uri, "billing"), policy=policy)
    await lane.store("1")

    for _ in range(4):
        answer = await lane.lease(tokens=tokens(HOUR, billing=OLD), linger=1.5)
        assert answer["outdated_tokens"] == ["billing"]
    assert len(place.received) == 1
    assert (await lane.lease(tokens=tokens(billing=NEW), linger=1.5))["delivered"] == 1


@pytest.mark.parametrize("retry", [0, 3])
async def test_a_refused_fresh_token_is_an_answer_like_any_other_and_the_sink_learns_nothing_of_it(
    nats: Nats, forward: Function, subscriber: Subscriber, retry: int
) -> None:
    place, sink = subscriber.place().decides(checks(NEW)), subscriber.place().decides(checks(DEAD))
    lane = await lane_of(
        nats, forward, subscriber=at(place.uri, "billing"), dead_letter=at(sink.uri, "dead"), policy={"retry": retry}
    )
    await lane.store("1")

    answer = await lane.lease(tokens=tokens(billing=OLD, dead=DEAD))

    assert (answer["dead_lettered"], len(place.received), len(sink.received)) == (1, 1, 1)
    assert "outdated_tokens" not in answer
    letter = sink.received[0]
    assert letter.event["knativeerrorcode"] == "401"
    data = base64.b64decode(letter.event["knativeerrordata"])
    assert b"Bearer ***" in data
    assert OLD.encode() not in data
    await nothing_tells(lane, forward, answer)


async def test_a_fresh_token_that_is_refused_again_uses_the_one_more_attempt_up(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place().decides(checks())
    policy = {"retry": 0, "backoffDelay": "PT0.05S"}
    lane = await lane_of(nats, forward, subscriber=at(place.uri, "billing"), policy=policy)
    await lane.store("1")

    assert (await lane.lease(tokens=tokens(HOUR, billing=OLD), linger=1))["retried"] == 1
    # This one has had its minute, too, before the event came to it.
    answer = await lane.lease(tokens=tokens(HOUR, billing=NEW), linger=1)
    assert (answer["parked"], len(place.received)) == (1, 2)
    await nothing_tells(lane, forward, answer)


async def test_a_sink_that_refuses_an_outdated_token_gets_the_event_from_the_next_lease(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(Say(400)), subscriber.place().decides(checks(DEAD))
    policy = {"retry": 0, "backoffDelay": "PT0.05S"}
    lane = await lane_of(nats, forward, subscriber=place.uri, dead_letter=at(sink.uri, "dead"), policy=policy)
    await lane.store("1")

    first = await lane.lease(tokens=tokens(HOUR, dead=OLD), linger=1)
    assert (first["outdated_tokens"], first["retried"], first["parked"]) == (["dead"], 1, 0)
    assert (await lane.lease(tokens=tokens(dead=DEAD), linger=1))["dead_lettered"] == 1
    assert (len(place.received), len(sink.received)) == (1, 2)


async def test_a_401_of_an_address_that_asks_for_no_token_is_final_as_ever(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(401))
    lane = await lane_of(nats, forward, subscriber=place.uri, policy={"retry": 3})
    await lane.store("1")
    answer = await lane.lease(tokens=tokens(HOUR, billing=OLD))
    assert (answer["parked"], len(place.received)) == (1, 1)
    assert place.received[0].header("authorization") is None


@pytest.mark.parametrize("body", [{"tokens": {"billing": OLD}}, {"tokens": OLD}])
async def test_a_request_with_broken_tokens_is_refused_without_quoting_them(
    nats: Nats, forward: Function, subscriber: Subscriber, body: dict[str, Any]
) -> None:
    lane = await lane_of(nats, forward, subscriber=at(subscriber.place().uri, "billing"))
    status, answer = await lane.ask(**body)
    assert status == 400
    await nothing_tells(lane, forward, answer)
