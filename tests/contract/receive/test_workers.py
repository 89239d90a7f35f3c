"""`receive` in several processes that share a port: all serve, the dead are replaced, all end with their work done."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel
from tests.support.programs.process import DidNotStart
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

EVENT = "".join(f"{name}: {value}\r\n" for name, value in BINARY.items())


@pytest.fixture
def pair(shared_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    """A `receive` with two workers of its own."""
    with Function("receive", shared_server.url, tmp_path, RECEIVE_WORKERS="2") as function:
        yield function


class Impatient(Function):
    """One whose parent misses a sign of life sooner."""

    program = (
        "-c",
        """
import sys
from headrace.host import serving
from headrace.server import pulse
pulse.BEAT_SECONDS, pulse.LOOK_SECONDS, pulse.SILENT_SECONDS = 0.1, 1.0, 4.0
sys.exit(serving.main())
""",
    )


@pytest.fixture
def impatient(shared_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    with Impatient("receive", shared_server.url, tmp_path, RECEIVE_WORKERS="2") as function:
        yield function


def workers(function: Function) -> list[psutil.Process]:
    return psutil.Process(function.pid).children(recursive=True)


def serves(worker: psutil.Process, function: Function) -> int:
    """The connections that it has accepted."""
    return sum(
        connection.status == psutil.CONN_ESTABLISHED and connection.laddr.port == function.port
        for connection in worker.net_connections("tcp")
    )


def unread(function: Function) -> int:
    """The bytes that have come to its port and that it has not read yet."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]]
    here = f":{function.port:04X}"
    return sum(int(line[4].partition(":")[2], 16) for line in lines if line[1].endswith(here))


class Producer:
    """One connection that is kept."""

    def __init__(self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._path = path
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, function: Function, channel: Channel) -> Producer:
        return cls(channel.path, *await asyncio.open_connection("127.0.0.1", function.port))

    def begin(self, id: str) -> None:
        head = f"POST {self._path} HTTP/1.1\r\nhost: x\r\n{EVENT.replace('ce-id: 1', f'ce-id: {id}')}content-length: 4"
        self._writer.write(f"{head}\r\n\r\ndata".encode())

    async def answer(self) -> bytes:
        return await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 20)

    async def ended(self) -> bool:
        try:
            return await asyncio.wait_for(self._reader.read(), 20) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._writer.close()


async def connected(function: Function, channel: Channel, count: int) -> list[Producer]:
    """So many producers, each with an event accepted."""
    found = [await Producer.connect(function, channel) for _ in range(count)]
    for at, producer in enumerate(found):
        producer.begin(f"first-{at}")
    assert {(await producer.answer())[:12] for producer in found} == {b"HTTP/1.1 202"}
    return found


async def test_one_worker_is_the_process_itself(receive: Function) -> None:
    assert workers(receive) == []


async def test_connections_are_spread_over_the_workers(pair: Function, orders: Channel) -> None:
    # 40 connections on one of two workers by chance: once in 10 ** 11 runs.
    producers = await connected(pair, orders, 40)
    first, second = workers(pair)
    assert serves(first, pair) + serves(second, pair) == 40
    assert serves(first, pair) > 0 < serves(second, pair)
    for producer in producers:
        producer.close()


async def test_a_worker_that_dies_is_replaced_and_nobody_else_is_hurt(pair: Function, orders: Channel) -> None:
    victim, other = workers(pair)
    victim.kill()
    await until("it has a successor", lambda: _replaced(pair, victim))
    assert other in workers(pair)
    # Also those connections that came to the dead one's socket meanwhile are served.
    for producer in await connected(pair, orders, 40):
        producer.close()
    assert '"status": -9' in pair.log or "status=-9" in pair.log


async def test_workers_that_die_again_and_again_are_replaced_more_and_more_slowly(
    pair: Function,
) -> None:
    for _ in range(4):
        victim = workers(pair)[0]
        victim.kill()
        await until("it has a successor", lambda victim=victim: _replaced(pair, victim))
        assert len(workers(pair)) == 2
    pauses = [float(found) for found in re.findall(r'seconds"?[:=] ?([0-9.]+)', pair.log)]
    assert len(pauses) == 4
    assert max(pauses) > min(pauses) == 0.1


async def test_a_worker_that_hangs_is_killed_and_replaced(impatient: Function, orders: Channel) -> None:
    victim, other = workers(impatient)
    victim.suspend()
    try:
        await until("it has a successor", lambda: _replaced(impatient, victim), seconds=60)
    finally:
        with suppress(psutil.NoSuchProcess):
            victim.resume()
    assert other in workers(impatient)
    for producer in await connected(impatient, orders, 20):
        producer.close()
    assert "gives no sign of life" in impatient.log


async def test_all_that_are_frozen_together_are_left_alone(impatient: Function, orders: Channel) -> None:
    parent, both = psutil.Process(impatient.pid), workers(impatient)
    for process in (parent, *both):
        process.suspend()
    try:
        # Longer than the silence that is allowed to one of them.
        await asyncio.sleep(5)
    finally:
        for process in (parent, *both):
            process.resume()
    for producer in await connected(impatient, orders, 20):
        producer.close()
    await asyncio.sleep(2)
    assert workers(impatient) == both
    assert "no sign of life" not in impatient.log


async def test_a_worker_that_hangs_at_the_end_is_killed_too(impatient: Function) -> None:
    victim, _ = workers(impatient)
    victim.suspend()
    try:
        impatient.terminate()
        assert await asyncio.to_thread(impatient.wait, 60) == 1
    finally:
        with suppress(psutil.NoSuchProcess):
            victim.resume()


async def _replaced(function: Function, victim: psutil.Process) -> bool:
    found = workers(function)
    return victim not in found and len(found) == 2


async def test_sigterm_lets_every_worker_finish_what_it_has(
    pair: Function, shared_server: NatsServer, orders: Channel
) -> None:
    producers = await connected(pair, orders, 20)
    both = workers(pair)
    shared_server.freeze()
    try:
        # Its threads stop one after the other.
        await until("it has stopped", lambda: psutil.Process(shared_server.pid).status() == psutil.STATUS_STOPPED)
        for at, producer in enumerate(producers):
            producer.begin(f"second-{at}")
        await until("all are read", lambda: unread(pair) == 0)
        pair.terminate()
        await until("nobody listens", lambda: _refuses(pair))
    finally:
        shared_server.thaw()
    answers = [await producer.answer() for producer in producers]
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 202"}
    assert [answer for answer in answers if b"\r\nconnection: close\r\n" not in answer] == []
    assert all([await producer.ended() for producer in producers])
    assert await asyncio.to_thread(pair.wait) == 0
    assert not any(worker.is_running() for worker in both)
    for producer in producers:
        producer.close()


async def _refuses(function: Function) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", function.port)
    except OSError:
        return True
    writer.close()
    return False


async def test_workers_end_when_the_one_that_keeps_them_is_killed(pair: Function) -> None:
    both = workers(pair)
    pair.kill()
    await asyncio.to_thread(psutil.wait_procs, both, timeout=20)
    assert not any(worker.is_running() for worker in both)


async def test_a_port_that_is_taken_is_not_shared_with_strangers(
    pair: Function, shared_server: NatsServer, tmp_path: Path
) -> None:
    second = Function("receive", shared_server.url, tmp_path, RECEIVE_WORKERS="2", PORT=str(pair.port))
    with pytest.raises(DidNotStart, match=r"ended with 2; its log ends:\n(?s:.*)can't listen on 127.0.0.1"):
        await asyncio.to_thread(second.start)
    assert (await send(f"{pair.url}/health/liveness", method="GET")).status == 200
