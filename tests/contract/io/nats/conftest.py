"""Every test of the NATS client runs on both event loops: the engine leans on details of their transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.nats.nats_server import NatsServer


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def client(nats_server: NatsServer) -> AsyncIterator[Client]:
    """Ours; not connected yet."""
    client = Client(NatsSettings(url=nats_server.url))
    yield client
    await client.close()
