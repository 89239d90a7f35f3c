"""The blocking client on a cluster: streams of three replicas, whose servers die, or stop, while they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from headrace.core.errors import Unavailable
from pyspark_jetstream.client import Access, Connection, JetStream, read_direct, read_pulled
from tests.support.nats_cluster import NatsCluster
from tests.support.spark_streams import Streams

MESSAGES = 60_000
# One in three consumers falls to the dead server, as long as the cluster does not know of it: some seconds.
READS_AFTER_A_DEATH = 20
TRIES = 10


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsCluster]:
    found = NatsCluster(tmp_path_factory.mktemp("cluster"))
    try:
        found.start()
        yield found
    finally:
        found.kill()


@pytest.fixture
def cluster(shared: NatsCluster) -> NatsCluster:
    """All of it running, whatever the test before has done."""
    shared.start()
    return shared


@pytest.fixture
def jetstream(cluster: NatsCluster) -> Iterator[JetStream]:
    with Connection(Access(cluster.url, timeout=60)) as connection:
        yield JetStream(connection)


@pytest.fixture
def filled(cluster: NatsCluster, jetstream: JetStream, streams: Streams) -> str:
    """A stream of three replicas, all of which have its messages."""
    name = streams.make(num_replicas=3, storage="file")
    streams.fill(MESSAGES)
    cluster.wait_for_leader(jetstream, name)
    return name


def ours(cluster: NatsCluster, jetstream: JetStream) -> str:
    """The server that we talk to."""
    return cluster.at(jetstream.connection.link.server.address)


def all_of(reading: Iterator[Any]) -> list[int]:
    return [sequence for messages in reading for sequence in messages.sequences]


@pytest.mark.parametrize("mode", ["pull", "direct"])
def test_a_read_goes_on_when_the_leader_and_the_server_that_we_talk_to_die(
    cluster: NatsCluster, jetstream: JetStream, filled: str, mode: str
) -> None:
    read = read_pulled if mode == "pull" else read_direct
    for who in ("ours", "leader"):
        reading = read(jetstream, filled, 1, MESSAGES + 1)
        found = list(next(reading).sequences)
        victim = ours(cluster, jetstream) if who == "ours" else cluster.wait_for_leader(jetstream, filled)
        cluster.server(victim).kill()
        found += all_of(reading)
        assert found == list(range(1, MESSAGES + 1))
        cluster.start()


def test_a_consumer_that_fell_to_a_dead_server_is_made_again_under_another_name(
    cluster: NatsCluster, jetstream: JetStream, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody ever answers for its name: the cluster lists it, and its server is dead."""
    fallen: list[str] = []
    really = JetStream.make_consumer

    def make_consumer(self: JetStream, stream: str, name: str, config: Mapping[str, Any], seconds: float) -> int:
        try:
            return really(self, stream, name, config, seconds)
        except Unavailable:
            if name in self.call(f"CONSUMER.NAMES.{stream}")["consumers"]:
                fallen.append(name)
            raise

    monkeypatch.setattr(JetStream, "make_consumer", make_consumer)
    for _ in range(TRIES):
        victim = cluster.other_than(ours(cluster, jetstream), cluster.meta_leader())
        cluster.server(victim).kill()
        for start in range(1, READS_AFTER_A_DEATH + 1):
            assert all_of(read_pulled(jetstream, filled, start, start + 5)) == list(range(start, start + 5))
        if fallen:
            break
        cluster.start()
        cluster.wait_for_leader(jetstream, filled)
    assert fallen, f"no consumer fell to the dead server in {TRIES} tries"


def test_a_consumer_whose_server_dies_is_missed(cluster: NatsCluster, jetstream: JetStream, filled: str) -> None:
    """Our own connection stays: it is only that nothing more comes."""
    for _ in range(TRIES):
        reading = read_pulled(jetstream, filled, 1, MESSAGES + 1)
        found = list(next(reading).sequences)
        [name] = jetstream.call(f"CONSUMER.NAMES.{filled}")["consumers"]
        host = jetstream.call(f"CONSUMER.INFO.{filled}.{name}")["cluster"]["leader"]
        if host != ours(cluster, jetstream):
            break
        reading.close()
    else:
        raise AssertionError(f"all of {TRIES} consumers were on the server that we talk to")
    generation = jetstream.connection.generation
    cluster.server(host).kill()
    found += all_of(reading)
    assert found == list(range(1, MESSAGES + 1))
    assert jetstream.connection.generation == generation


def test_a_request_to_a_server_that_has_stopped_goes_to_another_one(cluster: NatsCluster, jetstream: JetStream) -> None:
    """It has not hung up: nothing tells but its silence."""
    stopped = cluster.server(ours(cluster, jetstream))
    stopped.freeze()
    try:
        assert "streams" in jetstream.call("INFO")
        assert cluster.server(ours(cluster, jetstream)) is not stopped
    finally:
        stopped.thaw()
