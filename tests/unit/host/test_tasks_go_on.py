"""A task that others wait for goes on, whatever unforeseen error comes its way."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.delivery.byte_pool import BytePool
from headrace.core.delivery.lease import Tally
from headrace.core.delivery.order import Unsettled
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.delivery.window import Window
from headrace.core.errors import Unavailable
from headrace.core.nats.jetstream import IN_PROGRESS, Message
from headrace.core.nats.nats_wire import Arrival
from headrace.forward import line
from headrace.forward.ports import Survey
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.keepalive import KeepAlive
from headrace_cli.laptop import local_process
from headrace_cli.laptop.child import answers_200
from headrace_cli.laptop.local_process import AlwaysOn
from headrace_operator.kube import watch
from headrace_operator.kube.kinds import CHANNEL
from headrace_operator.kube.watch import Watch
from tests.support.functions.effects import effects
from tests.support.http.raw_server import saying, serving
from tests.support.waiting import until

HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t", "ce-partitionkey": "a"}


def message(sequence: int) -> Message:
    return Message("shop.orders._knative", HEADERS, b"", f"$JS.ACK.{sequence}", "S", "C", 1, sequence, sequence, 0)


async def test_one_message_that_cannot_be_held_has_no_other_redelivered() -> None:
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, words: told.append(words))
    held: list[str] = []

    async def settle(message: Message, payload: bytes) -> None:
        assert payload == IN_PROGRESS
        if message.sequence == 1:
            raise RuntimeError("the handler is closed")
        held.append(message.reply)

    keep_alive = KeepAlive(settle, interval=0.001)
    messages = [message(1), message(2)]
    for each in messages:
        keep_alive.hold(each)
    await until("the other one is held on", lambda: len(held) >= 2)
    for each in messages:
        keep_alive.release(each)
    assert set(held) == {"$JS.ACK.2"}
    assert told


@pytest.mark.parametrize("broken", ["unsettled", "records"])
async def test_a_take_over_ends_although_nobody_can_tell_what_is_left(broken: str) -> None:
    async def unsettled() -> Unsettled:
        if broken == "unsettled":
            raise KeyError("num_ack_pending")
        return Unsettled(2, 2)

    async def records() -> list[Any]:
        raise ValueError("no record")

    clock = iter(range(0, 1_000_000, 3))
    woken = asyncio.Event()
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, words: told.append(type(words["exception"])))
    world = effects(
        survey=Survey(unsettled, records, lambda _: None),
        monotonic=lambda: next(clock),
        now=lambda: datetime.now(UTC),
    )
    with BytePool(1000).share():
        waiting = line.Line(
            Subscriber("shop", "orders", "billing", "u", 1, "S_aside"),
            Window(1, 1000, 100),
            world,
            Tally(),
            woken.set,
        )
        waiting.take(message(7))
        async with asyncio.timeout(10):
            await woken.wait()
    assert waiting.waiting == 0
    assert {"unsettled": KeyError, "records": ValueError}[broken] in told


async def test_a_watch_lists_again_after_an_answer_that_nobody_has_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "FIRST_PAUSE", 0.001)
    answers: list[Any] = [([{"spec": {}}], "1"), ([], "2")]

    async def listed(*_: object) -> tuple[list[Any], str]:
        return answers.pop(0)

    async def never(*_: object) -> Any:
        await asyncio.Event().wait()
        yield None

    watching = Watch(SimpleNamespace(list=listed, watch=never), CHANNEL)  # type: ignore[arg-type]  # what it asks
    task = asyncio.create_task(watching.run())
    try:
        async with asyncio.timeout(10):
            await watching.cache.wait_until_listed()
    finally:
        task.cancel()
        await asyncio.wait([task])
    assert watching.cache.version == "2"


async def test_a_process_is_started_again_however_a_start_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_process, "RESTART_SECONDS", (0.001, 0.002))
    ended = asyncio.Event()

    async def ends() -> int:
        await ended.wait()
        return 1

    async def lives() -> int:
        await asyncio.Event().wait()
        return 0

    async def stop(_why: str) -> None: ...

    def child(wait: Any) -> Any:
        return SimpleNamespace(name="receive", pid=1, killed=False, alive=True, wait=wait, stop=stop)

    starts: list[Any] = [child(ends), RuntimeError("what?"), child(lives)]

    async def start(_why: str) -> Any:
        started = starts.pop(0)
        if isinstance(started, Exception):
            raise started
        return started

    process = AlwaysOn(start)
    await process.open()
    try:
        ended.set()
        await until("it is started again", lambda: process.starts == 2)
    finally:
        await process.close("the test is over")


async def test_a_neighbour_that_says_a_line_without_end_is_not_ready() -> None:
    async with serving(saying(b"x" * 1024 * 1024)) as server:
        assert not await answers_200("127.0.0.1", server.port, "/health/readiness")


@pytest.mark.parametrize("data", [b"", b"what?", b"[]", b"\xff"])
async def test_an_answer_that_is_not_of_jetstream_counts_as_none(data: bytes) -> None:
    async def request(*_: object, **__: object) -> Arrival:
        return Arrival("_INBOX.1", "", {}, data, "", "")

    api = JetStreamApi(SimpleNamespace(request=request))  # type: ignore[arg-type]  # what it asks
    with pytest.raises(Unavailable, match=r"STREAM\.INFO\.S was answered, but not as JetStream does"):
        await api.call("STREAM.INFO.S")
