"""Shared by the host tests: one NATS server, and each host on each Python found here."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache

import aiohttp
import nats
import pytest
import pytest_asyncio
from aiohttp import web
from nats.js import JetStreamContext

from tests.hosts import pythons
from tests.hosts.environments import COMBINATIONS, Environment, Kind, prepared
from tests.hosts.hosted import Hosted
from tests.support.nats.nats_server import NatsServer


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats")).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def prepare(pytestconfig: pytest.Config) -> Iterator[Callable[[Kind, str], Environment]]:
    """Makes environments, and says so at once: it takes half a minute when nothing is cached."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")

    def say(words: str) -> None:
        with capture.global_and_fixture_disabled():
            print(words, file=sys.stderr, flush=True)

    with ExitStack() as held:
        # Cached, since a second lock on the same environment would wait for the first for ever.
        yield cache(lambda kind, version: held.enter_context(prepared(kind, version, say)))


@pytest.fixture(scope="session", params=COMBINATIONS, ids=[f"{kind}-python{version}" for kind, version in COMBINATIONS])
def environment(request: pytest.FixtureRequest, prepare: Callable[[Kind, str], Environment]) -> Environment:
    """Every host on every Python."""
    return prepare(*request.param)


@pytest.fixture(scope="session")
def hosted(
    environment: Environment, nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosted]:
    """Our functions in every host on every Python."""
    found = Hosted(environment, nats_server.url, tmp_path_factory.mktemp("hosted"))
    yield found
    found.stop()


@pytest.fixture(scope="session")
def scaffold(
    prepare: Callable[[Kind, str], Environment], nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Hosted]:
    """kn func's scaffold on the Python that runs the tests, for what only it has."""
    environment = prepare(Kind.SCAFFOLD, pythons.RUNNING)
    found = Hosted(environment, nats_server.url, tmp_path_factory.mktemp("scaffold"))
    yield found
    found.stop()


@pytest_asyncio.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        yield session


@pytest_asyncio.fixture
async def jetstream(nats_server: NatsServer) -> AsyncIterator[JetStreamContext]:
    """A client of the real server, to look at what is there."""
    client = await nats.connect(nats_server.url)
    yield client.jetstream()
    await client.close()


@dataclass
class Sink:
    """A subscriber that takes everything, `seconds` after it came.

    Attributes:
        received: headers and data of every event, in the order in which they came.
    """

    url: str = ""
    seconds: float = 0.0
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def next_arrival(self) -> None:
        async with asyncio.timeout(60):
            await self._arrived.wait()
        self._arrived.clear()

    async def take(self, request: web.Request) -> web.Response:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.received.append((headers, await request.read()))
        self._arrived.set()
        await asyncio.sleep(self.seconds)
        return web.Response(status=202)


@pytest_asyncio.fixture
async def sink() -> AsyncIterator[Sink]:
    found = Sink()
    app = web.Application()
    app.router.add_post("/", found.take)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    found.url = f"http://{host}:{port}/"
    yield found
    await runner.cleanup()
