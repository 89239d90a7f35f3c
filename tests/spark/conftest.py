"""One Spark session and one nats-server for the whole suite: each takes seconds to start. Streams have names of their
own."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_jetstream.client import Access, BlockingApi, Connection
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_channels import Channel
from tests.support.spark.spark_session import local_session
from tests.support.spark.spark_streams import Streams

# So that fixtures end what they have started, also when the tests are told to stop.
signal.signal(signal.SIGTERM, signal.default_int_handler)

# A test that is cut off leaves the talk with the JVM in its middle, and all that follow fail: this is for what hangs.
MOST_SECONDS = 900

_serial = itertools.count(1)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """More time than the other suites have: the first test of a session waits for Spark itself."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(MOST_SECONDS))


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def spark(nats_server: NatsServer) -> Iterator[SparkSession]:
    """A local session with two task slots, where a task that failed is tried once more; its workers find the server in
    their environment."""
    os.environ["NATS_URL"] = nats_server.url
    with local_session("2,2") as session:
        yield session


@pytest.fixture(scope="session")
def jetstream(nats_server: NatsServer) -> Iterator[BlockingApi]:
    """The client under test, as a tool: what it reads and writes is checked in its own tests."""
    with Connection(Access(nats_server.url)) as connection:
        yield BlockingApi(connection)


@pytest.fixture
def streams(jetstream: BlockingApi) -> Streams:
    return Streams(jetstream, f"T{next(_serial)}")


@pytest.fixture
def orders(streams: Streams) -> Channel:
    return Channel(streams, "orders")
