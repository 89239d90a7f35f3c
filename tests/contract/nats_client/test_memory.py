"""What has failed is forgotten at once: while NATS stands still, every event that waits for it fails."""

from __future__ import annotations

import gc
import os
import signal
import sys

import pytest

from headrace.core.errors import Unavailable
from headrace.io.client import Client
from tests.support.nats_server import NatsServer


async def test_a_request_without_an_answer_keeps_nothing_of_its_data(client: Client, nats_server: NatsServer) -> None:
    data = bytes(100_000)
    await client.ready(10)
    os.kill(nats_server.pid, signal.SIGSTOP)
    gc.disable()
    try:
        before = sys.getrefcount(data)
        with pytest.raises(Unavailable):
            await client.request("nobody", data, timeout=0.2)
        after = sys.getrefcount(data)
    finally:
        gc.enable()
        os.kill(nats_server.pid, signal.SIGCONT)

    assert after == before
