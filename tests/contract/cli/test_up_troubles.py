"""`headrace up` in trouble: its words about full windows and counts, and the end of a forward."""

from __future__ import annotations

import os
import signal

import aiohttp

from tests.support.http.subscriber import Hold, Say, Subscriber
from tests.support.laptop.laptop import Laptop, Run, channel, emit, subscription
from tests.support.programs.scraping import Scrape, read
from tests.support.waiting import until

pytest_plugins = ["tests.support.laptop.laptops"]


async def scrape(url: str) -> Scrape:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return read(await answer.text())


def told(laptop: Laptop, condition: str) -> list[str]:
    """What the log says of a condition, since it first did not hold."""
    said = [line["status"] for line in laptop.events if line.get("condition") == condition]
    return said[said.index("False") :] if "False" in said else []


async def test_what_goes_wrong_with_deliveries_is_told_and_so_is_its_end(run: Run, subscriber: Subscriber) -> None:
    failing = subscriber.place(Say(503), Say(202))
    patient = subscription("billing", failing.uri).replace("spec:", "spec:\n  delivery: {retry: 1, backoffDelay: PT5S}")
    narrow = channel().replace("---", "spec: {consumerConfigTemplate: {maxAckPending: 1}}\n---")
    laptop = run(narrow, patient, options=("--idle-seconds", "1"))
    laptop.wait_until_ready()

    await emit(laptop, "1", "2")
    laptop.until(lambda laptop: told(laptop, "AckWindowsOpen") == ["False"], "the window is full")
    laptop.until(lambda laptop: told(laptop, "AckWindowsOpen") == ["False", "True"], "it has room again", 60)

    assert failing.ids == ["1", "1", "2"]
    [line] = [line for line in laptop.events if line.get("reason") == "AckWindowFull"]
    assert (line["level"], line["channel"]) == ("warning", "default/orders")
    assert line["message"].startswith("default/billing has 1 of at most 1 event delivered and not settled; ")


async def test_metrics_are_served_where_they_are_asked_for(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place()
    laptop = run(channel(), subscription("billing", billing.uri), options=("--metrics", "127.0.0.1:0"))
    laptop.wait_until_ready()
    [url] = [line["url"] for line in laptop.events if line["event"] == "metrics are served"]
    await emit(laptop, "1", "2")
    await billing.wait(2)

    async def text() -> str:
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            return await answer.text()

    labels = '{channel="orders",namespace="default",outcome="delivered",subscription="billing"}'

    async def counted() -> bool:
        return f"headrace_events_total{labels} 2.0" in await text()

    await until("both are counted", counted)


async def test_one_page_has_what_the_functions_tell_each_family_once(run: Run, subscriber: Subscriber) -> None:
    billing = subscriber.place(Say(), Hold())
    laptop = run(channel(), subscription("billing", billing.uri), options=("--metrics", "127.0.0.1:0"))
    laptop.wait_until_ready()
    [url] = [line["url"] for line in laptop.events if line["event"] == "metrics are served"]
    await emit(laptop, "1", "2")
    await billing.wait(2)

    found = await scrape(url)
    billing.release()

    billed = {"kn_channel_name": "orders", "kn_subscription_name": "billing", "http_response_status_code": "202"}
    assert found.value("headrace_receive_stored_events_total", namespace="default", channel="orders") == 2
    assert found.value("kn_eventing_dispatch_duration_seconds_count", **billed) == 1
    assert found.value("headrace_forward_in_flight_events") == 1
    assert found.value("headrace_consumer_ack_pending_events", subscription="billing") >= 0
    for each in ("receive", "forward", "reconcile"):
        assert found.value("headrace_workers", function=each) == 1
        assert found.value("process_resident_memory_bytes", function=each) > 0
    described = [line.split()[1:3] for line in found.text.splitlines() if line.startswith("#")]
    assert len(described) == len({tuple(each) for each in described})
    series = [(one.name, *sorted(one.labels.items())) for one in found.samples]
    assert len(series) == len(set(series))


async def test_a_forward_that_somebody_else_ends_is_followed_by_another_at_once(
    run: Run, subscriber: Subscriber
) -> None:
    billing = subscriber.place(Hold(), Say(202))
    laptop = run(channel(), subscription("billing", billing.uri))
    laptop.wait_until_ready()
    await emit(laptop, "1")
    await billing.wait(1)
    os.kill(laptop.child("forward"), signal.SIGTERM)
    laptop.until(lambda laptop: "forward was told to end by somebody else" in laptop.log, "it has said so")
    await emit(laptop, "2")
    await billing.wait(2)
    billing.release()
    laptop.until(lambda laptop: laptop.state["forward"]["stops"] == 1, "the first one has ended")
    assert sorted(billing.ids) == ["1", "2"]
