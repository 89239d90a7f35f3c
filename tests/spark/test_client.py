"""The blocking client against real servers: who we are, servers that come and go, and ends that are proved."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured, Refused, Unavailable
from headrace.core.nats.nats_wire import header_block, subscribe
from pyspark_jetstream.client import (
    Access,
    BlockingApi,
    Connection,
    Messages,
    Outgoing,
    Publisher,
    Secret,
    pull,
    read_direct,
    read_pulled,
)
from tests.support.nats.nats_certificates import Certificates
from tests.support.nats.nats_identities import Operator, user_key
from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_streams import Streams

Reads = list[Messages]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """One that may be stopped and changed."""
    own = NatsServer(tmp_path / "own")
    yield own
    own.kill()


def greets(access: Access) -> str:
    with Connection(access) as connection:
        return connection.request("$JS.API.INFO").data.decode()


def file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "secret"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize("limit", ["max_request_batch: 10", "max_request_batch: 1"])
def test_a_limit_of_the_server_for_one_pull_is_obeyed(tmp_path: Path, limit: str) -> None:
    narrow = NatsServer(tmp_path / "narrow", limits=limit).start()
    try:
        with Connection(Access(narrow.url)) as connection:
            jetstream = BlockingApi(connection)
            streams = Streams(jetstream, "T")
            stream = streams.make()
            streams.fill(60)
            found = [sequence for one in read_pulled(jetstream, stream, 1, 61) for sequence in one.sequences]
    finally:
        narrow.kill()
    assert found == list(range(1, 61))


def test_every_way_to_authenticate(server: NatsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PW", "pa ss")
    password = Secret("passwordEnv", variable="PW")
    server.start(config='authorization { users: [{user: joe, password: "pa ss"}] }')
    assert "streams" in greets(Access(server.url, user="joe", password=password))
    with pytest.raises(Unavailable, match="Authorization Violation"):
        greets(Access(server.url, timeout=0.1))
    server.restart(config='authorization { token: "pa ss" }')
    assert "streams" in greets(Access(server.url, token=Secret("tokenFile", file=file(tmp_path, "pa ss\n"))))
    key = user_key()
    server.restart(config=f"authorization {{ users: [{{nkey: {key.public}}}] }}")
    assert "streams" in greets(Access(server.url, nkey_seed_file=file(tmp_path, key.seed)))


def test_a_credentials_file(server: NatsServer, tmp_path: Path) -> None:
    operator = Operator()
    server.start(config=operator.config)
    with Connection(Access(server.url, creds_file=file(tmp_path, operator.credentials()))) as connection:
        # The account has no JetStream: an answer is all that is wanted.
        assert b"jetstream not enabled" in connection.request("$JS.API.INFO").data.lower()
    with pytest.raises(Unavailable, match="Authorization Violation"):
        greets(Access(server.url, creds_file=file(tmp_path, Operator().credentials()), timeout=0.1))


def test_tls_with_a_client_certificate(server: NatsServer, tmp_path: Path) -> None:
    made = Certificates(tmp_path / "tls")
    server.start(config=made.config(verify=True))
    whole = Access(
        server.url, tls_ca_file=made.ca, tls_cert_file=made.client_cert, tls_key_file=made.client_key, timeout=5
    )
    assert "streams" in greets(whole)
    with pytest.raises(Unavailable):
        greets(Access(server.url, tls_ca_file=made.ca, timeout=0.1))
    with pytest.raises(Misconfigured, match="tlsCaFile"):
        greets(Access(server.url, tls_ca_file="/not/there"))


def test_tls_that_is_asked_for_is_not_done_without(server: NatsServer, tmp_path: Path) -> None:
    server.start()
    with pytest.raises(Misconfigured, match="offers none"):
        greets(Access(server.url, tls_ca_file=Certificates(tmp_path / "tls").ca))


def test_another_server_takes_over(nats_server: NatsServer, server: NatsServer) -> None:
    gone = server.url
    assert "streams" in greets(Access(f"{gone},{nats_server.url}"))


def test_what_a_user_may_not_do_is_told_at_once(server: NatsServer) -> None:
    deny = '{publish: {deny: "$JS.API.CONSUMER.>"}}'
    server.start(config=f"authorization {{ users: [{{user: a, password: b, permissions: {deny}}}] }}")
    os.environ["PW_OF_A"] = "b"
    access = Access(server.url, user="a", password=Secret("passwordEnv", variable="PW_OF_A"))
    with Connection(access) as connection:
        jetstream = BlockingApi(connection)
        Streams(jetstream, "EV").make()
        with pytest.raises(Refused, match="Permissions Violation"):
            list(read_pulled(jetstream, "EV", 1, 10))


@pytest.mark.parametrize("read", [read_pulled, read_direct])
def test_a_read_goes_on_where_a_server_that_died_left_it(server: NatsServer, read: object) -> None:
    server.start()
    with Connection(Access(server.url)) as connection:
        jetstream = BlockingApi(connection)
        streams = Streams(jetstream, "EV")
        streams.make(storage="file")
        streams.fill(60_000)
        reading = (read_pulled if read is read_pulled else read_direct)(jetstream, "EV", 1, 60_001)
        found = list(next(reading).sequences)
        server.kill()
        server.start()
        for messages in reading:
            found += messages.sequences
        assert found == list(range(1, 60_001))


def test_a_server_that_is_silent_is_left(server: NatsServer) -> None:
    """Not closed, not refused: stopped. Nothing tells but its silence."""
    server.start()
    with Connection(Access(server.url)) as connection:
        jetstream = BlockingApi(connection)
        streams = Streams(jetstream, "EV")
        streams.make()
        streams.fill(30_000)
        reading = read_pulled(jetstream, "EV", 1, 30_001)
        found = list(next(reading).sequences)
        server.freeze()
        wake = threading.Timer(8.0, os.kill, (server.pid, signal.SIGCONT))
        wake.start()
        for messages in reading:
            found += messages.sequences
        wake.join()
        assert found == list(range(1, 30_001))
        assert connection.generation > 1


def test_a_consumer_that_is_deleted_is_made_again(jetstream: BlockingApi, streams: Streams) -> None:
    stream = streams.make()
    streams.fill(40_000)
    with Connection(jetstream.connection.access) as connection:
        reading = read_pulled(BlockingApi(connection), stream, 1, 40_001)
        found = list(next(reading).sequences)
        [name] = jetstream.call(f"CONSUMER.NAMES.{stream}")["consumers"]
        jetstream.delete_consumer(stream, name)
        for messages in reading:
            found += messages.sequences
    assert found == list(range(1, 40_001))
    assert not jetstream.call(f"CONSUMER.NAMES.{stream}")["consumers"]


def test_a_consumer_that_has_less_than_the_leader_is_not_believed(
    jetstream: BlockingApi, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a follower that lags: it says that nothing is pending, and the leader knows better."""
    stream = streams.make()
    streams.fill(100)
    asked: list[int] = []
    really = BlockingApi.message_after

    def message_after(self: BlockingApi, stream: str, sequence: int, filters: tuple[str, ...] = ()) -> object:
        answer = really(self, stream, sequence, filters)
        if sequence == 101 and not asked:
            asked.append(sequence)
            # The leader has stored another one in the meantime.
            streams.fill(1, start=100)
            return {"seq": 101}
        return answer

    monkeypatch.setattr(BlockingApi, "message_after", message_after)
    with Connection(jetstream.connection.access) as connection:
        found = [n for messages in read_pulled(BlockingApi(connection), stream, 1, 102) for n in messages.sequences]
    assert found == list(range(1, 102))
    assert asked == [101]


