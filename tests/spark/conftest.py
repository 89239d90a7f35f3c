"""One Spark session and one nats-server for the whole suite: each takes seconds to start. Streams have names of their
own."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from pyspark_jetstream.client import Access, Connection, JetStream
from tests.support.nats_server import NatsServer
from tests.support.spark_channels import Channel
from tests.support.spark_streams import Streams

_serial = itertools.count(1)


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="session")
def spark(nats_server: NatsServer) -> Iterator[SparkSession]:
    """A local session with two task slots, where a task that failed is tried once more. Its workers are this Python,
    with the servers in their environment."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["NATS_URL"] = nats_server.url
    session = (
        SparkSession.builder.master("local[2,2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def jetstream(nats_server: NatsServer) -> Iterator[JetStream]:
    """The client under test, as a tool: what it reads and writes is checked in its own tests."""
    with Connection(Access(nats_server.url)) as connection:
        yield JetStream(connection)


@pytest.fixture
def streams(jetstream: JetStream) -> Streams:
    return Streams(jetstream, f"T{next(_serial)}")


@pytest.fixture
def orders(streams: Streams) -> Channel:
    return Channel(streams, "orders")
