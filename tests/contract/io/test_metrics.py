"""What each function tells Prometheus, from real processes: nothing is counted twice, and nothing is forgotten."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.functions.channels import channel
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Cut, HangUp, Hold, Say, Subscriber
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Channel, Nats
from tests.support.programs.process import DidNotStart
from tests.support.programs.scraping import Scrape, scrape
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]


@dataclass(frozen=True)
class Told:
    """A function, and the port on which it tells of itself."""

    function: Function
    port: int

    async def scrape(self) -> Scrape:
        return await scrape(self.port)


def told(target: str, server: NatsServer, directory: Path, **settings: str) -> Iterator[Told]:
    port = free_port()
    with Function(target, server.url, directory, METRICS_PORT=str(port), **settings) as function:
        yield Told(function, port)


@pytest.fixture
def receiving(shared_server: NatsServer, tmp_path: Path) -> Iterator[Told]:
    yield from told("receive", shared_server, tmp_path)


@pytest.fixture
def forwarding(shared_server: NatsServer, tmp_path: Path) -> Iterator[Told]:
    yield from told("forward", shared_server, tmp_path)


@pytest.fixture
def reconciling(shared_server: NatsServer, tmp_path: Path) -> Iterator[Told]:
    yield from told("reconcile", shared_server, tmp_path)


async def emit(receive: Function, to: Channel, count: int, first: int = 0, **headers: str) -> None:
    """Events with different ids, each on a connection of its own, as from many producers."""
    ids = [{**BINARY, "ce-id": str(number), **headers} for number in range(first, first + count)]
    replies = await asyncio.gather(*(send(receive.url + to.path, b"{}", each) for each in ids))
    assert [reply.status for reply in replies] == [202] * count


async def test_events_are_counted_by_channel_and_requests_by_answer(receiving: Told, orders: Channel) -> None:
    await emit(receiving.function, orders, 40)
    await emit(receiving.function, orders, 3)
    # Structured, and with a name that needs decoding: by way of ASGI.
    await emit(receiving.function, orders, 2, 40, **{"ce-note": "gr%C3%BC"})
    for path, status in (("/nobody/here", 404), ("/Not-A-Name/x", 400)):
        assert (await send(receiving.function.url + path, b"{}", BINARY)).status == status
    of = {"namespace": orders.namespace, "channel": orders.name}

    async def all_is_told() -> bool:
        return (await receiving.scrape()).value("headrace_receive_stored_events_total", **of) == 45

    await until("all is told", all_is_told)
    found = await receiving.scrape()
    assert found.value("headrace_receive_stored_events_total", **of) == 45
    assert found.value("headrace_receive_duplicate_events_total", **of) == 3
    assert found.value("headrace_requests_total", function="receive", code="202") == 45
    assert found.value("headrace_receive_store_duration_seconds_count") == 45
    assert found.value("headrace_receive_waiting_bytes") == 0
    assert found.value("headrace_workers") == 1
    assert found.value("headrace_nats_connected") == 1

    async def refusals_are_told() -> bool:
        found = await receiving.scrape()
        return all(found.has("headrace_requests_total", code=code) for code in ("400", "404"))

    await until("the refusals are told", refusals_are_told)
    assert (
        0
        < found.value("headrace_start_seconds", until="serving")
        < found.value("headrace_start_seconds", until="answer")
    )


async def test_a_refusal_of_the_server_itself_is_counted(receiving: Told) -> None:
    reply = await send(receiving.function.url + "/" + "x" * 10_000, b"{}", BINARY)
    assert reply.status == 414

    async def is_told() -> bool:
        return (await receiving.scrape()).has("headrace_requests_total", function="receive", code="414")

    await until("it is told", is_told)


async def test_the_metrics_port_takes_no_events_and_the_other_tells_nothing(receiving: Told, orders: Channel) -> None:
    assert (await send(f"http://127.0.0.1:{receiving.port}{orders.path}", b"{}", BINARY)).status == 404
    assert (await send(f"{receiving.function.url}/metrics", method="GET")).status == 405


@pytest.mark.parametrize(
    ("host", "answered"),
    [("attacker.example", 421), ("localhost.", 421), ("localhost", 200), ("127.0.0.1:1", 200), ("[::1]", 200)],
)
async def test_a_page_whose_name_leads_to_this_machine_reads_no_metrics(
    receiving: Told, host: str, answered: int
) -> None:
    reply = await send(f"http://127.0.0.1:{receiving.port}/metrics", headers={"host": host}, method="GET")
    assert (reply.status, b"headrace_" in reply.body) == (answered, answered == 200)


async def test_posts_are_told_as_knative_tells_of_them(forwarding: Told, nats: Nats, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(202), Say(200), Say(503), Cut(), Say(400))
    sink = subscriber.place(Say(202))
    lane = await nats.serve(forwarding.function, subscriber=place.uri, dead_letter=sink.uri)
    for number in range(5):
        await lane.store(str(number))
    await lane.lease(linger=0.5, max_in_flight=1)
    found = await forwarding.scrape()
    knative = {
        "kn_channel_namespace": lane.channel.namespace,
        "kn_channel_name": lane.channel.name,
        "messaging_system": "knative",
    }
    # No whole answer is the 500 of Knative's own.
    for code, count in (("202", 1), ("200", 1), ("503", 1), ("400", 1), ("500", 1)):
        of = {**knative, "http_response_status_code": code}
        assert found.value("kn_eventing_dispatch_duration_seconds_count", **of) == count, code
    assert found.value("headrace_forward_no_answers_total") == 1
    assert found.value("headrace_forward_onward_duration_seconds_count", stage="dead_letter", code="202") == 3
    assert found.value("headrace_forward_events_total", outcome="delivered") == 2
    assert found.value("headrace_forward_events_total", outcome="dead_lettered") == 3
    assert found.value("headrace_forward_lease_duration_seconds_count") == 1
    assert found.value("headrace_requests_total", function="forward", code="200") == 1


async def test_an_open_lease_is_told_of_while_it_is_served(
    forwarding: Told, nats: Nats, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202), Hold())
    lane = await nats.serve(forwarding.function, subscriber=place.uri)

    async def one_is_told_of() -> bool:
        found = await forwarding.scrape()
        name, outcome = "headrace_forward_events_total", "delivered"
        return found.has(name, outcome=outcome) and found.value(name, outcome=outcome) == 1

    async with lane.leased(linger=1) as lease:
        await lane.store("1", "2")
        await place.wait(2)
        await until("one is told of", one_is_told_of)
        found = await forwarding.scrape()
        assert found.value("headrace_forward_leases_open") == 1
        assert found.value("headrace_forward_in_flight_events") == 1
        assert found.value("headrace_forward_in_flight_bytes") > 0
        place.release()
        await lease
    found = await forwarding.scrape()
    assert found.value("headrace_forward_events_total", outcome="delivered") == 2
    assert found.value("headrace_forward_leases_open") == 0
    assert found.value("headrace_forward_in_flight_events") == 0


async def test_hooks_are_timed_by_verb_and_answer(reconciling: Told) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    parent = channel(name="told", namespace="metrics", uid="uid-told")
    call = json.dumps({"controller": {}, "parent": parent, "children": {}, "related": {}, "finalizing": False}).encode()
    assert (await send(f"{reconciling.function.url}/sync", call, headers)).status == 200
    assert (await send(f"{reconciling.function.url}/sync", b"{}", headers)).status == 400
    assert (await send(f"{reconciling.function.url}/sync", call)).status == 401
    found = await reconciling.scrape()
    for code in ("200", "400", "401"):
        assert found.value("headrace_reconcile_duration_seconds_count", verb="sync", code=code) == 1
    assert found.value("headrace_requests_total", function="reconcile", code=code) == 1


async def test_posts_that_met_the_end_of_a_kept_connection_are_told(
    forwarding: Told, nats: Nats, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(202), HangUp(), Say(202))
    lane = await nats.serve(forwarding.function, subscriber=place.uri)
    await lane.store("1")
    await lane.store("2")
    await lane.lease(linger=1, max_in_flight=1)
    assert place.ids == ["1", "2", "2"]
    found = await forwarding.scrape()
    assert found.value("headrace_forward_stale_connections_total", channel=lane.channel.name) == 1
    assert found.value("headrace_forward_no_answers_total", channel=lane.channel.name) == 1


async def test_a_lost_connection_is_told(tmp_path: Path) -> None:
    server = NatsServer(tmp_path / "nats").start()
    try:
        port = free_port()
        with Function("receive", server.url, tmp_path, METRICS_PORT=str(port)):
            found = await scrape(port)
            assert found.value("headrace_nats_connected", function="receive") == 1
            assert found.value("headrace_nats_disconnects_total", function="receive") == 0
            server.kill()

            async def is_told() -> bool:
                return (await scrape(port)).value("headrace_nats_connected", function="receive") == 0

            await until("the loss is told", is_told)
            assert (await scrape(port)).value("headrace_nats_disconnects_total", function="receive") == 1
    finally:
        server.kill()


def test_a_metrics_port_that_is_taken_is_named(shared_server: NatsServer, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(DidNotStart, match=r"METRICS_PORT: can't listen on 127.0.0.1"):
            Function("receive", shared_server.url, tmp_path, METRICS_PORT=port).start()


def test_the_port_of_events_is_none_for_metrics(shared_server: NatsServer, tmp_path: Path) -> None:
    port = str(free_port())
    with pytest.raises(DidNotStart, match=rf"METRICS_PORT is {port}, as PORT is: give another one"):
        Function("receive", shared_server.url, tmp_path, PORT=port, METRICS_PORT=port).start()
