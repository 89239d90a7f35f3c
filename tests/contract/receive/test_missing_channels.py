"""Events for channels that do not exist: NATS is asked sparingly, and nobody else waits for it."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest
from nats.aio.msg import Msg

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]

FLOOD_SECONDS = 3.0
SENDERS = 40


@pytest.fixture
async def questions(nats: Nats) -> AsyncIterator[list[bytes]]:
    """What the server is asked for streams of a subject."""
    heard: list[bytes] = []

    async def on_question(question: Msg) -> None:
        heard.append(question.data)

    subscription = await nats.client.subscribe("$JS.API.STREAM.NAMES", cb=on_question)
    await nats.client.flush()
    yield heard
    await subscription.unsubscribe()


async def post(function: Function, path: str, id: str = "1", **headers: str) -> int:
    return (await send(function.url + path, b"{}", {**BINARY, "ce-id": id, **headers})).status


# The long way reads a coding of the body.
WAYS = [pytest.param({}, id="the short way"), pytest.param({"content-encoding": "identity"}, id="the long way")]


@pytest.mark.parametrize("headers", WAYS)
async def test_a_channel_takes_events_as_soon_as_it_is_there(
    receive: Function, nats: Nats, headers: dict[str, str]
) -> None:
    orders = nats.name_channel()
    assert await post(receive, orders.path, **headers) == 404
    await nats.make_channel(orders)
    assert await post(receive, orders.path, **headers) == 202


@pytest.mark.parametrize("headers", WAYS)
async def test_of_many_events_for_one_missing_channel_one_asks(
    receive: Function, nats: Nats, questions: list[bytes], headers: dict[str, str]
) -> None:
    orders = nats.name_channel()
    began = time.monotonic()
    for _ in range(4):
        statuses = await asyncio.gather(*(post(receive, orders.path, f"{at}", **headers) for at in range(20)))
        assert set(statuses) == {404}
    await nats.client.flush()
    assert 1 <= len(questions) <= 1 + int(time.monotonic() - began)


async def test_a_flood_of_events_for_channels_that_do_not_exist_asks_little_and_slows_itself_only(
    receive: Function, nats: Nats, orders: Channel, questions: list[bytes]
) -> None:
    until = time.monotonic() + FLOOD_SECONDS
    refused: Counter[int] = Counter()

    async def stranger(number: int) -> None:
        at = 0
        while time.monotonic() < until:
            refused[await post(receive, f"/demo/nobody-{number}-{at}")] += 1
            at += 1

    strangers = [asyncio.create_task(stranger(number)) for number in range(SENDERS)]
    took = []
    while time.monotonic() < until:
        began = time.monotonic()
        assert await post(receive, orders.path, str(began)) == 202
        took.append(time.monotonic() - began)
        await asyncio.sleep(0.01)
    await asyncio.gather(*strangers)

    assert set(refused) <= {404, 503}
    # A hundred a second, and what each sender has under way; without a pace they get thousands.
    assert refused.total() <= 2 * (100 * FLOOD_SECONDS + 2 * SENDERS)
    # The questions have a twentieth of the server's time, and each takes 0.1 ms of it at least.
    assert len(questions) <= 500 * FLOOD_SECONDS
    assert statistics.median(took) < 0.1


async def test_a_refusal_among_few_is_not_put_off(receive: Function, nats: Nats) -> None:
    await asyncio.sleep(1.1)
    began = time.monotonic()
    assert await post(receive, nats.name_channel().path) == 404
    assert time.monotonic() - began < 0.9
