"""`headrace up` serving: real processes, a real nats-server, a real subscriber."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest

from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.laptop.laptop import Laptop, Run, channel, emit, subscription
from tests.support.nats.nats_server import NatsServer

pytest_plugins = ["tests.support.laptop.laptops"]

HOST = "orders-kn-jsm-channel.default.svc.cluster.local"


def forward_is_gone(laptop: Laptop) -> bool:
    forward = laptop.state["forward"]
    return bool(forward["starts"]) and not forward["running"] and forward["stops"] == forward["starts"]


async def test_events_go_from_zero_to_the_subscriber_and_forward_goes_back_to_zero(
    run: Run, subscriber: Subscriber
) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri), options=("--idle-seconds", "1"))

    assert laptop.wait_until_ready() == f"ready {laptop.url} {laptop.url}/default/orders"
    assert laptop.state["forward"]["starts"] == 0
    [by_path] = await emit(laptop, "by-path")
    [by_host] = await emit(laptop, "by-host", to="/", Host=HOST)
    await billing.wait(2)
    laptop.until(forward_is_gone, "forward is back at zero")

    assert (by_path.status, by_host.status) == (202, 202)
    assert sorted(billing.ids) == ["by-host", "by-path"]
    state = laptop.state
    assert state["forward"] | {"last_start_ms": 0} == {"running": False, "starts": 1, "stops": 1, "last_start_ms": 0}
    assert state["forward"]["last_start_ms"] > 0
    assert (state["leases"]["open"], state["leases"]["failures"]) == (0, 0)
    assert [line["event"] for line in laptop.events if "forward" in line["event"]] == [
        "forward started",
        "forward stopped",
    ]
    assert laptop.lines == [f"ready {laptop.url} {laptop.url}/default/orders"]


async def test_a_page_whose_name_leads_to_this_machine_sends_nothing(run: Run) -> None:
    laptop = run(channel())
    laptop.wait_until_ready()

    [named] = await emit(laptop, "1", Host=f"attacker.example:{laptop.port}")
    [paged] = await emit(laptop, "2", Origin="http://attacker.example")
    [local] = await emit(laptop, "3", Host=f"localhost:{laptop.port}")

    assert (named.status, paged.status, local.status) == (421, 403, 202)


async def test_a_page_whose_name_leads_to_this_machine_reaches_no_port_of_it(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri), options=("--metrics", "127.0.0.1:0"))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)

    ports = {
        one.laddr.port
        for process in laptop.family()
        if process.name() != "nats-server"
        for one in process.net_connections("tcp")
        if one.status == psutil.CONN_LISTEN
    }
    answers = {}
    for port in ports:
        for method, path in (("GET", "/metrics"), ("POST", "/"), ("POST", "/sync"), ("POST", "/default/orders")):
            named = {**BINARY, "host": f"attacker.example:{port}"}
            answers[port, path] = await send(f"http://127.0.0.1:{port}{path}", b"{}", named, method=method)
    # The page, and of each function the one for events and the one for metrics.
    assert len(ports) >= 5
    assert {one: answer.status for one, answer in answers.items() if answer.status < 400} == {}
    assert [answer for answer in answers.values() if b"headrace_" in answer.body] == []


async def test_a_reply_goes_to_the_channel_that_it_refers_to(run: Run, subscriber: Subscriber) -> None:
    answer = {"ce-specversion": "1.0", "ce-id": "r1", "ce-source": "/b", "ce-type": "billed"}
    billing = subscriber.place(Say(200, answer, b"done"))
    audit = subscriber.place()
    replying = subscription("billing", billing.uri).replace(
        "spec:", "spec:\n  reply: {ref: {kind: NatsJetStreamChannel, name: bills}}"
    )
    laptop = run(channel(), channel("bills"), replying, subscription("audit", audit.uri, of="bills"))
    laptop.wait_until_ready()

    await emit(laptop, "1")
    [reply] = await audit.wait(1)

    assert (reply.event["id"], reply.body) == ("r1", b"done")


async def test_a_failed_event_comes_again_when_it_is_due_and_then_goes_to_the_sink(
    run: Run, subscriber: Subscriber
) -> None:
    failing, sink = subscriber.place(Say(503)), subscriber.place()
    delivery = f'{{retry: 1, backoffDelay: PT4S, deadLetterSink: {{uri: "{sink.uri}"}}}}'
    patient = subscription("billing", failing.uri).replace("spec:", f"spec:\n  delivery: {delivery}")
    laptop = run(channel(), patient, options=("--idle-seconds", "0.5"))
    laptop.wait_until_ready()

    await emit(laptop, "1")
    first, second = await failing.wait(2)
    await sink.wait(1)

    # Longer than a lease lingers: forward has been at zero in between, and nobody has hinted.
    assert 3.9 <= second.at - first.at < 10
    assert laptop.state["leases"]["opened"] == 2


async def test_a_restart_with_the_same_data_loses_nothing(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place(Say(503))
    patient = subscription("billing", billing.uri).replace("spec:", "spec:\n  delivery: {retry: 9, backoffDelay: PT1S}")
    first = run(channel(), patient)
    first.wait_until_ready()
    assert [reply.status for reply in await emit(first, "1", "2", "3")] == [202, 202, 202]
    await billing.wait(1)
    assert first.stop() == 0
    refused = len(billing.received)

    billing.says(Say(202))
    run(channel(), patient).wait_until_ready()
    delivered = (await billing.wait(refused + 3))[refused:]

    assert sorted(request.event["id"] for request in delivered) == ["1", "2", "3"]


def test_a_channel_that_only_an_earlier_run_knew_is_told_of(run: Run) -> None:
    first = run(channel(), channel("bills"))
    first.wait_until_ready()
    assert first.stop() == 0

    second = run(channel())
    second.wait_until_ready()

    assert '"channel": "default/bills"' in second.log
    assert "it takes events, and nobody is delivered to" in second.log


async def test_an_edited_subscription_takes_effect_on_sighup(run: Run, subscriber: Subscriber) -> None:
    before, after = subscriber.place(), subscriber.place()
    laptop = run(channel(), subscription("billing", before.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await before.wait(1)
    generation = subscribers(laptop)[0]["observedGeneration"]

    laptop.reload(channel(), subscription("billing", after.uri))
    laptop.until(lambda it: subscribers(it)[0]["observedGeneration"] > generation, "the edit is reconciled")
    await emit(laptop, "2")
    await after.wait(1)

    assert (before.ids, after.ids) == (["1"], ["2"])


async def test_a_new_subscription_and_a_new_channel_are_served_after_sighup(run: Run, subscriber: Subscriber) -> None:
    one, two = subscriber.place(), subscriber.place()
    laptop = run(channel(), subscription("one", one.uri))
    laptop.wait_until_ready()

    laptop.reload(channel(), subscription("one", one.uri), channel("bills"), subscription("two", two.uri, of="bills"))
    laptop.until(lambda it: it.state["channels"].get("default/bills", {}).get("ready"), "the new channel is ready")
    [reply] = await emit(laptop, "1", to="/default/bills")
    await two.wait(1)

    assert (reply.status, one.ids, two.ids) == (202, [], ["1"])


async def test_a_channel_that_is_in_no_file_any_more_is_taken_down(run: Run) -> None:
    laptop = run(channel(), channel("bills"))
    laptop.wait_until_ready()

    laptop.reload(channel())
    laptop.until(lambda it: "channel is taken down" in it.log, "the channel is taken down")
    [gone], [there] = await emit(laptop, "1", to="/default/bills"), await emit(laptop, "2")

    assert (gone.status, there.status) == (404, 202)


async def test_a_broken_file_changes_nothing(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()

    laptop.reload(channel(), subscription("billing", "ftp://nowhere"))
    laptop.until(lambda it: "the files are wrong, nothing was changed" in it.log, "the mistake is told of")
    await emit(laptop, "1")
    await billing.wait(1)

    assert "document 2: spec.subscriber.uri 'ftp://nowhere'" in laptop.log


async def test_a_file_that_stands_for_no_json_changes_nothing(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()

    laptop.reload(channel().replace("{name: orders}", "{name: orders, labels: &a {x: *a}}"))
    laptop.until(lambda it: "the files are wrong, nothing was changed" in it.log, "the mistake is told of")
    await emit(laptop, "1")
    await billing.wait(1)

    assert "document 1: metadata.labels.x is an alias to something that it is in itself" in laptop.log


async def test_a_server_that_found_the_disk_full_is_started_again_when_there_is_room(
    run: Run, subscriber: Subscriber, tmp_path: Path
) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    before = laptop.child("nats-server")

    with (tmp_path / "data" / "nats-server.log").open("a") as log:
        log.write("[1] [ERR] JetStream failed to store a msg: write 1.blk: no space left on device\n")
    laptop.until(lambda it: '"why": "there is room on the disk again"' in it.log, "it is started again")
    await until_accepted(laptop, "1")
    await billing.wait(1)

    assert laptop.child("nats-server") != before
    assert "events are refused with 503: make room" in laptop.log
    assert "ended by itself" not in laptop.log


@pytest.mark.parametrize("victim", ["nats-server", "receive"])
async def test_what_is_always_on_is_started_again_when_it_dies(run: Run, subscriber: Subscriber, victim: str) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)

    os.kill(laptop.child(victim), signal.SIGKILL)
    await until_accepted(laptop, "2")
    await billing.wait(2)

    assert set(billing.ids) == {"1", "2"}
    assert f"{victim} ended by itself, starting it again" in laptop.log


async def test_an_event_comes_again_after_a_crash_of_forward(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place(Hold(Say(202)), Say(202))
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)

    os.kill(laptop.child("forward"), signal.SIGKILL)
    # The ack wait of 8 s, and a little for the start.
    await billing.wait(2)

    assert billing.ids == ["1", "1"]


async def test_a_stream_that_is_lost_is_made_again(run: Run, nats_server: NatsServer, subscriber: Subscriber) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri), options=("--nats", nats_server.url))
    laptop.wait_until_ready()
    nats_server.kill()
    for file in sorted(nats_server.data.rglob("*"), reverse=True):
        file.unlink() if file.is_file() else file.rmdir()
    nats_server.start()

    await until_accepted(laptop, "1", seconds=40)
    await billing.wait(1)

    assert billing.ids == ["1"]


def test_a_channel_that_is_not_ready_is_named_and_ready_comes_once_it_is(run: Run) -> None:
    impossible = channel("big").replace("\n---", "\nspec: {stream: {config: {replicas: 3}}}\n---")
    laptop = run(channel(), impossible)
    laptop.until(lambda it: it.lines, "something is said", seconds=40)

    [line] = laptop.lines
    assert line.startswith(f"partly ready {laptop.url} {laptop.url}/default/orders not ready: default/big (")
    assert "(StreamCreateRefused: NATS refused to create KN_DEFAULT__BIG: " in line
    assert line.endswith("non-clustered mode; write replicas: 1, or use --nats with a cluster)")
    assert [line["channels"] for line in laptop.events if line["event"] == "ready waits for channels"]

    laptop.reload(channel(), channel("big"))

    assert laptop.wait_until_ready() == f"ready {laptop.url} {laptop.url}/default/orders {laptop.url}/default/big"
    assert laptop.lines[:-1] == [line]


def subscribers(laptop: Laptop) -> Any:
    return laptop.state["channels"]["default/orders"]["status"]["subscribers"]


async def until_accepted(laptop: Laptop, id: str, seconds: float = 60.0) -> None:
    """Send one event again and again, as a producer does, until it is accepted."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(aiohttp.ClientError, OSError):
            [reply] = await emit(laptop, id)
            if reply.status == 202:
                return
        await asyncio.sleep(0.2)
    raise AssertionError(f"the event was not accepted within {seconds} s; the log ends:\n{laptop.log[-3000:]}")
