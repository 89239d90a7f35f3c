"""The blocking client on a leaf node, with its streams in the hub: not the domain of its own server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from headrace.core.errors import Unavailable
from pyspark_jetstream.client import Access, BlockingApi, Connection, read_direct, read_pulled
from pyspark_jetstream.writing.columns import parts
from pyspark_jetstream.writing.options import write_options
from pyspark_jetstream.writing.task import RowsOf, write
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.spark.spark_streams import Streams

MESSAGES = 20_000


@pytest.fixture
def leaf(tmp_path: Path) -> Iterator[NatsServer]:
    port = free_port()
    hub = NatsServer(
        tmp_path / "hub", domain="hub", config=f'server_name: hub\nleafnodes {{ listen: "127.0.0.1:{port}" }}'
    )
    remote = f'leafnodes {{ remotes: [{{ url: "nats-leaf://127.0.0.1:{port}" }}] }}'
    leaf = NatsServer(tmp_path / "leaf", domain="leaf", config=f"server_name: leaf\n{remote}")
    try:
        hub.start()
        yield leaf.start()
    finally:
        leaf.kill()
        hub.kill()


def test_streams_of_another_domain_are_read_and_written(leaf: NatsServer) -> None:
    there = Access(leaf.url, api_prefix="$JS.hub.API")
    with Connection(there) as connection, Connection(replace(there, api_prefix="$JS.leaf.API")) as beside:
        jetstream = BlockingApi(connection)
        streams = Streams(jetstream, "EV")
        stream = streams.make()
        streams.fill(MESSAGES)
        assert BlockingApi(beside).stream(stream) is None
        for read in (read_pulled, read_direct):
            chunks = list(read(jetstream, stream, 1, MESSAGES + 1))
            assert [n for chunk in chunks for n in chunk.sequences] == list(range(1, MESSAGES + 1))
            assert all(chunk.timestamps() for chunk in chunks)
        given = {"servers": leaf.url, "domain": "hub", "subject": "ev.a", "runid": "r", "commitmarker": "true"}
        options = write_options(given, {}, streaming=False)
        batch = pa.RecordBatch.from_arrays([pa.array([b"1", b"2"])], ["data"])
        for _ in range(2):
            written = write([batch], parts([("data", "binary")], options), options, RowsOf("r", 0, 0))
            assert written.stored + written.duplicates == 2
        info = jetstream.stream(stream)
        assert info is not None
        assert info.messages == MESSAGES + 2


def test_a_domain_that_does_not_answer_is_named(nats_server: NatsServer) -> None:
    nowhere = Access(nats_server.url, timeout=0.1, api_prefix="$JS.nowhere.API")
    with (
        Connection(nowhere) as connection,
        pytest.raises(Unavailable, match=r"at \$JS\.nowhere\.API: is the option domain or apiPrefix right"),
    ):
        BlockingApi(connection).streams_of("a")
