"""What `reconcile` tells of the events that wait, on a real server, and how often it has to be told."""

from __future__ import annotations

from typing import Any

import nats.aio.client
import pytest

from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook

STREAM = "KN_SHOP__ORDERS"
BILLING, MAIL = "KN_SUB_AAAA1", "KN_SUB_BBBB2"
NOTHING = {"lag": 0, "pending": 0, "redelivered": 0, "parked": 0}


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


def parent(status: dict[str, Any] | None = None) -> dict[str, Any]:
    return channel(entry("aaaa-1"), entry("bbbb-2", "mail"), status=status)


def numbers(answer: dict[str, Any]) -> list[dict[str, int]]:
    return [{key: row[key] for key in NOTHING} for row in answer["status"]["consumers"]]


async def test_an_idle_channel_costs_nothing(hook: Hook) -> None:
    first = await hook.sync(parent())
    hook.later(86_400)

    later = await hook.sync(parent(first["status"]))

    assert numbers(first) == [NOTHING, NOTHING]
    assert later["status"] == first["status"]
    assert (first["resyncAfterSeconds"], later["resyncAfterSeconds"]) == (0, 0)


async def test_what_waits_is_counted_for_each_subscriber(hook: Hook, stranger: nats.aio.client.Client) -> None:
    first = await hook.sync(parent())
    jetstream = stranger.jetstream()
    for number in range(5):
        await jetstream.publish("shop.orders._knative", str(number).encode())
    for consumer, sequence in ((MAIL, 1), (MAIL, 2), (BILLING, 1)):
        await jetstream.publish(f"shop.orders._knative_aside.parked.{consumer}.{sequence}.1", b"")
    await jetstream.publish(f"shop.orders._knative_aside.stage.{MAIL}.1", b"{}")
    pulled = await jetstream.pull_subscribe_bind(BILLING, STREAM)
    settled, again, _ = await pulled.fetch(3, timeout=10)
    await settled.ack_sync()
    await again.nak()
    taken = 0
    while taken < 3:
        taken += len(await pulled.fetch(3 - taken, timeout=10))

    hook.later(10)
    soon = await hook.sync(parent(first["status"]))
    assert soon["status"] == first["status"]
    assert soon["resyncAfterSeconds"] == 20.1

    hook.later(20)
    told = await hook.sync(parent(soon["status"]))
    assert numbers(told) == [
        {"lag": 4, "pending": 0, "redelivered": 1, "parked": 1},
        {"lag": 5, "pending": 5, "redelivered": 0, "parked": 2},
    ]
    assert told["status"]["countedAt"] == "2026-01-31T12:00:30Z"
    assert told["resyncAfterSeconds"] == 30.1
