"""The engine among servers that crash, freeze, leave, forbid, or are none."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Arrival, Broken
from headrace.io.nats.engine.answers import SILENT_SECONDS
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.waiting import until

# What is said here does not depend on the loop; TLS and transports do, and are tried on both.
one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Client]:
    client = Client(NatsSettings(url=url))
    try:
        yield client
    finally:
        await client.close()


def disconnects(client: Client) -> list[float]:
    """When (loop time) the connection was lost or replaced."""
    times: list[float] = []
    client.on_disconnect.append(lambda: times.append(asyncio.get_running_loop().time()))
    return times


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[list[NatsServer]]:
    """Two servers that know each other."""
    ports = [free_port(), free_port()]
    routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
    servers = [
        NatsServer(
            tmp_path / name,
            config=f'server_name: "{name}"\ncluster {{ name: "pair", listen: "127.0.0.1:{port}", routes: [{routes}] }}',
        )
        for name, port in zip(("one", "two"), ports, strict=True)
    ]
    try:
        yield [server.start() for server in servers]
    finally:
        for server in servers:
            server.kill()


async def found_each_other(servers: list[NatsServer]) -> None:
    """What is said to one is heard at the other."""
    async with opened(servers[0].url) as one, opened(servers[1].url) as two:
        heard: list[Arrival] = []
        await two.subscribe("hello", heard.append)
        await one.ready(5)
        await two.ready(5)

        async def is_heard() -> bool:
            await one.publish("hello")
            await one.flush(5)
            return bool(heard)

        await until("the servers are a cluster", is_heard)


async def answers(client: Client, subject: str) -> None:
    replies: set[asyncio.Task[None]] = set()
    await client.subscribe(subject, lambda asked: replies.add(asyncio.ensure_future(client.publish(asked.reply, b"!"))))
    await client.ready(5)
    await client.flush(5)


async def test_a_dead_server_in_the_list_costs_nothing(nats_server):
    async with opened(f"nats://127.0.0.1:{free_port()},{nats_server.url}") as client:
        await client.ready(1)


@one_loop
async def test_a_server_that_was_not_configured_but_discovered_takes_over(cluster):
    await found_each_other(cluster)
    async with opened(cluster[0].url) as client, opened(cluster[1].url) as other:
        await client.ready(5)
        heard: list[Arrival] = []
        await client.subscribe("talk", heard.append)
        cluster[0].kill()
        await until("the crash is noticed", lambda: not client.connected)
        await client.ready(5)
        await client.flush(5)
        await other.ready(5)
        await other.publish("talk", b"over the other server")
        await until("the subscription has moved, too", lambda: [it.data for it in heard] == [b"over the other server"])


@one_loop
async def test_a_lame_duck_is_left_for_another_server_before_it_hangs_up(cluster):
    await found_each_other(cluster)
    async with opened(cluster[0].url) as client, opened(cluster[1].url) as other:
        await answers(other, "echo")
        await client.ready(5)
        moved = disconnects(client)
        os.kill(cluster[0].pid, signal.SIGUSR2)
        while not moved:
            assert (await client.request("echo", timeout=5)).data == b"!"
        assert client.connected
        assert (await client.request("echo", timeout=5)).data == b"!"
        cluster[0].kill()
        assert (await client.request("echo", timeout=5)).data == b"!"
        assert len(moved) == 1


@one_loop
async def test_a_lame_duck_that_dies_before_it_has_answered_fails_what_it_was_asked_at_once(cluster):
    await found_each_other(cluster)
    async with opened(cluster[0].url) as client, opened(cluster[1].url) as other:
        asked: list[Arrival] = []
        await other.subscribe("silent", asked.append)
        await other.ready(5)
        await other.flush(5)
        await client.ready(5)
        request = asyncio.create_task(client.request("silent", timeout=20))
        told: list[object] = []
        await until("it was asked", lambda: bool(asked))
        assert client.ask("silent", b"", b"", 20, told.append)
        await until("it was asked again", lambda: len(asked) == 2)
        moved = disconnects(client)
        os.kill(cluster[0].pid, signal.SIGUSR2)
        await until("the client has moved", lambda: bool(moved))
        assert not request.done()
        assert not told
        cluster[0].kill()
        with pytest.raises(Broken):
            await request
        assert [type(found) for found in told] == [Broken]
        assert asyncio.get_running_loop().time() - moved[0] < 1.5
        assert client.connected


@one_loop
async def test_a_lame_duck_that_is_alone_is_used_until_it_hangs_up(nats_server, client):
    await client.ready(5)
    lost = disconnects(client)
    os.kill(nats_server.pid, signal.SIGUSR2)
    for _ in range(5):
        await asyncio.sleep(0.1)
        assert (await client.request("nobody", timeout=5)).status == "503"
    assert not lost
    nats_server.kill()
    nats_server.start()
    await until("the end is noticed", lambda: bool(lost))
    await client.ready(5)


@one_loop
async def test_what_the_server_forbids_fails_at_once_and_alone(nats_server):
    nats_server.restart(
        config='authorization { users: [ { user: "me", password: "x", permissions: '
        '{ publish: { deny: "forbidden.>" }, subscribe: { deny: "secret" } } } ] }'
    )
    async with opened(f"nats://me:x@127.0.0.1:{nats_server.port}") as client:
        await client.ready(5)
        lost = disconnects(client)
        heard: list[Arrival] = []
        await client.subscribe("silent", heard.append)
        other = asyncio.create_task(client.request("silent", timeout=20))
        with pytest.raises(Refused, match="forbids us to publish to forbidden") as refused:
            await client.request("forbidden.it", timeout=20)
        assert refused.value.status == 403
        await client.subscribe("secret", heard.append)
        await until("the other request came", lambda: bool(heard))
        await client.publish(heard[0].reply, b"fine")
        assert (await other).data == b"fine"
        assert not lost


async def test_a_faulty_subscriber_costs_neither_the_connection_nor_the_messages_of_others(client):
    await client.ready(5)
    lost = disconnects(client)
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["exception"]))
    heard: list[Arrival] = []

    def faulty(arrival: Arrival) -> None:
        raise RuntimeError(f"can't take {arrival.data!r}")

    await client.subscribe("talk", faulty)
    await client.subscribe("talk", heard.append)
    for number in range(10):
        await client.publish("talk", b"%d" % number)
    await until("all came", lambda: len(heard) == 10)
    assert [type(error) for error in reported] == [RuntimeError] * 10
    assert not lost


@one_loop
async def test_a_question_that_the_former_server_did_not_answer_does_not_count_for_the_next(nats_server):
    # A name, since it may stand for another server.
    async with opened(f"nats://localhost:{nats_server.port}") as client:
        await client.subscribe("deaf", lambda _: None)
        await client.ready(5)
        moved = disconnects(client)

        async def is_not_answered() -> None:
            with pytest.raises(Unavailable):
                await client.request("deaf", timeout=0.1)

        await is_not_answered()
        nats_server.restart()
        await until("the end is noticed", lambda: bool(moved))
        await client.ready(5)
        await asyncio.sleep(SILENT_SECONDS)
        await is_not_answered()
        await asyncio.sleep(0.2)
        assert len(moved) == 1
        await asyncio.sleep(SILENT_SECONDS)
        await is_not_answered()
        await until("it is left after two", lambda: len(moved) == 2)


@one_loop
async def test_no_way_out_of_a_connection_that_lives_is_no_loss_of_it(nats_server):
    async with opened(f"{nats_server.url},nats://127.0.0.1:{free_port()}") as client:
        await client.ready(5)
        with capture_logs() as logged:
            client._upkeep.leave()
            await until("it has tried", lambda: len(logged) == 1)
            nats_server.kill()
            await until("the end is noticed", lambda: len(logged) >= 3)
    assert [(line["log_level"], line["event"]) for line in logged[:3]] == [
        ("debug", "cannot connect to NATS"),
        ("warning", "connection to NATS lost"),
        ("debug", "cannot connect to NATS"),
    ]


HELLO = b'INFO {"max_payload":1048576}\r\n'


@pytest.mark.parametrize(
    "said",
    [
        pytest.param([b"HTTP/1.1 400 Bad Request\r\n\r\n"], id="another protocol"),
        pytest.param([b""], id="nothing, and hangs up"),
        pytest.param([b"INFO {\r\n"], id="a broken INFO"),
        pytest.param([b"INFO {" + b" " * 300_000], id="an INFO without end"),
        pytest.param([HELLO, b"-ERR 'maximum connections exceeded'\r\n"], id="a full server"),
        pytest.param([HELLO, b"+OK\r\nwhat?\r\n"], id="garbage after the greeting"),
        pytest.param([HELLO, b"PONG\r\nMSG a 1 99999999999\r\n"], id="a message beyond all bounds"),
        pytest.param([HELLO, b"PONG\r\nPING\r\nHMSG a 1 9 5\r\nhello\r\n"], id="nonsense after the first PONG"),
        pytest.param([b'INFO {"tls_required":true}\r\nMSG'], id="words in the clear before TLS"),
    ],
)
async def test_a_server_that_is_none_is_left_and_the_real_one_found(tmp_path, said):
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    clients: list[asyncio.StreamWriter] = []

    async def hostile(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        clients.append(writer)
        for words in said:
            writer.write(words)
            if words is HELLO:
                await reader.readline()
        writer.close()

    real = NatsServer(tmp_path / "real")
    stranger = await asyncio.start_server(hostile, "127.0.0.1", real.port)
    async with opened(real.url) as client:
        engine_is_up = asyncio.create_task(client.ready(20))
        await until("it has tried", lambda: len(clients) >= 2)
        stranger.close()
        await stranger.wait_closed()
        real.start()
        try:
            await engine_is_up
            await until("it talks with the real one", lambda: talks(client), 20)
        finally:
            real.kill()
    assert not reported


async def talks(client: Client) -> bool:
    try:
        return (await client.request("nobody", timeout=2)).status == "503"
    except HeadraceError:
        return False
