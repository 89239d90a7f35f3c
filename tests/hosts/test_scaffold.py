"""kn func's scaffold alone has this: our own server inside `new()`, on the addresses that it names."""

from __future__ import annotations

import asyncio
import uuid

from tests.hosts.environments import Kind
from tests.hosts.hosted import unique
from tests.support.functions import channels
from tests.support.nats.nats_server import free_port


def test_each_host_has_an_environment_without_the_other(environment):
    assert environment.has("functions_framework") == (environment.kind is Kind.FRAMEWORK)
    assert environment.has("func_python") == (environment.kind is Kind.SCAFFOLD)


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


async def test_a_lease_takes_nothing_new_once_the_process_is_told_to_stop(scaffold, http, sink):
    channel, entry = unique("orders"), channels.entry(str(uuid.uuid4()), subscriberUri=sink.url)
    await scaffold.sync(http, channel, entry)
    await scaffold.send(http, channel, "in the subscriber's hands")
    forward = scaffold.start("forward").wait_until_ready()
    sink.seconds = 1.0
    opened = asyncio.create_task(scaffold.lease(http, forward.url, channel, entry["uid"]))
    await sink.next_arrival()
    forward.terminate()
    # The open pull is given up at once, so this one is for whoever pulls next, at its first delivery.
    await asyncio.sleep(0.3)
    await scaffold.send(http, channel, "too late")
    tally = await opened
    assert tally["delivered"] == 1
    assert (tally["returned"], tally["pending"]) == (0, 1)
    assert [headers["ce-id"] for headers, _ in sink.received] == ["in%20the%20subscriber's%20hands"]


def test_an_unknown_function_ends_with_one_line_that_says_what_to_do(scaffold):
    receive = scaffold.start("recieve")
    assert receive.wait(20) == 2
    assert receive.log.splitlines()[-1] == (
        "headrace: FUNCTION_TARGET is 'recieve': set it to receive, forward or reconcile"
    )
