"""A subscriber that takes an event on a connection kept from the one before, and hangs up in place of an answer."""

from __future__ import annotations

import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import HangUp, Say, Subscriber
from tests.support.nats.streams import Nats

pytest_plugins = ["tests.support.functions.served"]

PATIENT = {"backoffPolicy": "linear", "backoffDelay": "PT0.3S"}


@pytest.mark.parametrize("retry", [0, 1])
async def test_the_event_comes_again_once_after_its_back_off_although_there_is_no_retry(
    nats: Nats, forward: Function, subscriber: Subscriber, retry: int
) -> None:
    place, sink = subscriber.place(Say(202), HangUp(), Say(202)), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy={"retry": retry, **PATIENT})
    await lane.store("1")
    await lane.store("2")
    answer = await lane.lease(linger=1, max_in_flight=1)
    assert (answer["delivered"], answer["retried"], answer["dead_lettered"]) == (2, 1, 0)
    assert place.ids == ["1", "2", "2"]
    assert place.received[2].at - place.received[1].at >= 0.3
    assert sink.received == []


async def test_who_hangs_up_again_has_had_the_event_twice_and_the_sink_gets_it(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place, sink = subscriber.place(Say(202), HangUp(), HangUp(), Say(202)), subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri, dead_letter=sink.uri, policy=PATIENT)
    await lane.store("1")
    await lane.store("2")
    answer = await lane.lease(linger=1, max_in_flight=1)
    assert (answer["delivered"], answer["retried"], answer["dead_lettered"]) == (1, 1, 1)
    assert place.ids == ["1", "2", "2"]
    assert sink.ids == ["2"]
