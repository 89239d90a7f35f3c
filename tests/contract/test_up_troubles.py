"""`headrace up` in trouble: what it tells of full windows and counts, and what becomes of a forward that is ended."""

from __future__ import annotations

import os
import signal

import aiohttp

from tests.support.laptop import Laptop, Run, channel, emit, subscription
from tests.support.subscriber import Hold, Say, Subscriber
from tests.support.waiting import until

pytest_plugins = ["tests.support.laptops"]


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
