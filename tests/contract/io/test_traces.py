"""One trace from the producer through the stream to the subscriber, its reply, and the dead letter sink.

Real processes, a real nats-server, and a collector that takes OTLP over real HTTP.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured
from headrace.io import tracing
from tests.support.functions.functions import Function
from tests.support.http.collector import Collector
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Channel, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

PRODUCER = "b7ad6b7169203331"
REPLY = {"ce-specversion": "1.0", "ce-id": "r", "ce-source": "/billing", "ce-type": "order.billed"}


def begun() -> tuple[str, str]:
    """A trace of the test's own, and the traceparent of a producer that samples it."""
    trace = secrets.token_hex(16)
    return trace, f"00-{trace}-{PRODUCER}-01"


@dataclass(frozen=True)
class Traced:
    collector: Collector
    receive: Function
    forward: Function


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        yield collector


@pytest.fixture(scope="module")
def traced(shared_server: NatsServer, collector: Collector, served_directory: Path) -> Iterator[Traced]:
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with (
        Function("receive", shared_server.url, served_directory, **wanted) as receive,
        Function("forward", shared_server.url, served_directory, **wanted) as forward,
    ):
        yield Traced(collector, receive, forward)


async def test_one_trace_leads_from_the_producer_to_the_subscriber_and_its_reply(
    traced: Traced, nats: Nats, subscriber: Subscriber
) -> None:
    place, replies = subscriber.place(Say(200, REPLY, b"{}")), subscriber.place()
    lane = await nats.serve(traced.forward, subscriber=place.uri, reply=replies.uri)
    trace, sampled = begun()
    headers = {**BINARY, "traceparent": sampled, "tracestate": "vendor=1"}
    assert (await send(traced.receive.url + lane.channel.path, b"{}", headers)).status == 202
    await lane.take_one()
    spans = await traced.collector.wait(trace, "receive", "publish", "deliver", "reply")
    assert len(traced.collector.of(trace)) == 4
    chain = [spans[name] for name in ("receive", "publish", "deliver", "reply")]
    assert [span.parent for span in chain] == [PRODUCER, *(span.id for span in chain[:-1])]
    assert [span.kind for span in chain] == ["SERVER", "PRODUCER", "CLIENT", "CLIENT"]
    assert [span.service for span in chain] == ["headrace-receive"] * 2 + ["headrace-forward"] * 2
    assert not any(span.failed for span in chain)
    (delivered,) = place.received
    assert (delivered.header("traceparent"), delivered.header("tracestate")) == (spans["deliver"].header, "vendor=1")
    assert replies.received[0].header("traceparent") == spans["reply"].header
    # The event itself is as it was sent.
    assert delivered.event == {name.removeprefix("ce-"): value for name, value in BINARY.items() if "ce-" in name}
    assert spans["deliver"].attributes["kn.channel.name"] == lane.channel.name
    assert spans["deliver"].attributes["http.response.status_code"] == 200
    assert spans["receive"].attributes["cloudevents.event_type"] == "order.created"
    assert traced.collector.asked == {"/v1/traces"}


async def test_a_reply_goes_on_from_the_span_that_its_author_tells_of(
    traced: Traced, nats: Nats, subscriber: Subscriber
) -> None:
    trace, sampled = begun()
    theirs = f"00-{trace}-00000000000000aa-01"
    place, replies = subscriber.place(Say(200, {**REPLY, "traceparent": theirs}, b"{}")), subscriber.place()
    lane = await nats.serve(traced.forward, subscriber=place.uri, reply=replies.uri)
    await send(traced.receive.url + lane.channel.path, b"{}", {**BINARY, "traceparent": sampled})
    await lane.take_one()
    assert (await traced.collector.wait(trace, "reply"))["reply"].parent == "00000000000000aa"


async def test_a_failure_and_its_dead_letter_are_seen(traced: Traced, nats: Nats, subscriber: Subscriber) -> None:
    place, sink = subscriber.place(Say(400)), subscriber.place()
    lane = await nats.serve(traced.forward, subscriber=place.uri, dead_letter=sink.uri)
    # Nobody has begun a trace: receive does.
    await send(traced.receive.url + lane.channel.path, b"{}", BINARY)
    await lane.take_one()
    trace = (place.received[0].header("traceparent") or "")[3:35]
    spans = await traced.collector.wait(trace, "receive", "publish", "deliver", "dead letter")
    assert spans["receive"].parent == ""
    assert spans["deliver"].parent == spans["dead letter"].parent == spans["publish"].id
    assert (spans["deliver"].failed, spans["dead letter"].failed) == (True, False)
    assert spans["deliver"].attributes["error.type"] == "400"


