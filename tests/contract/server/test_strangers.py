"""Strangers at the port of each function, before any token is looked at: connections cost their senders, not others.

`task faults:strangers` has the whole of it, with figures; these are the short versions.
"""

from __future__ import annotations

import asyncio
import resource
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import aiohttp
import psutil
import pytest

from headrace.server import connection
from tests.support.functions.functions import Function
from tests.support.functions.in_process import InProcess
from tests.support.http.sending import BINARY, send
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.programs.process import DidNotStart
from tests.support.programs.scraping import scrape
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

FUNCTIONS = ("receive", "forward", "reconcile")
PATIENCE = 20.0
MIB = 2**20
TINY = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
CHUNKED = b"POST /shop/orders HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
# The bytes that one connection may hold: what is read at once is a quarter of a megabyte.
READ = 256 * 1024


@pytest.fixture(scope="module", params=FUNCTIONS)
def function(request: pytest.FixtureRequest, shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    port = str(free_port())
    with Function(request.param, shared_server.url, served_directory, METRICS_PORT=port) as served:
        yield served


def resident(function: Function) -> int:
    return int(psutil.Process(function.pid).memory_info().rss)


def plugs(function: Function, count: int, stack: ExitStack) -> list[socket.socket]:
    return [stack.enter_context(socket.create_connection(("127.0.0.1", function.port), 5)) for _ in range(count)]


def closed(plug: socket.socket) -> bool:
    """Has the server closed it?"""
    plug.settimeout(0.01)
    try:
        while plug.recv(READ):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


async def probed(function: Function) -> int:
    return (await send(f"{function.url}/healthz", method="GET")).status


async def held(function: Function) -> float:
    told = await scrape(function.metrics)
    names = ["headrace_request_bytes", *(["headrace_receive_waiting_bytes"] if function.target == "receive" else [])]
    return sum(told.value(name, **({"function": function.target} if "request" in name else {})) for name in names)


async def nothing_is_held(function: Function) -> None:
    async def nothing() -> bool:
        # But for the scrape itself.
        return await held(function) < 16 * 1024

    await until("nothing is held when they are gone", nothing)


async def test_pipelining_without_end_costs_one_read_which_is_counted(function: Function) -> None:
    before = resident(function)
    with ExitStack() as stack:
        for plug in plugs(function, 20, stack):
            plug.setblocking(False)
            with suppress(BlockingIOError):
                while plug.send(TINY * 4000):
                    pass
        await asyncio.sleep(0.5)
        counted = await held(function)
        assert await probed(function) == 200
        # Parsed ahead, what one read brings would be 15 MiB for each.
        assert resident(function) - before < 20 * READ + 10 * MIB
        assert READ < counted <= 21 * READ
    await nothing_is_held(function)


@pytest.mark.parametrize(
    ("begun", "more", "answered"),
    [
        pytest.param(CHUNKED + b"0\r\na: ", b"b", b"431", id="a trailer"),
        pytest.param(CHUNKED + b"0\r\n", b"a: b\r\n", b"431", id="trailers"),
        pytest.param(CHUNKED + b"1;a=", b"b", b"431", id="a chunk extension"),
        pytest.param(b"", b"\r\n", b"400", id="blank lines"),
        pytest.param(b"GET /", b"a", b"414", id="a request line"),
        pytest.param(b"GET / HTTP/1.1\r\na: ", b"b", b"431", id="a header"),
        pytest.param(b"GET / HTTP/1.1\r\nhost: x\r\n: b\r\n\r\n", b"", b"400", id="a header without a name"),
    ],
)
async def test_whatever_has_no_end_is_refused_like_a_head(
    function: Function, begun: bytes, more: bytes, answered: bytes
) -> None:
    before = resident(function)
    reader, writer = await asyncio.open_connection("127.0.0.1", function.port)
    writer.write(begun)
    said = b""
    async with asyncio.timeout(PATIENCE):
        # Slowly: who sends on while the server closes may lose the answer.
        for _ in range(25):
            writer.write(more * (4096 // max(1, len(more))))
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    said += await reader.read(1000)
            if b"\r\n\r\n" in said or reader.at_eof():
                break
    writer.close()
    with suppress(ConnectionError):
        said += await reader.read(1000)
    last = said[said.rindex(b"HTTP/1.1 ") :]
    # An answer that was given before the end came takes the refusal's place.
    assert last.split(b" ")[1] == answered or (begun.startswith(b"POST") and function.target != "receive"), said
    assert b"connection: close" in last or reader.at_eof()
    assert resident(function) - before < 5 * MIB


async def test_chunks_of_one_byte_hold_up_nobody(function: Function) -> None:
    async def ask() -> float:
        began = time.monotonic()
        assert await probed(function) == 200
        return time.monotonic() - began

    with ExitStack() as stack:
        for plug in plugs(function, 20, stack):
            plug.setblocking(False)
            plug.send(CHUNKED)
            with suppress(OSError):
                while plug.send(b"1\r\nx\r\n" * 20_000):
                    pass
        took = sorted([await ask() for _ in range(30)])
    # All that they have sent at once is a second of work.
    assert took[len(took) // 2] < 0.1
    await nothing_is_held(function)


async def test_an_idle_connection_keeps_next_to_nothing_of_its_request(function: Function) -> None:
    request = TINY[:-2] + b"a: " + b"b" * 60_000 + b"\r\n\r\n"

    async def answered(plug: socket.socket) -> None:
        plug.sendall(request)
        assert plug.recv(READ)

    with ExitStack() as stack:
        for plug in plugs(function, 30, stack):
            await answered(plug)
        before = resident(function)
        for plug in plugs(function, 600, stack):
            await answered(plug)
        assert resident(function) - before < 600 * 12 * 1024
        assert (await scrape(function.metrics)).value("headrace_connections", function=function.target) >= 630


@pytest.mark.parametrize("target", FUNCTIONS)
async def test_for_one_more_than_there_may_be_the_oldest_idle_one_goes(
    target: str, shared_server: NatsServer, tmp_path: Path
) -> None:
    port = str(free_port())
    settings = {"METRICS_PORT": port, "HEADRACE_MAX_CONNECTIONS": "16"}
    with Function(target, shared_server.url, tmp_path, **settings) as small, ExitStack() as stack:
        opened = []
        for _ in range(14):
            opened += plugs(small, 1, stack)
            await asyncio.sleep(0.05)
        await asyncio.sleep(1.1)
        late = plugs(small, 4, stack)
        assert await probed(small) == 200
        await asyncio.sleep(0.1)
        gone = [closed(plug) for plug in opened]
        assert gone == sorted(gone, reverse=True)
        assert 3 <= sum(gone) < 14
        assert not any(closed(plug) for plug in late)
        told = await scrape(small.metrics)
        assert told.value("headrace_connections_closed_total", function=target, reason="crowded") >= 3


async def test_those_who_are_slow_on_purpose_do_not_keep_others_out(shared_server: NatsServer, tmp_path: Path) -> None:
    with Function("receive", shared_server.url, tmp_path, HEADRACE_MAX_CONNECTIONS="16") as small, ExitStack() as stack:
        for plug in plugs(small, 16, stack):
            plug.sendall(TINY[:-4])
        await asyncio.sleep(1.1)
        assert await probed(small) == 200


@pytest.mark.parametrize("target", FUNCTIONS)
async def test_requests_without_end_on_all_connections_keep_nobody_out(
    target: str, shared_server: NatsServer, tmp_path: Path
) -> None:
    async def flood(small: Function) -> None:
        while True:
            with suppress(OSError), socket.socket() as plug:
                plug.setblocking(False)
                await loop.sock_connect(plug, ("127.0.0.1", small.port))
                await loop.sock_sendall(plug, TINY * 3)
                while await loop.sock_recv(plug, READ):
                    await loop.sock_sendall(plug, TINY * 3)
            # One that is refused at once would keep this process too busy for the honest client.
            await asyncio.sleep(0.01)

    loop = asyncio.get_running_loop()
    with Function(target, shared_server.url, tmp_path, HEADRACE_MAX_CONNECTIONS="16") as small:
        floods = [asyncio.create_task(flood(small)) for _ in range(32)]
        await asyncio.sleep(0.5)
        served = 0
        for _ in range(50):
            with suppress(aiohttp.ClientError):
                served += await probed(small) == 200
        for one in floods:
            one.cancel()
        await asyncio.gather(*floods, return_exceptions=True)
    assert served >= 45


async def test_half_bodies_do_not_hold_the_room_of_whole_events(shared_server: NatsServer, tmp_path: Path) -> None:
    async def half(small: Function, size: int) -> None:
        head = b"POST /shop/orders HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % (size + 1)
        while True:
            with suppress(OSError), socket.socket() as plug:
                plug.setblocking(False)
                await loop.sock_connect(plug, ("127.0.0.1", small.port))
                await loop.sock_sendall(plug, head + b"x" * size)
                while await loop.sock_recv(plug, READ):
                    pass
            await asyncio.sleep(0.1)

    loop = asyncio.get_running_loop()
    with Function("receive", shared_server.url, tmp_path, RECEIVE_MAX_WAITING_BYTES=str(2 * MIB)) as small:
        # Small ones fill what larger ones leave.
        halves = [asyncio.create_task(half(small, size)) for size in (*[200_000] * 20, *[14_000] * 20, *[2_000] * 60)]
        await asyncio.sleep(1.0)
        statuses = []
        for number in range(50):
            sent = await send(f"{small.url}/shop/nothing", b"{}", {**BINARY, "ce-id": str(number)})
            statuses.append(sent.status)
            await asyncio.sleep(0.02)
        for one in halves:
            one.cancel()
        await asyncio.gather(*halves, return_exceptions=True)
    # There is no such channel, which an event for whom there is no room is not told.
    assert statuses.count(404) >= 40, statuses


class FewFiles(Function):
    """A function that may have 256 files open."""

    program = (
        "-c",
        "import resource, runpy; resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)); "
        "runpy.run_module('headrace.host', run_name='__main__')",
    )


@pytest.mark.parametrize("target", FUNCTIONS)
async def test_more_silent_clients_than_files_keep_nobody_out(
    target: str, shared_server: NatsServer, tmp_path: Path
) -> None:
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000
    with FewFiles(target, shared_server.url, tmp_path) as small, ExitStack() as stack:
        plugs(small, 400, stack)
        await asyncio.sleep(1.1)
        for _ in range(5):
            assert await probed(small) == 200
        assert (await send(f"{small.url}/health/readiness", method="GET")).status == 200
        assert psutil.Process(small.pid).num_fds() < 256


async def test_a_number_of_connections_beyond_the_files_is_refused(shared_server: NatsServer, tmp_path: Path) -> None:
    with pytest.raises(DidNotStart, match=r"HEADRACE_MAX_CONNECTIONS is 200, .* only 256 files open: give at most 192"):
        FewFiles("receive", shared_server.url, tmp_path, HEADRACE_MAX_CONNECTIONS="200").start()


async def _serve(target: str, server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> InProcess:
    monkeypatch.setenv("NATS_URL", server.url)
    monkeypatch.setenv("HEADRACE_TOKEN", "token")
    return InProcess(target)


@pytest.mark.parametrize("target", FUNCTIONS)
async def test_a_client_that_says_nothing_or_reads_nothing_is_closed(
    target: str, shared_server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "REQUEST_SECONDS", 0.5)
    with await _serve(target, shared_server, monkeypatch) as served:
        port = int(served.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        writer.close()

        def reads_nothing() -> None:
            with socket.socket() as plug:
                plug.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                plug.settimeout(PATIENCE)
                plug.connect(("127.0.0.1", port))
                # Reset, and not the time-out of this socket.
                with suppress(ConnectionError):
                    while True:
                        plug.sendall(TINY * 1000)

        await asyncio.to_thread(reads_nothing)
        assert {reason: count for reason, count in served.app.crowd.closed.items() if count} == {
            "silent": 1,
            "unread": 1,
        }


@pytest.mark.parametrize("target", FUNCTIONS)
async def test_an_end_waits_for_no_stranger(target: str, shared_server: NatsServer, tmp_path: Path) -> None:
    with Function(target, shared_server.url, tmp_path) as mortal, ExitStack() as stack:
        silent, unread, late, half = plugs(mortal, 4, stack)
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        unread.setblocking(False)
        with suppress(BlockingIOError):
            while unread.send(TINY * 4000):
                pass
        late.sendall(CHUNKED)
        half.sendall(TINY)
        half.shutdown(socket.SHUT_WR)
        # The other end of this one resets.
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await asyncio.sleep(0.5)
        began = time.monotonic()
        mortal.terminate()
        assert await asyncio.to_thread(mortal.wait) == 0
        assert time.monotonic() - began < 6
