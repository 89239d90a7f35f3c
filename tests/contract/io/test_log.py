"""A trouble in the log: it says who, what and why, and no more of it the longer it lasts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]

EVENTS = 300


def lines(function: Function, part: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in function.log.splitlines() if line.startswith("{")]
    return [line for line in found if line["part"] == part]


async def test_a_subscriber_that_fails_all_the_time_is_told_of_sparingly(
    shared_server: NatsServer, nats: Nats, subscriber: Subscriber, tmp_path: Path
) -> None:
    place = subscriber.place(Say(400))
    with Function("forward", shared_server.url, tmp_path) as forward:
        lane = await nats.serve(forward, subscriber=place.uri)
        for number in range(EVENTS):
            await lane.store(str(number))
        parked = 0
        while parked < EVENTS:
            parked += (await lane.lease(max_in_flight=100))["parked"]
        told = lines(forward, "forward")
    # Ten in every ten seconds, and one at the end of each lease.
    assert len(told) < EVENTS / 4
    assert told[0] == {
        "part": "forward",
        "level": "warning",
        "timestamp": told[0]["timestamp"],
        "event": "parked",
        "channel": f"{lane.channel.namespace}/{lane.channel.name}",
        "subscription": f"{lane.channel.namespace}/billing",
        "event_id": told[0]["event_id"],
        "stream_seq": told[0]["stream_seq"],
        "delivered": 1,
        "why": "no dead letter sink, and subscriber gave status 400 on attempt 1",
    }
    # Each is accounted for, by a line or by the number of those left out.
    assert sum("event_id" in line for line in told) + sum(line.get("left_out", 0) for line in told) == EVENTS


async def test_success_is_told_at_debug_level_only(
    shared_server: NatsServer, nats: Nats, subscriber: Subscriber, tmp_path: Path
) -> None:
    place = subscriber.place()
    with Function("forward", shared_server.url, tmp_path) as forward:
        lane = await nats.serve(forward, subscriber=place.uri)
        await lane.store("1", "2")
        await lane.lease()
        assert lines(forward, "forward") == []


async def test_nats_being_away_is_told_of_sparingly(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats").start()
    try:
        with Function("receive", server.url, tmp_path, RECEIVE_PUBLISH_TIMEOUT="PT0.2S") as receive:
            server.kill()
            replies = []
            for _ in range(5):
                sends = [send(f"{receive.url}/shop/orders", b"{}", {**BINARY, "ce-id": str(n)}) for n in range(30)]
                replies += await asyncio.gather(*sends)
            assert {reply.status for reply in replies} == {503}
            told = lines(receive, "receive") + lines(receive, "nats")
    finally:
        server.kill()
    # That the connection is lost, or can't be made, and ten refusals.
    assert 2 <= len(told) <= 14
    refused = [line for line in told if line["event"] == "refused"]
    assert {(line["status"], line["channel"], line["level"]) for line in refused} == {(503, "shop/orders", "warning")}


async def test_a_faulty_event_is_told_of_without_what_is_in_it(
    shared_server: NatsServer, orders: Channel, tmp_path: Path
) -> None:
    with Function("receive", shared_server.url, tmp_path) as receive:
        faulty = {**BINARY, "ce-time": "secret"}
        assert (await send(receive.url + orders.path, b"{}", faulty)).status == 400
        (line,) = lines(receive, "receive")
    assert "secret" not in json.dumps(line)
    assert (line["event"], line["level"], line["why"]) == ("refused", "info", "not a valid event: time")
