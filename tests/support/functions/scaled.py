"""Fixtures of the tests of the scaler. A plugin: a test module takes it in with `pytest_plugins`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.core.delivery import subscriber as delivery
from headrace.core.delivery.lease import DEFAULT_SECONDS, Lease, LeaseAnswer
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from headrace_operator.scaling.scaler import Scaler
from tests.support.functions.functions import Function
from tests.support.functions.scaling import NEVER, TOKEN, Running, Scale, ended, settled
from tests.support.http.subscriber import Place, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats


@pytest.fixture
async def own_nats(nats_server: NatsServer) -> AsyncIterator[Nats]:
    async with Nats(nats_server.url) as client:
        yield client


@pytest.fixture
def server() -> Iterator[Subscriber]:
    with Subscriber() as server:
        yield server


@pytest.fixture
def stand_in(server: Subscriber) -> Place:
    """What plays `forward`; its leases end at once and have found nothing, unless the test says more."""
    return server.place(ended())


@pytest.fixture
def scale(connection: Client, stand_in: Place) -> Scale:
    """Run a scaler for some channels; `sweeping` every so many seconds, by default once."""

    @asynccontextmanager
    async def scale(
        *channels: Channel, sweeping: float = NEVER, uri: str = stand_in.uri, lease_seconds: float = DEFAULT_SECONDS
    ) -> AsyncIterator[Running]:
        async with LeaseClient(TOKEN) as client:

            async def open_lease(_: delivery.Subscriber, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
                return await client.open(uri, lease, meanwhile)

            scaler = Scaler(
                connection,
                JetStreamApi(connection),
                open_lease,
                max_in_flight=7,
                lease_seconds=lease_seconds,
                sweep_seconds=sweeping,
            )
            scaler.serve(channel.stream for channel in channels)
            running = Running(scaler, asyncio.create_task(scaler.run()))
            scaler.on_missing.append(running.missing.append)
            scaler.on_trouble.append(running.troubled.append)
            try:
                await settled(running, channels)
                yield running
            finally:
                await running.stop()

    return scale


@pytest.fixture
def forwards(nats_server: NatsServer, tmp_path: Path) -> Iterator[list[Function]]:
    """Two, running."""
    places = [tmp_path / name for name in ("first", "second")]
    for place in places:
        place.mkdir()
    made = [Function("forward", nats_server.url, place) for place in places]
    try:
        yield [forward.start() for forward in made]
    finally:
        for forward in made:
            forward.stop()
