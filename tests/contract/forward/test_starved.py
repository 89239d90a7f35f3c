"""A `forward` that gets no processor time for longer than the ack wait: NATS hands its events out again."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from pathlib import Path

import pytest

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Lane, Nats
from tests.support.programs.scraping import scrape
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

# Longer than the ack wait of 8 s, and NATS' own timers run a little late.
STARVED_SECONDS = 10.0


async def starve(function: Function) -> None:
    os.kill(function.pid, signal.SIGSTOP)
    await asyncio.sleep(STARVED_SECONDS)
    os.kill(function.pid, signal.SIGCONT)


@pytest.mark.parametrize("reply", [False, True], ids=["on the short way", "on the long way"])
async def test_what_a_process_has_in_hand_it_does_not_deliver_a_second_time(
    nats: Nats, shared_server: NatsServer, tmp_path: Path, subscriber: Subscriber, reply: bool
) -> None:
    port = free_port()
    with Function("forward", shared_server.url, tmp_path, METRICS_PORT=str(port)) as forward:
        place = subscriber.place(Hold(Say(202)))
        lane = await nats.serve(forward, subscriber=place.uri, **({"reply": place.uri} if reply else {}))
        await lane.store("1", "2", "3")
        async with lane.leased(seconds=25, linger=3) as lease:
            await place.wait(3)
            await starve(forward)

            async def has_come_again() -> bool:
                return (await lane.info())["num_redelivered"] == 3

            await until("NATS has handed them out again", has_come_again)
            # Time for a second POST of any of them.
            await asyncio.sleep(1)
            place.release()
            answer = await lease
        told = await scrape(port)

    assert Counter(place.ids) == Counter(["1", "2", "3"])
    assert answer["delivered"] == 3
    assert (await lane.info())["num_ack_pending"] == 0
    assert told.value("headrace_forward_events_total", outcome="redelivered") == 0


async def test_what_another_process_has_in_hand_may_come_twice_and_is_counted(
    nats: Nats, shared_server: NatsServer, tmp_path: Path, subscriber: Subscriber
) -> None:
    port = free_port()
    with (
        Function("forward", shared_server.url, tmp_path) as starved,
        Function("forward", shared_server.url, tmp_path, METRICS_PORT=str(port)) as other,
    ):
        place = subscriber.place(Hold(Say(202)), Say(202))
        lane = await nats.serve(starved, subscriber=place.uri)
        await lane.store("1")
        async with lane.leased(seconds=25, linger=3) as lease:
            await place.wait(1)
            os.kill(starved.pid, signal.SIGSTOP)
            await Lane(nats, other, lane.channel, lane.consumer).lease(seconds=15, linger=10)
            os.kill(starved.pid, signal.SIGCONT)
            place.release()
            await lease
        told = await scrape(port)

    assert place.ids == ["1", "1"]
    assert told.value("headrace_forward_events_total", outcome="redelivered") == 1
