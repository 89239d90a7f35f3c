"""Real servers for the contract tests: one nats-server per test, fresh and fast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.support.nats_server import NatsServer

from headrace.core.settings import NatsSettings
from headrace.io.connection import Connection


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A running nats-server with JetStream, empty."""
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def connection(nats_server: NatsServer) -> AsyncIterator[Connection]:
    """Our connection to that server."""
    connection = Connection(NatsSettings(url=nats_server.url))
    yield connection
    await connection.close()
