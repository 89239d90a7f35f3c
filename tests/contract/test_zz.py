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
