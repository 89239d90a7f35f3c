"""A failed request is forgotten at once: while JetStream is silent, every event that waits for it fails."""

from __future__ import annotations

import gc
import sys
from contextlib import suppress

import pytest

from headrace.core.errors import Unavailable
from headrace.io.nats.client import Client
from tests.support.waiting import until


async def test_a_request_without_an_answer_keeps_nothing_of_its_data(client: Client) -> None:
    data = bytes(100_000)
    await client.ready(10)
    await client.subscribe("silent", lambda _: None)
    gc.disable()
    try:
        before = sys.getrefcount(data)
        # pytest.raises would hold the traceback, and with it the data.
        with suppress(Unavailable):
            pytest.fail(f"nobody answers, but {await client.request('silent', data, timeout=0.2)} came")
        await until("nothing holds the data", lambda: sys.getrefcount(data) <= before)
    finally:
        gc.enable()
