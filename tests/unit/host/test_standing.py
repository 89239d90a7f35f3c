"""When a `forward` that pulls without end opens leases on itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headrace.core.delivery.lease import Lease
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.http import Response, problem
from headrace.core.installation.function_settings import ForwardSettings
from headrace.host import standing
from headrace.host.standing import Standing
from tests.support.waiting import until

LEASE = Lease("S", "C", 0.01, 0.01)
SERVED = Subscriber("shop", "orders", "billing", "a", 1, "S_aside", max_scale=2)


class Leases:
    """Says what it is told to, in order and the last for ever; a lease that is held lasts until it is let go."""

    def __init__(self, *found: Exception | Response | Subscriber, pulled: tuple[Exception, ...] = ()) -> None:
        self._found, self._pulled = list(found), list(pulled)
        self.infos: list[Mapping[str, Any]] = []
        self.open = self.most = 0
        self.looked = 0
        self.opened = asyncio.Event()
        self.let_go = asyncio.Event()

    async def look_up(self, _: Lease) -> tuple[Mapping[str, Any], Subscriber] | Response:
        self.looked += 1
        found = self._found.pop(0) if len(self._found) > 1 else self._found[0]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, Response) else (self.infos.pop() if self.infos else {"config": {}}, found)

    async def pull(self, *_: object) -> None:
        if self._pulled:
            raise self._pulled.pop(0)
        self.open += 1
        self.most = max(self.most, self.open)
        self.opened.set()
        await self.let_go.wait()
        self.open -= 1


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing, "LATE_SECONDS", 0.01)
    monkeypatch.setattr(standing, "FIRST_PAUSE", 0.001)


@pytest.mark.parametrize(
    "leases",
    [
        pytest.param(lambda: Leases(Unavailable("NATS is away"), SERVED), id="NATS is away"),
        pytest.param(lambda: Leases(Refused("no rights", status=403), SERVED), id="NATS refuses"),
        pytest.param(lambda: Leases(problem(404, "No such consumer", ""), SERVED), id="no such consumer"),
        pytest.param(lambda: Leases(problem(409, "Not deliverable", ""), SERVED), id="not to be delivered to"),
        pytest.param(lambda: Leases(KeyError("a fault of ours"), SERVED), id="a fault while it was looked up"),
        pytest.param(lambda: Leases(SERVED, pulled=(Unavailable("away"),)), id="NATS goes away"),
        pytest.param(lambda: Leases(SERVED, pulled=(KeyError("a fault of ours"),)), id="a fault in a lease"),
    ],
)
async def test_whatever_goes_wrong_is_tried_again(leases: Callable[[], Leases]) -> None:
    held = leases()
    own = Standing([LEASE], held)
    async with asyncio.timeout(10):
        await held.opened.wait()
        held.let_go.set()
        await own.close()

    assert held.open == 0


async def test_an_info_that_makes_no_sense_is_tried_again() -> None:
    held = Leases(SERVED)
    held.infos.append({"config": {}, "delivered": {"consumer_seq": "many"}})
    own = Standing([LEASE], held)
    async with asyncio.timeout(10):
        await held.opened.wait()
        held.let_go.set()
        await own.close()


async def test_a_successor_begins_beside_a_late_lease_but_no_more_than_the_subscriber_may_have() -> None:
    held = Leases(SERVED)
    own = Standing([LEASE], held)
    async with asyncio.timeout(10):
        await until("a third is about to be opened", lambda: held.looked == 3)
        await asyncio.sleep(0.05)
        held.let_go.set()
        await own.close()

    assert held.most == 2


async def test_it_ends_when_what_is_open_has_ended_and_begins_no_more() -> None:
    held = Leases(SERVED)
    own = Standing([LEASE], held)
    async with asyncio.timeout(10):
        await held.opened.wait()
        own.drain()
        closing = asyncio.create_task(own.close())
        await asyncio.sleep(0.05)
        assert not closing.done()
        held.let_go.set()
        await closing
    assert held.open == 0


async def test_without_consumers_there_is_nothing_to_do() -> None:
    async with asyncio.timeout(1):
        await Standing(standing.wanted_leases(ForwardSettings()), Leases(SERVED)).close()


def test_consumers_are_pairs_with_spaces_between_them() -> None:
    leases = standing.wanted_leases(ForwardSettings(consumers=" A/B  KN_SHOP__ORDERS/KN_SUB_A A/B"))

    assert [(one.stream, one.consumer) for one in leases] == [("A", "B"), ("KN_SHOP__ORDERS", "KN_SUB_A")]


@pytest.mark.parametrize("text", ["A", "A/", "/B", "A/B/C", "A.B/C", "A/>", "A,B"])
def test_what_is_no_pair_is_refused(text: str) -> None:
    with pytest.raises(Misconfigured, match="FORWARD_CONSUMERS has"):
        standing.wanted_leases(ForwardSettings(consumers=text))