async def test_a_retry_is_another_span_of_the_same_trace(traced: Traced, nats: Nats, subscriber: Subscriber) -> None:
    place = subscriber.place(Say(503), Say(202))
    lane = await nats.serve(traced.forward, subscriber=place.uri, policy={"retry": 1, "backoffDelay": "PT0.1S"})
    trace, sampled = begun()
    await send(traced.receive.url + lane.channel.path, b"{}", {**BINARY, "traceparent": sampled})
    assert (await lane.lease(linger=1))["delivered"] == 1

    def both_have_come() -> bool:
        return [span.name for span in traced.collector.of(trace)].count("deliver") == 2

    await until("both attempts have a span", both_have_come)
    told = {span.header for span in traced.collector.of(trace) if span.name == "deliver"}
    assert {request.header("traceparent") for request in place.received} == told


async def test_what_the_producer_does_not_sample_nobody_does(
    traced: Traced, nats: Nats, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(traced.forward, subscriber=place.uri)
    (hidden, _), (trace, sampled) = begun(), begun()
    # The second takes the short way, as every event does once there is a connection.
    for id, parent in (("1", f"00-{hidden}-{PRODUCER}-00"), ("3", f"00-{hidden}-{PRODUCER}-00"), ("2", sampled)):
        headers = {**BINARY, "ce-id": id, "traceparent": parent}
        assert (await send(traced.receive.url + lane.channel.path, b"{}", headers)).status == 202
    assert (await lane.lease(linger=0.5))["delivered"] == 3
    found = {request.event["id"]: request.header("traceparent") or "" for request in place.received}
    assert found["1"] == f"00-{hidden}-{PRODUCER}-00"
    # Those of the second have come, so those of the first would have.
    await traced.collector.wait(trace, "receive", "publish", "deliver")
    assert traced.collector.of(hidden) == []


async def test_an_event_that_is_refused_leaves_a_span(traced: Traced) -> None:
    trace, sampled = begun()
    assert (await send(f"{traced.receive.url}/nobody/here", b"{}", {**BINARY, "traceparent": sampled})).status == 404
    span = (await traced.collector.wait(trace, "receive"))["receive"]
    # The sender has failed, the server has not.
    assert (span.attributes["http.response.status_code"], span.failed) == (404, False)


async def test_what_is_not_exported_yet_is_at_the_end(
    shared_server: NatsServer, collector: Collector, orders: Channel, tmp_path: Path
) -> None:
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "60000"}
    with Function("receive", shared_server.url, tmp_path, **wanted) as receive:
        trace, sampled = begun()
        assert (await send(receive.url + orders.path, b"{}", {**BINARY, "traceparent": sampled})).status == 202
        receive.terminate()
        assert receive.wait() == 0
    assert {span.name for span in collector.of(trace)} == {"receive", "publish"}


async def test_a_collector_that_is_away_holds_nothing_up(
    shared_server: NatsServer, orders: Channel, tmp_path: Path
) -> None:
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{free_port()}", "OTEL_BSP_SCHEDULE_DELAY": "50"}
    with Function("receive", shared_server.url, tmp_path, **wanted) as receive:
        for number in range(20):
            headers = {**BINARY, "ce-id": str(number)}
            assert (await send(receive.url + orders.path, b"{}", headers)).status == 202
        receive.terminate()
        assert receive.wait() == 0
        assert len(receive.log.splitlines()) < 30


async def test_a_variable_that_the_sdk_refuses_costs_the_spans_and_no_event(
    shared_server: NatsServer, collector: Collector, orders: Channel, tmp_path: Path
) -> None:
    # Fewer than go out at once by default.
    wanted = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_MAX_QUEUE_SIZE": "100"}
    with Function("receive", shared_server.url, tmp_path, **wanted) as receive:
        assert (await send(receive.url + orders.path, b"{}", BINARY)).status == 202
        assert "no spans are made: check the OTEL_ variables" in receive.log


async def test_without_tracing_the_context_of_the_producer_travels_as_it_is(
    receive: Function, forward: Function, nats: Nats, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    lane = await nats.serve(forward, subscriber=place.uri)
    _, sampled = begun()
    headers = {**BINARY, "traceparent": sampled, "tracestate": "vendor=1"}
    await send(receive.url + lane.channel.path, b"{}", headers)
    await lane.take_one()
    (delivered,) = place.received
    assert (delivered.header("traceparent"), delivered.header("tracestate")) == (sampled, "vendor=1")


def test_without_the_package_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4318")
    monkeypatch.setattr(tracing, "find_spec", lambda _: None)
    with pytest.raises(Misconfigured, match="install the extra `tracing`, or unset it"):
        tracing.configured("receive")
