"""`receive` as a process: it is one, its port is its own, and it ends with its work done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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
def mortal(shared_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    """A `receive` that a test may end."""
    with Function("receive", shared_server.url, tmp_path) as function:
        yield function


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


async def test_it_is_one_process(receive: Function) -> None:
    assert psutil.Process(receive.pid).children(recursive=True) == []


async def test_sigterm_lets_it_finish_what_it_has(mortal: Function, shared_server: NatsServer, orders: Channel) -> None:
    producers = await connected(mortal, orders, 20)
    shared_server.freeze()
    try:
        # Its threads stop one after the other.
        await until("it has stopped", lambda: psutil.Process(shared_server.pid).status() == psutil.STATUS_STOPPED)
        for at, producer in enumerate(producers):
            producer.begin(f"second-{at}")
        await until("all are read", lambda: unread(mortal) == 0)
        mortal.terminate()
        await until("nobody listens", lambda: _refuses(mortal))
    finally:
        shared_server.thaw()
    answers = [await producer.answer() for producer in producers]
    assert {answer[:12] for answer in answers} == {b"HTTP/1.1 202"}
    assert [answer for answer in answers if b"\r\nconnection: close\r\n" not in answer] == []
    assert all([await producer.ended() for producer in producers])
    assert await asyncio.to_thread(mortal.wait) == 0
    for producer in producers:
        producer.close()


async def _refuses(function: Function) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", function.port)
    except OSError:
        return True
    writer.close()
    return False


async def test_a_port_that_is_taken_is_not_shared_with_strangers(
    mortal: Function, shared_server: NatsServer, tmp_path: Path
) -> None:
    second = Function("receive", shared_server.url, tmp_path, PORT=str(mortal.port))
    with pytest.raises(DidNotStart, match=r"ended with 2; its log ends:\n(?s:.*)can't listen on 127.0.0.1"):
        await asyncio.to_thread(second.start)
    assert (await send(f"{mortal.url}/health/liveness", method="GET")).status == 200
