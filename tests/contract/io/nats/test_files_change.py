"""Files that settings name are read again when they change, by the engine and by Spark's client, without a restart."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Broken
from pyspark_jetstream.client import Access, Connection, LinkBroken
from tests.support.nats.nats_certificates import Certificates
from tests.support.nats.nats_identities import Operator
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])
CONNECT_SECONDS = 20.0


@contextlib.asynccontextmanager
async def connected(**settings: str) -> AsyncIterator[Client]:
    client = Client(NatsSettings.model_validate(settings))
    try:
        await client.ready(CONNECT_SECONDS)
        yield client
    finally:
        await client.close()


async def speaks(client: Client) -> bool:
    try:
        return (await client.request("nobody", timeout=CONNECT_SECONDS)).status == "503"
    except Broken:
        return False


async def test_credentials_that_are_written_anew_are_gone_over_to_before_the_old_ones_end(tmp_path):
    operator, creds = Operator(), tmp_path / "user.creds"
    server = NatsServer(tmp_path / "nats", config=operator.config)
    server.start()
    try:
        creds.write_text(operator.credentials())
        async with connected(url=server.url, creds_file=str(creds)) as client:
            left: list[bool] = []
            client.on_disconnect.append(lambda: left.append(True))
            creds.write_text(operator.credentials())
            await until("it has gone over", lambda: bool(left), CONNECT_SECONDS)
            assert await speaks(client)
    finally:
        server.kill()


async def test_a_server_with_certificates_of_another_authority_is_taken_once_the_file_has_it(tmp_path):
    old, new = Certificates(tmp_path / "old"), Certificates(tmp_path / "new")
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.ca_pem)
    server = NatsServer(tmp_path / "nats", config=old.config())
    server.start()
    try:
        async with connected(url=server.url, tls_ca_file=str(ca)) as client:
            server.restart(config=new.config())
            await until("it is shut out", lambda: not client.connected, CONNECT_SECONDS)
            # Somebody is in the middle of writing it.
            ca.write_bytes(new.ca_pem[:100])
            assert not client.connected
            ca.write_bytes(new.ca_pem)
            await until("it is taken", lambda: speaks(client), CONNECT_SECONDS)
    finally:
        server.kill()


async def test_spark_reads_them_again_with_each_connection(tmp_path):
    old, new = Certificates(tmp_path / "old"), Certificates(tmp_path / "new")
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.ca_pem)
    server = NatsServer(tmp_path / "nats", config=old.config())
    server.start()

    def asks() -> bytes:
        try:
            return connection.request("$JS.API.INFO").data
        except LinkBroken:
            # The old connection, of which the server has taken its leave.
            return connection.request("$JS.API.INFO").data

    try:
        with Connection(Access(server.url, tls_ca_file=str(ca), timeout=CONNECT_SECONDS)) as connection:
            assert b"streams" in await asyncio.to_thread(asks)
            server.restart(config=new.config())
            ca.write_bytes(new.ca_pem)
            assert b"streams" in await asyncio.to_thread(asks)
    finally:
        server.kill()