def test_messages_that_were_lost_on_the_way_are_read_again(
    jetstream: BlockingApi, streams: Streams, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = streams.make()
    streams.fill(20_000)
    lost: list[bytes] = []
    really = pull.delivered

    def delivered(bulk: pull.Bulk) -> pull.Delivered:
        if not lost:
            lost.append(bulk.payloads.pop(5000))
            for column in (bulk.subjects, bulk.replies, bulk.blocks):
                del column[5000]
        return really(bulk)

    monkeypatch.setattr(pull, "delivered", delivered)
    with Connection(jetstream.connection.access) as connection:
        found = [n for messages in read_pulled(BlockingApi(connection), stream, 1, 20_001) for n in messages.sequences]
    assert lost
    assert found == list(range(1, 20_001))


def test_only_so_much_is_on_its_way(server: NatsServer) -> None:
    """A reader that stops reading is no slow consumer to the server."""
    server.start(config="max_pending: 40MB\nmax_payload: 8MB")
    with Connection(Access(server.url)) as connection:
        jetstream = BlockingApi(connection)
        streams = Streams(jetstream, "EV")
        streams.make(storage="file")
        sizes = [200_000] * 300 + [7_900_000, 10, 7_900_000]
        streams.store(("ev.a", {}, b"z" * size) for size in sizes)
        reading = read_pulled(jetstream, "EV", 1, len(sizes) + 1)
        found = [len(payload) for payload in next(reading).payloads]
        with Connection(Access(server.url)) as other:
            # As long as it takes to read all, the server could send all that was asked for.
            assert sum(len(messages) for messages in read_pulled(BlockingApi(other), "EV", 1, len(sizes) + 1)) == len(
                sizes
            )
        found += [len(payload) for messages in reading for payload in messages.payloads]
        assert found == sizes
        assert connection.generation == 1


def test_publishes_are_stored_once_although_the_server_dies(server: NatsServer) -> None:
    server.start()
    with Connection(Access(server.url)) as connection:
        jetstream = BlockingApi(connection)
        Streams(jetstream, "EV").make(storage="file", duplicate_window=120_000_000_000)
        publisher = Publisher(connection, window=500)
        for n in range(5000):
            publisher.send(Outgoing("ev.a", header_block({"Nats-Msg-Id": str(n)}), b"%d" % n))
            if n == 2500:
                server.kill()
                server.start()
        publisher.finish()
        found = jetstream.stream("EV")
        assert found is not None
        assert found.messages == 5000
    assert publisher.stored + publisher.duplicates == 5000


def test_what_no_stream_takes_is_told(nats_server: NatsServer) -> None:
    with Connection(Access(nats_server.url)) as connection:
        publisher = Publisher(connection)
        publisher.send(Outgoing("nobody.takes.this", b"", b""))
        with pytest.raises(Refused, match=r"no stream captures the subject 'nobody\.takes\.this'"):
            publisher.finish()


def test_what_no_stream_takes_is_told_also_where_somebody_takes_every_message(nats_server: NatsServer) -> None:
    with Connection(Access(nats_server.url)) as curious, Connection(Access(nats_server.url)) as connection:
        curious.send(subscribe(">", curious.new_sid()))
        curious.verify(5.0)
        publisher = Publisher(connection)
        publisher.send(Outgoing("nobody.takes.this", b"", b""))
        began = time.monotonic()
        with pytest.raises(Refused, match=r"no stream captures the subject 'nobody\.takes\.this'"):
            publisher.finish()
    assert time.monotonic() - began < 10.0


def test_what_a_stream_refuses_is_told(jetstream: BlockingApi, streams: Streams) -> None:
    streams.make(max_msg_size=10)
    with Connection(jetstream.connection.access) as connection:
        publisher = Publisher(connection)
        publisher.send(Outgoing(f"{streams.root}.a", b"", b"far too long for it"))
        with pytest.raises(Refused, match="message size exceeds maximum allowed"):
            publisher.finish()
