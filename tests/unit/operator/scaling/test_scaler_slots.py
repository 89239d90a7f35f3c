"""A lease that is given up in the very moment in which it was opened does not count as open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.subscriber import Subscriber
from headrace_operator.scaling.lease_client import Meanwhile
from headrace_operator.scaling.scaler import Scaler
from tests.support.nats.streams import METADATA_KEY, Channel, metadata
from tests.support.waiting import until

ORDERS = Channel("shop", "orders")


class OneStream:
    """The API of a server with one consumer, whose next look is as the test says."""

    def __init__(self) -> None:
        self.subscriber = "http://old.example"
        self.at_a_look: Callable[[], None] = lambda: None

    async def consumers(self, _stream: str) -> AsyncIterator[dict[str, Any]]:
        self.at_a_look()
        said = metadata(ORDERS, subscriber=self.subscriber, maxScale=1)
        yield {"name": "KN_SUB_1", "config": {"metadata": {METADATA_KEY: json.dumps(said)}}}

    async def find(self, _subject: str) -> None:
        return None


class OneConnection:
    """A client that hands on hints."""

    def __init__(self) -> None:
        self.on_disconnect: list[Callable[[], None]] = []
        self.hint: Callable[[], None] = lambda: None

    async def subscribe(self, _subject: str, heard: Callable[[Any], None]) -> SimpleNamespace:
        self.hint = lambda: heard(SimpleNamespace(subject=f"headrace.wake.{ORDERS.stream}", data=b""))

        async def close() -> None: ...

        return SimpleNamespace(close=close)

    async def ready(self, _seconds: float) -> None: ...


async def test_a_lease_that_is_given_up_before_it_was_asked_for_leaves_its_place_to_another() -> None:
    api, connection, asked = OneStream(), OneConnection(), list[Lease]()

    async def open_lease(_: Subscriber, lease: Lease, _meanwhile: Meanwhile) -> LeaseAnswer:
        asked.append(lease)
        await asyncio.sleep(3600)
        raise AssertionError("the test is over by then")

    scaler = Scaler(connection, api, open_lease, sweep_seconds=3600.0)  # type: ignore[arg-type]  # what they are asked
    scaler.serve([ORDERS.stream])
    running = asyncio.create_task(scaler.run())
    await until("its consumer is known", lambda: len(scaler.rows()) == 1)

    def changes() -> None:
        # The hint opens a lease, and the same look finds that the Subscription has changed.
        connection.hint()
        assert scaler.stats()["open"] == 1
        api.subscriber, api.at_a_look = "http://new.example", lambda: None

    api.at_a_look = changes
    await scaler.refresh(ORDERS.stream)
    await until("a lease was asked for", lambda: len(asked) == 1)
    assert scaler.stats()["open"] == 1
    running.cancel()
    await asyncio.wait([running])
    assert scaler.stats()["open"] == 0
