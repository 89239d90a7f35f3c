"""Sockets and a clock for a program that blocks: while it waits, all others run.

They stand in for the modules `socket` and `time` in the modules of Spark's client.
"""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

from headrace.io.process import clock
from tests.simulation.loop import SimulatedLoop
from tests.simulation.network import Network


class _Incoming(asyncio.Protocol):
    """What has come on one connection."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.ended = False
        self.error: Exception | None = None

    def data_received(self, data: bytes) -> None:
        self.data += data

    def eof_received(self) -> bool:
        self.ended = True
        return True

    def connection_lost(self, error: Exception | None) -> None:
        self.ended, self.error = True, error


class BlockingSocket:
    """A connected socket."""

    def __init__(self, loop: SimulatedLoop, transport: Any, incoming: _Incoming) -> None:
        self._loop = loop
        self._transport = transport
        self._incoming = incoming
        self._timeout = 0.0

    def setsockopt(self, *_: object) -> None:
        """The kernel's matters are not simulated."""

    def settimeout(self, seconds: float) -> None:
        self._timeout = seconds

    def recv(self, size: int) -> bytes:
        incoming = self._incoming
        if not self._loop.block(lambda: bool(incoming.data) or incoming.ended, self._timeout):
            raise TimeoutError("timed out")
        if incoming.data:
            found = bytes(incoming.data[:size])
            del incoming.data[:size]
            return found
        if incoming.error is not None:
            raise incoming.error
        return b""

    def sendall(self, data: bytes) -> None:
        if self._transport.is_closing():
            raise BrokenPipeError(32, "Broken pipe")
        self._transport.write(data)

    def close(self) -> None:
        self._transport.abort()


def sockets(loop: SimulatedLoop, network: Network) -> Any:
    """In the place of the module `socket`."""

    def create_connection(address: tuple[str, int], timeout: float) -> BlockingSocket:
        dialled = network.dial(_Incoming, *address)
        if not loop.block(dialled.connected.done, timeout):
            dialled.give_up()
            raise TimeoutError("timed out")
        return BlockingSocket(loop, *dialled.connected.result())

    return SimpleNamespace(
        create_connection=create_connection,
        socket=socket.socket,
        IPPROTO_TCP=socket.IPPROTO_TCP,
        TCP_NODELAY=socket.TCP_NODELAY,
    )


def times(loop: SimulatedLoop) -> Any:
    """In the place of the module `time`."""

    def sleep(seconds: float) -> None:
        loop.block(lambda: False, seconds)

    return SimpleNamespace(monotonic=loop.time, time=clock.wall, sleep=sleep)
