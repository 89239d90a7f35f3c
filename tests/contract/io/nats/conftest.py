"""Every test of the NATS clients runs on both event loops: the engine leans on details of their transports."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.io.nats.engine import Engine
from headrace.io.nats.nats_py import NatsPy
from tests.support.nats.nats_server import NatsServer


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(params=[Engine, NatsPy], ids=["engine", "nats-py"])
async def client(request: pytest.FixtureRequest, nats_server: NatsServer) -> AsyncIterator[Client]:
    """Either client, for what is true of both; not connected yet."""
    client = request.param(NatsSettings(url=nats_server.url))
    yield client
    await client.close()


@pytest.fixture
async def engine(nats_server: NatsServer) -> AsyncIterator[Engine]:
    """The engine, for what nats-py can't do; not connected yet."""
    engine = Engine(NatsSettings(url=nats_server.url))
    yield engine
    await engine.close()
