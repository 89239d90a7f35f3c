"""Real servers for the contract tests: one nats-server per test, fresh and fast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import nats
import nats.aio.client
import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.nats.nats_server import NatsServer


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A running nats-server with JetStream, empty."""
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def connection(nats_server: NatsServer) -> AsyncIterator[Client]:
    """Our connection to that server."""
    connection = Client(NatsSettings(url=nats_server.url))
    yield connection
    await connection.close()


@pytest.fixture
async def stranger(nats_server: NatsServer) -> AsyncIterator[nats.aio.client.Client]:
    """Somebody else's connection to that server, with a client that is not ours."""
    client = await nats.connect(nats_server.url)
    yield client
    await client.close()
