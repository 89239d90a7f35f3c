import time

import pytest

from tests.support.ordering import serve_by_key, store_keyed

pytest_plugins = ["tests.support.served"]


@pytest.mark.parametrize("n", range(8))
async def test_x(nats, forward, subscriber, n):
    place = subscriber.place()
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, *(f"a{number}" for number in range(150)))
    began = time.monotonic()
    answer = await lane.lease(max_in_flight=3, linger=0.3)
    print(
        n,
        time.monotonic() - began,
        answer,
        len(place.received),
        {k: v for k, v in (await lane.info()).items() if "num" in k},
    )
import asyncio
from tests.support.subscriber import *
@pytest.mark.parametrize("slots", [4,20])
@pytest.mark.parametrize("slow", [0.0,0.02])
async def test_y(nats, forward, subscriber, slots, slow):
    place = subscriber.place().decides(lambda request: Hold() if request.event["id"] == "a0" else Say(delay=slow))
    lane = await serve_by_key(nats, forward, subscriber=place.uri)
    await store_keyed(lane, *(f"a{number}" for number in range(200)))
    async def rel():
        await asyncio.sleep(4); place.release()
    t=asyncio.create_task(rel())
    began = time.monotonic()
    d=p=0
    while len(place.received)<200:
        answer = await lane.lease(max_in_flight=slots, linger=2, seconds=20); d+=answer["delivered"]; p+=answer["postponed"]
    print("HANG", slots, slow, time.monotonic()-began-4, d, p, numbers(place.received)["a"]==list(range(200)))
