"""What a lease of a by-key consumer waits for before it delivers, and what it does not wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.order import Unsettled
from headrace.core.delivery.order_spec import DeliveryOrder, OrderSpec
from headrace.core.delivery.stage_record import StageRecord
from headrace.core.delivery.subscriber import DeliveryPolicy, Destination, Subscriber
from headrace.core.delivery.window import Window
from headrace.core.errors import Unavailable
from headrace.core.nats.jetstream import Message
from headrace.forward import Survey
from headrace.forward.line import Line
from headrace.forward.one_event import postpone
from tests.support.functions.effects import NOON, effects

WHOM = Subscriber(
    namespace="shop",
    channel="orders",
    name="billing",
    uid="u",
    generation=1,
    aside="KN_aside",
    subscriber=Destination("http://billing/"),
    order=OrderSpec(DeliveryOrder.BY_KEY),
)
EVENT = {"ce-specversion": "1.0", "ce-id": "2", "ce-source": "/s", "ce-type": "t", "ce-partitionkey": "a"}
SECOND = Message("s", EVENT, b"", "$JS.ACK", "KN_S", "KN_SUB_U", 1, 2, 0)


async def delivered(line: Line, tally: Tally, seconds: float) -> bool:
    """Is the second event of the key delivered in this time?"""
    try:
        async with asyncio.timeout(seconds):
            await line.take(SECOND)()
    except TimeoutError:
        return False
    finally:
        line.leave()
    return tally.counts[Outcome.DELIVERED] == 1


@pytest.mark.parametrize(
    ("due", "goes"),
    [
        pytest.param(-1.0, True, id="one that was due is on its way, or settled: then it must hold nobody up"),
        pytest.param(3.0, False, id="one that is not due yet goes first"),
    ],
)
async def test_what_a_record_of_an_earlier_lease_holds_up(due: float, goes: bool) -> None:
    counts = iter([2, 1])

    async def unsettled() -> Unsettled:
        """The first event is settled between the two looks, or waits for its retry."""
        return Unsettled(next(counts, 1 if goes else 2), 2)

    async def records() -> Sequence[tuple[int, StageRecord]]:
        return [(1, StageRecord(key="a", due=NOON.timestamp() + due))]

    tally = Tally()
    world = effects(survey=Survey(unsettled, records, lambda _: None), tally=tally)
    line = Line(WHOM, Window(4, 1024 * 1024, 1024), world, tally, lambda: None)

    # The longer one is a bound, which is not reached; the shorter shows that it waits.
    assert await delivered(line, tally, 30.0 if goes else 0.3) is goes


async def test_after_a_broken_pull_an_event_waits_for_what_was_lost_on_its_way() -> None:
    unsettled, went = [0], []

    async def count() -> Unsettled:
        return Unsettled(unsettled[0], 3)

    async def no_records() -> Sequence[tuple[int, StageRecord]]:
        return []

    async def go(message: Message) -> None:
        await line.take(message)()
        went.append(message.sequence)

    world = effects(survey=Survey(count, no_records, lambda _: None))
    line = Line(WHOM, Window(4, 1024 * 1024, 1024), world, Tally(), lambda: None)
    await go(SECOND._replace(sequence=1))

    # The second event was on its way when the connection broke, and the third comes before it comes again.
    unsettled[0] = 2
    line.broke()
    third = asyncio.create_task(go(SECOND._replace(sequence=3)))
    await asyncio.sleep(0.2)
    assert went == [1]

    await go(SECOND._replace(sequence=2, delivered=2))
    await third
    assert went == [1, 2, 3]
    line.leave()


async def test_pulls_that_break_one_after_another_have_the_records_read_once_until_the_line_is_open() -> None:
    unsettled, read = [2], list[int]()

    async def count() -> Unsettled:
        return Unsettled(unsettled[0], 3)

    async def records() -> Sequence[tuple[int, StageRecord]]:
        read.append(len(read))
        return []

    async def broken(times: int) -> None:
        for _ in range(times):
            line.broke()
            await asyncio.sleep(0.05)

    world = effects(survey=Survey(count, records, lambda _: None))
    line = Line(WHOM, Window(4, 1024 * 1024, 1024), world, Tally(), lambda: None)
    second = asyncio.create_task(line.take(SECOND)())
    await broken(4)
    assert read == [0]
    unsettled[0] = 1
    await second
    await broken(4)
    assert read == [0, 1]
    line.leave()


async def test_an_event_whose_ack_is_on_its_way_does_not_hide_one_that_is_missing() -> None:
    """The server counts it no more, and it is still here until its record is deleted."""
    unsettled, acked = [3], asyncio.Event()
    EVENT_WITHOUT_KEY = {name: value for name, value in EVENT.items() if name != "ce-partitionkey"}

    async def count() -> Unsettled:
        return Unsettled(unsettled[0], 3)

    async def no_records() -> Sequence[tuple[int, StageRecord]]:
        return []

    async def drop(_: str) -> None:
        unsettled[0] = 2  # the keyed one that is here, and the first, which is missing
        await acked.wait()

    world = effects(survey=Survey(count, no_records, lambda _: None), drop=drop)
    line = Line(WHOM, Window(4, 1024 * 1024, 1024), world, Tally(), lambda: None)
    unkeyed = asyncio.create_task(line.take(SECOND._replace(headers=EVENT_WITHOUT_KEY, delivered=2))())
    keyed = asyncio.create_task(line.take(SECOND._replace(sequence=3))())
    done, _ = await asyncio.wait([keyed], timeout=0.3)
    acked.set()
    assert not done
    line.leave()
    await asyncio.gather(unkeyed, keyed)


async def test_a_clock_that_was_set_back_puts_nothing_off_for_longer_than_a_retry_may_take() -> None:
    naks: list[bytes] = []

    async def settle(_: Message, payload: bytes) -> None:
        naks.append(payload)

    whom = replace(WHOM, policy=DeliveryPolicy(retry_after_max=timedelta()))
    due = NOON.timestamp() + 600
    await postpone(SECOND, whom, effects(settle=settle), Tally(), "a", due)
    assert naks == [b'-NAK {"delay":35000000000}']


async def test_an_event_whose_ack_was_lost_on_its_way_does_not_hide_one_that_is_missing() -> None:
    """Whether the server counts it, nobody knows until it comes again."""
    without_key = {name: value for name, value in EVENT.items() if name != "ce-partitionkey"}

    async def count() -> Unsettled:
        return Unsettled(2, 3)  # the keyed one that is here, and the first, which is missing

    async def no_records() -> Sequence[tuple[int, StageRecord]]:
        return []

    async def ack(_: Message) -> None:
        raise Unavailable("the connection broke")

    world = effects(survey=Survey(count, no_records, lambda _: None), ack=ack)
    line = Line(WHOM, Window(4, 1024 * 1024, 1024), world, Tally(), lambda: None)
    with pytest.raises(Unavailable):
        await line.take(SECOND._replace(headers=without_key, delivered=2))()
    keyed = asyncio.create_task(line.take(SECOND._replace(sequence=3))())
    done, _ = await asyncio.wait([keyed], timeout=0.3)
    assert not done
    line.leave()
    await keyed
