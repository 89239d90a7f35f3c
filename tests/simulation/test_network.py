"""Hosts and connections do to programs what machines and TCP do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.network import Network
from tests.simulation.world import blocking

PORT = 80


class Peer(asyncio.Protocol):
    """Writes down what happens to one end of a connection."""

    def __init__(self, said: list[Any]) -> None:
        self.said = said

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self.said.append(data)

    def eof_received(self) -> None:
        self.said.append("end")

    def connection_lost(self, error: Exception | None) -> None:
        self.said.append("lost" if error is None else type(error).__name__)


class Two:
    """A server and a client that are connected; both write down what they see."""

    def __init__(self, *, shuffle: bool = False) -> None:
        self.loop = SimulatedLoop(1, shuffle=shuffle)
        self.network = Network(self.loop, (0.001, 0.002))
        self.server, self.client = self.network.add("server"), self.network.add("client")
        self.at_server: list[Any] = []
        self.at_client: list[Any] = []
        self.peers: list[Peer] = []

    async def connect(self) -> tuple[Any, Any]:
        """The transports of the client and of the server."""
        if self.server.process is None:
            self.network.boot(self.server, self.serve())
        dialled: asyncio.Future[Any] = self.loop.create_future()

        async def dial() -> None:
            transport, _ = await self.loop.create_connection(lambda: Peer(self.at_client), self.server.address, PORT)
            dialled.set_result(transport)
            await asyncio.sleep(1000)

        self.network.boot(self.client, dial())
        mine = await dialled
        await asyncio.sleep(0.1)
        return mine, self.peers[-1].transport

    async def serve(self) -> None:
        def accept() -> Peer:
            self.peers.append(Peer(self.at_server))
            return self.peers[-1]

        await self.loop.create_server(accept, "0.0.0.0", PORT)
        try:
            await asyncio.sleep(1000)
        finally:
            self.at_server.append("cleaned up")


def run(two: Two, story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    two.loop.run(story())
    two.loop.close()


@pytest.mark.parametrize("shuffle", [False, True])
def test_bytes_come_in_order_and_after_a_while(shuffle: bool) -> None:
    two = Two(shuffle=shuffle)

    async def story() -> None:
        mine, _ = await two.connect()
        for word in (b"a", b"b", b"c"):
            mine.write(word)
        assert two.at_server == []
        await asyncio.sleep(0.1)
        assert b"".join(two.at_server) == b"abc"

    run(two, story)


def test_a_killed_process_cleans_nothing_up_and_its_peer_sees_the_end() -> None:
    two = Two()

    async def story() -> None:
        await two.connect()
        two.network.kill(two.server)
        await asyncio.sleep(0.1)
        assert two.at_client == ["end", "lost"]
        assert two.at_server == []

    run(two, story)


def test_where_bytes_lay_unread_the_peer_of_a_killed_process_sees_a_reset() -> None:
    two = Two()

    async def story() -> None:
        mine, other = await two.connect()
        other.pause_reading()
        mine.write(b"unread")
        await asyncio.sleep(0.1)
        two.network.kill(two.server)
        await asyncio.sleep(0.1)
        assert two.at_client == ["ConnectionResetError"]

    run(two, story)


def test_whoever_writes_to_a_machine_without_power_hears_nothing_until_it_is_back() -> None:
    two = Two()

    async def story() -> None:
        mine, _ = await two.connect()
        two.network.kill(two.server, mute=True)
        await asyncio.sleep(100)
        assert two.at_client == []
        mine.write(b"anybody?")
        await asyncio.sleep(0.1)
        assert two.at_client == ["ConnectionResetError"]

    run(two, story)


def test_a_cut_holds_one_direction_up_until_it_is_healed() -> None:
    two = Two()

    async def story() -> None:
        mine, other = await two.connect()
        two.network.cut(two.client, two.server)
        mine.write(b"1")
        mine.write(b"2")
        other.write(b"back")
        await asyncio.sleep(30)
        assert (two.at_server, two.at_client) == ([], [b"back"])
        two.network.heal(two.client, two.server)
        mine.write(b"3")
        await asyncio.sleep(0.1)
        assert b"".join(two.at_server) == b"123"

    run(two, story)


def test_a_frozen_process_reads_when_it_thaws() -> None:
    two = Two()

    async def story() -> None:
        mine, _ = await two.connect()
        assert two.server.process is not None
        two.server.process.thaws = two.loop.now + 5
        mine.write(b"a")
        await asyncio.sleep(4.9)
        assert two.at_server == []
        await asyncio.sleep(0.2)
        assert two.at_server == [b"a"]

    run(two, story)


def test_a_second_life_hears_nothing_of_the_first() -> None:
    two = Two()

    async def story() -> None:
        mine, _ = await two.connect()
        two.network.kill(two.server)
        two.network.boot(two.server, two.serve())
        mine.write(b"to the dead")
        await asyncio.sleep(0.1)
        assert two.at_server == []
        await two.connect()
        two.peers[-1].transport.write(b"well")
        await asyncio.sleep(0.1)
        assert two.at_client[-1] == b"well"

    run(two, story)


def test_who_does_not_read_makes_its_peer_wait() -> None:
    two = Two()

    async def story() -> None:
        mine, other = await two.connect()
        other.pause_reading()
        mine.get_protocol().pause_writing = lambda: two.at_client.append("wait")
        mine.get_protocol().resume_writing = lambda: two.at_client.append("go on")
        mine.write(b"x" * 1_000_000)
        await asyncio.sleep(1)
        assert two.at_client == ["wait"]
        other.resume_reading()
        await asyncio.sleep(1)
        assert two.at_client == ["wait", "go on"]

    run(two, story)


def test_a_program_that_blocks_lets_the_others_run() -> None:
    two = Two()
    heard: list[bytes] = []

    def program() -> None:
        sock = blocking.sockets(two.loop, two.network).create_connection((two.server.address, PORT), timeout=1.0)
        sock.sendall(b"question")
        sock.settimeout(10.0)
        heard.append(sock.recv(100))
        with pytest.raises(TimeoutError):
            sock.recv(100)
        heard.append(b"after %d s" % two.loop.now)

    async def story() -> None:
        two.network.boot(two.server, two.serve())
        two.loop.call_in(Process(two.client), program)
        await asyncio.sleep(1)
        assert b"".join(two.at_server) == b"question"
        two.peers[-1].transport.write(b"answer")
        await asyncio.sleep(20)
        assert heard == [b"answer", b"after 11 s"]

    run(two, story)
