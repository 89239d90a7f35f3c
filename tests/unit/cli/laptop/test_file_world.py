"""Channels of files under the operator's passes: what goes wrong with one is its own failure, and is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.channel.lease_places import LeasePlaces
from headrace.core.errors import InvalidSpec, Refused, Unavailable
from headrace_cli.laptop.file_world import FileWorld
from headrace_cli.laptop.readiness import AllReady
from headrace_operator.channels import work_queue
from headrace_operator.channels.channel_work import ChannelWork
from headrace_operator.channels.one_channel import OneChannel
from headrace_operator.kube.kinds import CHANNEL
from headrace_operator.scaling import channel_scaler
from headrace_operator.scaling.channel_scaler import ChannelScaler
from tests.support.waiting import until


class Reconcile:
    """Answers for every channel, unless it is told to fail for one, or to wait."""

    def __init__(self) -> None:
        self.fails: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.requests: list[HookRequest] = []
        self.called = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()

    async def __call__(self, request: HookRequest, _related: bytes) -> HookResponse:
        name = request.parent["metadata"]["name"]
        self.calls.append(name)
        self.requests.append(request)
        self.called.set()
        await self.go.wait()
        if name in self.fails:
            raise self.fails[name]
        if request.finalizing:
            return HookResponse(finalized=True)
        ready = {"type": "Ready", "status": "True"}
        generation = request.parent["metadata"]["generation"]
        status = {"observedGeneration": generation, "conditions": [ready]}
        return HookResponse(status, lease_places=LeasePlaces(name.upper()))


@dataclass
class Served:
    """What `headrace up` has of its channels."""

    world: FileWorld
    work: ChannelWork
    readiness: AllReady
    scaler: Any

    def apply(self, *names: str, generation: int = 1) -> None:
        """These are in the files now."""
        self.world.apply({("default", name): channel(name, generation) for name in names})

    async def settled(self, seconds: float) -> bool:
        await self.readiness.settled(seconds)
        return not self.readiness.late


def channel(name: str, generation: int = 1) -> Mapping[str, Any]:
    metadata = {"namespace": "default", "name": name, "uid": name, "generation": generation}
    return {"apiVersion": CHANNEL.api_version, "kind": CHANNEL.kind, "metadata": metadata, "spec": {}}


@pytest.fixture
def reconcile() -> Reconcile:
    return Reconcile()


@pytest.fixture
async def served(reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    monkeypatch.setattr(work_queue, "LONGEST_PAUSE", 0.01)
    woken = ChannelScaler(SimpleNamespace(), SimpleNamespace(), max_in_flight=1)  # type: ignore[arg-type]  # reach nobody
    scaler = woken.scaler
    woken.scaler = SimpleNamespace(  # type: ignore[assignment]  # what it is asked
        run=asyncio.Event().wait, serve=lambda _: None, look_soon=lambda _: None
    )
    world = FileWorld()
    work = ChannelWork(world, OneChannel(world, reconcile), woken, workers=4)
    readiness = AllReady(world.channels)
    work.on_end.append(readiness.note_end)
    working = asyncio.create_task(work.run())
    await asyncio.sleep(0)
    yield Served(world, work, readiness, scaler)
    working.cancel()
    await asyncio.wait([working])


async def test_troubles_of_a_channel_make_it_reconcile_once_and_not_for_each(
    served: Served, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_scaler, "LOOK_SECONDS", 0.05)
    served.apply("orders", "bills")
    assert await served.settled(2)
    for _ in range(20):
        for listener in served.scaler.on_trouble:
            listener("ORDERS")
    await until("it was reconciled again", lambda: len(reconcile.calls) >= 3)
    await asyncio.sleep(0.1)
    assert reconcile.calls == ["orders", "bills", "orders"]


FAILURES = [
    pytest.param(Unavailable("NATS is away"), "NATS is away", id="unavailable"),
    pytest.param(Refused("no", status=400), "no", id="refused"),
    pytest.param(InvalidSpec("it can't be written", field="parent"), "it can't be written", id="no JSON"),
    pytest.param(ValueError("Circular reference"), "ValueError: Circular reference", id="not foreseen"),
]


@pytest.mark.parametrize(("error", "told"), FAILURES)
async def test_a_sync_that_fails_is_told_of_and_tried_again_and_the_others_are_served(
    served: Served, reconcile: Reconcile, error: Exception, told: str
) -> None:
    reconcile.fails["bills"] = error
    served.apply("orders", "bills")
    assert not await served.settled(0.2)
    assert served.readiness.late == [f"default/bills ({told})"]

    del reconcile.fails["bills"]

    assert await served.settled(2)
    assert reconcile.calls.count("orders") == 1


@pytest.mark.parametrize(("error", "told"), FAILURES)
async def test_an_edit_is_synced_at_once_after_a_failure(
    served: Served, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    for pause in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(work_queue, pause, 60.0)
    reconcile.fails["orders"] = error
    served.apply("orders")
    assert not await served.settled(0.1)

    reconcile.fails.clear()
    served.apply("orders", generation=2)

    assert await served.settled(2)


@pytest.mark.parametrize(("error", "told"), FAILURES)
async def test_a_channel_that_can_not_be_taken_down_is_tried_again(
    served: Served, reconcile: Reconcile, error: Exception, told: str
) -> None:
    served.apply("orders", "bills")
    assert await served.settled(2)
    reconcile.fails["bills"] = error
    served.apply("orders")
    await calls(reconcile, "bills", 3)

    del reconcile.fails["bills"]
    # Once more for its end; no more after that.
    seen = reconcile.calls.count("bills")
    await calls(reconcile, "bills", seen + 1)
    await asyncio.sleep(0.1)

    assert reconcile.calls.count("bills") == seen + 1
    assert [each.name for each in served.readiness] == ["default/orders"]


async def calls(reconcile: Reconcile, name: str, count: int) -> None:
    async with asyncio.timeout(5):
        while reconcile.calls.count(name) < count:
            reconcile.called.clear()
            await reconcile.called.wait()


async def test_what_is_taken_out_of_the_files_is_not_waited_for(
    served: Served, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The retries of a channel that is going must not be what wakes the one who waits.
    for pause in ("FIRST_PAUSE", "LONGEST_PAUSE"):
        monkeypatch.setattr(work_queue, pause, 60.0)
    reconcile.fails["bills"] = InvalidSpec("spec is wrong", field="spec")
    served.apply("orders", "bills")
    assert not await served.settled(0.2)
    waiting = asyncio.create_task(served.settled(60))
    await asyncio.sleep(0)
    served.apply("orders")
    assert await asyncio.wait_for(waiting, 5)


async def test_a_channel_that_comes_back_while_it_is_taken_down_stays_and_is_made_again(
    served: Served, reconcile: Reconcile
) -> None:
    served.apply("orders")
    assert await served.settled(2)
    reconcile.go.clear()
    served.apply()
    await calls(reconcile, "orders", 2)

    served.apply("orders", generation=2)
    assert served.readiness.late
    reconcile.go.set()

    assert await served.settled(2)
    assert [request.finalizing for request in reconcile.requests] == [False, True, False]


async def test_files_that_say_what_they_said_before_ask_for_nothing_and_are_no_news(
    served: Served, reconcile: Reconcile
) -> None:
    served.apply("orders")
    assert await served.settled(2)
    news: list[bool] = []
    served.readiness.on_news.append(lambda: news.append(True))
    served.apply("orders")
    await asyncio.sleep(0.1)
    assert (reconcile.calls, news) == (["orders"], [])
