"""The blocking client on a cluster: streams of three replicas, whose servers die, or stop, while they are read."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import pyarrow as pa
import pytest

from headrace.core.errors import Unavailable
from pyspark_jetstream.client import Access, BlockingApi, Connection, read_direct, read_pulled
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.options import write_options
from pyspark_jetstream.writing.task import RowsOf, write
from tests.support.nats.nats_cluster import NatsCluster
from tests.support.spark.spark_streams import Streams

MESSAGES = 60_000
# One in three consumers falls to the dead server, as long as the cluster does not know of it: some seconds.
READS_AFTER_A_DEATH = 20
TRIES = 10
# Less than the silence after which a reader leaves a server.
STOPPED_SECONDS = 1.0


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
def jetstream(cluster: NatsCluster) -> Iterator[BlockingApi]:
    with Connection(Access(cluster.url, timeout=60)) as connection:
        yield BlockingApi(connection)


@pytest.fixture
def filled(cluster: NatsCluster, jetstream: BlockingApi, streams: Streams) -> str:
    """A stream of three replicas, all of which have its messages."""
    name = streams.make(num_replicas=3, storage="file")
    streams.fill(MESSAGES)
    cluster.wait_for_leader(jetstream, name)
    return name


def ours(cluster: NatsCluster, jetstream: BlockingApi) -> str:
    """The server that we talk to."""
    return cluster.at(jetstream.connection.link.server.address)


def all_of(reading: Iterator[Any]) -> list[int]:
    return [sequence for messages in reading for sequence in messages.sequences]


@pytest.mark.parametrize("mode", ["pull", "direct"])
def test_a_read_goes_on_when_the_leader_and_the_server_that_we_talk_to_die(
    cluster: NatsCluster, jetstream: BlockingApi, filled: str, mode: str
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
    cluster: NatsCluster, jetstream: BlockingApi, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody ever answers for its name: the cluster lists it, and its server is dead."""
    fallen: list[str] = []
    really = BlockingApi.make_consumer

    def make_consumer(self: BlockingApi, stream: str, name: str, config: Mapping[str, Any], seconds: float) -> int:
        try:
            return really(self, stream, name, config, seconds)
        except Unavailable:
            if name in self.call(f"CONSUMER.NAMES.{stream}")["consumers"]:
                fallen.append(name)
            raise

    monkeypatch.setattr(BlockingApi, "make_consumer", make_consumer)
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


def test_a_consumer_whose_server_dies_is_missed(cluster: NatsCluster, jetstream: BlockingApi, filled: str) -> None:
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


def test_a_request_to_a_server_that_has_stopped_goes_to_another_one(
    cluster: NatsCluster, jetstream: BlockingApi
) -> None:
    """It has not hung up: nothing tells but its silence."""
    stopped = cluster.server(ours(cluster, jetstream))
    stopped.freeze()
    try:
        assert "streams" in jetstream.call("INFO")
        assert cluster.server(ours(cluster, jetstream)) is not stopped
    finally:
        stopped.thaw()


@pytest.mark.parametrize("mode", ["pull", "direct"])
def test_a_follower_that_lags_is_not_believed(
    cluster: NatsCluster, jetstream: BlockingApi, streams: Streams, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """It was stopped while the others stored more, and answers with what it has."""
    fell_short: list[int] = []
    really = BlockingApi.message_after

    def message_after(
        self: BlockingApi, stream: str, sequence: int, filters: Sequence[str] = ()
    ) -> dict[str, Any] | None:
        found = really(self, stream, sequence, filters)
        if found is not None:
            fell_short.append(sequence)
        return found

    monkeypatch.setattr(BlockingApi, "message_after", message_after)
    stream = streams.make(num_replicas=3, storage="file")
    stored = 0
    for _ in range(3 * TRIES):
        streams.fill(10_000, start=stored)
        leader = cluster.wait_for_leader(jetstream, stream)
        follower = cluster.other_than(leader, cluster.meta_leader())
        # What stores the rest talks to another server; Direct Get is answered by the server that we talk to.
        apart = Access(cluster.server(leader).url)
        with Connection(apart) as writer, Connection(Access(cluster.server(follower).url)) as reader:
            reading = _reading_from(follower, BlockingApi(reader), stream, stored, stored + 20_000, mode)
            found = list(next(reading).sequences)
            cluster.server(follower).freeze()
            try:
                Streams(BlockingApi(writer), streams.name).fill(10_000, start=stored, data=b"x" * 1000)
            finally:
                # While the leader stands still, nothing brings the follower up to date.
                cluster.server(leader).freeze()
                wake = threading.Timer(STOPPED_SECONDS, cluster.server(leader).thaw)
                wake.start()
                cluster.server(follower).thaw()
            found += all_of(reading)
            wake.join()
        assert found == list(range(stored + 1, stored + 20_001))
        stored += 20_000
        if fell_short:
            return
    raise AssertionError(f"the follower never lagged in {3 * TRIES} tries")


def _reading_from(server: str, jetstream: BlockingApi, stream: str, start: int, end: int, mode: str) -> Iterator[Any]:
    """A read that has begun, with its consumer on this server if it has one."""
    if mode == "direct":
        return read_direct(jetstream, stream, start + 1, end + 1)
    for _ in range(5 * TRIES):
        reading = read_pulled(jetstream, stream, start + 1, end + 1)
        first = next(reading)
        [name] = jetstream.call(f"CONSUMER.NAMES.{stream}")["consumers"]
        if jetstream.call(f"CONSUMER.INFO.{stream}.{name}")["cluster"]["leader"] == server:
            return chain((first,), reading)
        reading.close()
    raise AssertionError(f"no consumer fell to {server}")


@pytest.mark.parametrize("fast", [pytest.param(False, id="window"), pytest.param(True, id="fast ingest")])
def test_a_write_goes_on_when_the_leader_changes_and_when_it_dies(
    cluster: NatsCluster, jetstream: BlockingApi, streams: Streams, fast: bool
) -> None:
    """None lost, and none twice."""
    stream = streams.make(num_replicas=3, storage="file", allow_batched=fast)
    given = {"servers": cluster.url, "subject": f"{streams.root}.a", "timeout": "60", "ackwindow": "300"}
    options = write_options(given, {}, streaming=False)

    def batches() -> Iterator[pa.RecordBatch]:
        for number in range(12):
            rows = [b"%d" % row for row in range(number * 500, (number + 1) * 500)]
            yield pa.RecordBatch.from_arrays([pa.array(rows)], ["data"])
            if number == 3:
                jetstream.call(f"STREAM.LEADER.STEPDOWN.{stream}")
            if number == 7:
                cluster.server(cluster.wait_for_leader(jetstream, stream)).kill()

    written = write(batches(), parts([("data", "binary")], options), options, RowsOf("run", 0, 0))
    assert (written.rows, written.is_fast) == (6000, fast)
    found = [payload for chunk in read_pulled(jetstream, stream, 1, 10_000) for payload in chunk.payloads]
    assert sorted(found, key=int) == [b"%d" % row for row in range(6000)]
