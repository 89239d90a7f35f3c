"""What only kn func's scaffold has: our own server inside `new()`, on the addresses that it names."""

from __future__ import annotations

import asyncio

import pytest
from tests.hosts.environments import COMBINATIONS, Kind, prepared
from tests.support.nats_server import free_port


@pytest.mark.parametrize(("kind", "version"), COMBINATIONS)
def test_each_host_has_an_environment_without_the_other(kind, version):
    environment = prepared(kind, version)
    assert environment.has("functions_framework") == (kind is Kind.FRAMEWORK)
    assert environment.has("func_python") == (kind is Kind.SCAFFOLD)


async def test_it_listens_on_every_address_of_the_list(scaffold, http):
    first, second = free_port(), free_port()
    receive = scaffold.start("receive", LISTEN_ADDRESS=f"127.0.0.1:{first},127.0.0.1:{second}")
    receive.port = first
    receive.wait_until_ready()
    async with http.get(f"http://127.0.0.1:{second}/health/liveness") as answer:
        assert answer.status == 200


async def test_an_idle_connection_stays_open_for_longer_than_the_scaffold_would_keep_it(scaffold):
    port = int(scaffold.url("receive").rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    request = b"GET /health/liveness HTTP/1.1\r\nhost: localhost\r\n\r\n"
    for pause in (0, 6):  # func-python's own server closes after 5 s
        await asyncio.sleep(pause)
        writer.write(request)
        assert await reader.readuntil(b"\r\n") == b"HTTP/1.1 200 OK\r\n"
        await reader.readuntil(b"\r\n\r\n")
    writer.close()


def test_an_unknown_function_ends_with_one_line_that_says_what_to_do(scaffold):
    receive = scaffold.start("recieve")
    assert receive.wait(20) == 2
    assert receive.log.splitlines()[-1] == (
        "headrace: FUNCTION_TARGET is 'recieve': set it to receive, forward or reconcile"
    )
