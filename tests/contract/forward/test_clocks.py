"""Due times that were written by another process's clock, which may be wrong."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Lane, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

AHEAD = 600.0
QUICKLY = {"retry": 3, "backoffDelay": "PT0.2S", "backoffPolicy": "linear"}


async def put_off(lane: Lane, **changes: Any) -> float:
    """The stage record of an event that failed once, as a process writes it whose clock is ahead; its wait."""
    await lane.store("1")
    answer = await lane.take_one()
    assert answer["retried"] == 1
    [record] = await lane.aside("stage")
    found = json.loads(record.data)
    wait: float = found["wait"]
    await lane.nats.store(record.subject, json.dumps({**found, "due": found["due"] + AHEAD, **changes}).encode())
    return wait


async def test_a_retry_waits_its_back_off_and_not_what_another_clock_is_ahead(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(503), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, policy=QUICKLY)
    assert await put_off(lane) == 0.2
    began = time.monotonic()

    async def is_delivered() -> bool:
        return (await lane.lease(linger=1))["delivered"] == 1

    await until("it is delivered", is_delivered, 20.0)

    assert time.monotonic() - began < 15
    assert place.ids == ["1", "1"]
    # From 0.2 s after the first look on it waits by the clock of who looked.
    assert place.received[1].at - began > 0.15
    told = [line for line in forward.log.splitlines() if "the clocks of this process and of another differ" in line]
    assert any(lane.channel.name in line for line in told)


async def test_a_retry_whose_clock_was_right_waits_as_long_as_it_is_to(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    """As it comes from a server that was restarted, which knows no delays any more."""
    place = subscriber.place(Say(503), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, policy={**QUICKLY, "backoffDelay": "PT0.1S"})
    await put_off(lane, due=time.time() + 1800, wait=3600.0)

    answer = await lane.lease(linger=1)

    assert answer["delivered"] == 0
    assert 1700 < answer["next_due_seconds"] <= 1800
    [record] = await lane.aside("stage")
    assert json.loads(record.data)["wait"] == 3600.0
    assert lane.channel.name not in "".join(line for line in forward.log.splitlines() if "clocks" in line)


async def test_a_record_of_an_earlier_version_is_believed_within_what_the_policy_allows(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(503), Say(202))
    lane = await nats.serve(forward, subscriber=place.uri, policy={**QUICKLY, "retryAfterMax": "PT1S"})
    await put_off(lane, wait=None)

    async def is_delivered() -> bool:
        return (await lane.lease(linger=2))["delivered"] == 1

    await until("it is delivered", is_delivered, 30.0)


@pytest.mark.parametrize("ahead", [AHEAD, 0.0])
async def test_doctor_tells_of_clocks_that_differ(
    nats: Nats, forward: Function, subscriber: Subscriber, shared_server: NatsServer, ahead: float
) -> None:
    later = {**QUICKLY, "backoffDelay": "PT1H"}
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say(503)).uri, policy=later)
    await put_off(lane, due=time.time() + 3600 + ahead)

    ran = await Cli(shared_server.url)("doctor", lane.channel.path[1:], "-o", "json")

    told = [item["what"] for item in ran.json["items"] if item["code"] == "clocks-differ"]
    assert [what[:32] for what in told] == (["a retry is due 9m later than its"] if ahead else [])
