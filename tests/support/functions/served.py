"""Fixtures of the tests of `receive` and `forward`: one nats-server and one process of each function for all of them.

A plugin: a test module takes it in with `pytest_plugins`. Each test makes channels of its own. Each function has a user
of its own in the account template of `infra/nats`, and may do no more than that allows; the tests may do everything.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Ask, Reply, send
from tests.support.http.subscriber import Subscriber
from tests.support.nats.nats_permissions import PermittedServer, inbox_of
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats


@pytest.fixture(scope="session")
def served_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="session")
def shared_server(served_directory: Path) -> Iterator[PermittedServer]:
    """A nats-server for all tests; none of them may stop it."""
    server = PermittedServer(served_directory / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def receive(shared_server: PermittedServer, served_directory: Path) -> Iterator[Function]:
    url, inbox = shared_server.url_of("receive"), inbox_of("receive")
    with Function("receive", url, served_directory, NATS_INBOX_PREFIX=inbox) as function:
        yield function


@pytest.fixture(scope="session")
def forward(shared_server: PermittedServer, served_directory: Path) -> Iterator[Function]:
    url, inbox = shared_server.url_of("forward"), inbox_of("forward")
    with Function("forward", url, served_directory, NATS_INBOX_PREFIX=inbox) as function:
        yield function


@pytest.fixture(scope="session")
def subscriber() -> Iterator[Subscriber]:
    with Subscriber() as server:
        yield server


@pytest.fixture
async def nats(shared_server: NatsServer) -> AsyncIterator[Nats]:
    async with Nats(shared_server.url) as client:
        yield client


@pytest.fixture
async def client(shared_server: NatsServer) -> AsyncIterator[Client]:
    """A connection of ours to the shared server."""
    client = Client(NatsSettings(url=shared_server.url))
    yield client
    await client.close()


@pytest.fixture
async def orders(nats: Nats) -> Channel:
    """An empty channel."""
    return await nats.make_channel()


@pytest.fixture
def ask(receive: Function) -> Ask:
    """Send one request to `receive`, and see that its answer says which methods there are."""

    async def ask(
        path: str,
        body: bytes | AsyncIterable[bytes] = b'{"n": 1}',
        headers: Mapping[str, str] = BINARY,
        method: str = "POST",
    ) -> Reply:
        reply = await send(receive.url + path, body, headers, method)
        assert reply.headers["Allow"] == "POST, OPTIONS"
        return reply

    return ask
