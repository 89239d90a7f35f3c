"""Channels of `headrace up`: what goes wrong with one is its own failure, and is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from headrace.core.channel.hook import HookResponse
from headrace.core.errors import InvalidSpec, Refused, Unavailable
from headrace_cli.laptop import channels
from headrace_cli.laptop.channels import Channels
from headrace_cli.manifests.manifests import Manifests
from tests.support.waiting import until


class Reconcile:
    """Answers for every channel, unless it is told to fail for one."""

    def __init__(self) -> None:
        self.fails: dict[str, Exception] = {}
        self.calls: list[str] = []
        self.called = asyncio.Event()

    async def sync(self, parent: Mapping[str, Any]) -> HookResponse:
        name = parent["metadata"]["name"]
        self.calls.append(name)
        self.called.set()
        if name in self.fails:
            raise self.fails[name]
        ready = {"type": "Ready", "status": "True"}
        generation = parent["metadata"]["generation"]
        return HookResponse({"observedGeneration": generation, "conditions": [ready], "stream": name.upper()})

    async def finalize(self, parent: Mapping[str, Any]) -> HookResponse:
        await self.sync(parent)
        return HookResponse(finalized=True)


@pytest.fixture
def reconcile() -> Reconcile:
    return Reconcile()


@pytest.fixture
async def served(reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Channels]:
    for pause in ("FIRST_RETRY", "LONGEST_RETRY", "REFUSED_RETRY"):
        monkeypatch.setattr(channels, pause, 0.01)
    served = Channels(reconcile.sync, reconcile.finalize)
    yield served
    await served.close()


def manifests(*names: str, generation: int = 1) -> Manifests:
    parents = {("default", name): {"metadata": {"name": name, "generation": generation}, "spec": {}} for name in names}
    return Manifests(parents)


async def test_troubles_of_a_channel_make_it_reconcile_once_and_not_for_each(
    served: Channels, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "LOOK_SECONDS", 0.05)
    served.apply(manifests("orders", "bills"))
    assert await served.settled(2)
    for _ in range(20):
        served.look_again("ORDERS")
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
    served: Channels, reconcile: Reconcile, error: Exception, told: str
) -> None:
    reconcile.fails["bills"] = error
    served.apply(manifests("orders", "bills"))
    assert not await served.settled(0.2)
    assert served.late == [f"default/bills ({told})"]

    del reconcile.fails["bills"]

    assert await served.settled(2)
    assert reconcile.calls.count("orders") == 1


@pytest.mark.parametrize(("error", "told"), FAILURES)
async def test_an_edit_is_synced_at_once_after_a_failure(
    served: Channels, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    if not isinstance(error, Unavailable):
        monkeypatch.setattr(channels, "REFUSED_RETRY", 60.0)
    reconcile.fails["orders"] = error
    served.apply(manifests("orders"))
    assert not await served.settled(0.1)

    reconcile.fails.clear()
    served.apply(manifests("orders", generation=2))

    assert await served.settled(2)


@pytest.mark.parametrize(("error", "told"), FAILURES)
async def test_a_channel_that_can_not_be_taken_down_is_tried_again(
    served: Channels, reconcile: Reconcile, error: Exception, told: str
) -> None:
    served.apply(manifests("orders", "bills"))
    assert await served.settled(2)
    reconcile.fails["bills"] = error
    served.apply(manifests("orders"))
    await calls(reconcile, "bills", 3)

    del reconcile.fails["bills"]
    # Once more for its end; no more after that.
    seen = reconcile.calls.count("bills")
    await calls(reconcile, "bills", seen + 1)
    await asyncio.sleep(0.1)

    assert reconcile.calls.count("bills") == seen + 1


async def calls(reconcile: Reconcile, name: str, count: int) -> None:
    async with asyncio.timeout(5):
        while reconcile.calls.count(name) < count:
            reconcile.called.clear()
            await reconcile.called.wait()


async def test_what_is_taken_out_of_the_files_is_not_waited_for(
    served: Channels, reconcile: Reconcile, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The retries of a channel that is going must not be what wakes the one who waits.
    monkeypatch.setattr(channels, "REFUSED_RETRY", 60)
    reconcile.fails["bills"] = InvalidSpec("spec is wrong", field="spec")
    served.apply(manifests("orders", "bills"))
    assert not await served.settled(0.2)
    waiting = asyncio.create_task(served.all_ready())
    await asyncio.sleep(0)
    served.apply(manifests("orders"))
    await asyncio.wait_for(waiting, 5)
