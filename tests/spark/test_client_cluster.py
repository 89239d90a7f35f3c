"""The blocking client on a cluster: streams of three replicas, whose servers die while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyspark_jetstream.client import Access, Connection, JetStream, read_direct, read_pulled
from tests.support.nats_cluster import NatsCluster
from tests.support.spark_streams import Streams

MESSAGES = 60_000


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[NatsCluster]:
    found = NatsCluster(tmp_path)
    found.start()
    yield found
    found.kill()


@pytest.mark.parametrize("mode", ["pull", "direct"])
def test_a_read_goes_on_when_the_leader_and_the_server_that_we_talk_to_die(cluster: NatsCluster, mode: str) -> None:
    read = read_pulled if mode == "pull" else read_direct
    with Connection(Access(cluster.url, timeout=60)) as connection:
        jetstream = JetStream(connection)
        streams = Streams(jetstream, "EV")
        streams.make(num_replicas=3, storage="file")
        streams.fill(MESSAGES)
        reading = read(jetstream, "EV", 1, MESSAGES + 1)
        found = list(next(reading).sequences)
        ours = cluster.server_at(connection.link.server.address)
        ours.kill()
        for messages in reading:
            found += messages.sequences
        assert found == list(range(1, MESSAGES + 1))
        ours.start()
        leader = int(cluster.wait_for_leader(jetstream, "EV").removeprefix("n"))
        reading = read(jetstream, "EV", 1, MESSAGES + 1)
        found = list(next(reading).sequences)
        cluster.servers[leader].kill()
        for messages in reading:
            found += messages.sequences
        assert found == list(range(1, MESSAGES + 1))
