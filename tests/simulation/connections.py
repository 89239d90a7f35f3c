"""Connections between hosts: how one is made, and its two ends with what their kernels do.

An end is the transport of a program and the kernel's socket below it. `tests.simulation.network` carries what is sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from tests.simulation.loop import Process

if TYPE_CHECKING:
    from tests.simulation.network import Host, Network

# What the kernels of both sides take before `write_buffer_size` grows.
KERNELS_BYTES = 256 * 1024
TORN = 0.05
HIGH_WATER, LOW_WATER = 64 * 1024, 16 * 1024


class Server(asyncio.AbstractServer):
    """A listener."""

    def __init__(
        self, network: Network, process: Process, port: int, factory: Callable[[], Any], context: Context
    ) -> None:
        self._network = network
        self.process = process
        self.port = port
        self.factory = factory
        self.context = context
        self.sockets: tuple[()] = ()

    def close(self) -> None:
        if self.process.listeners.get(self.port) is self:
            del self.process.listeners[self.port]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self.process.listeners.get(self.port) is self

    async def wait_closed(self) -> None:
        return


class Dialled:
    """A connection on its way: SYN there, its answer back."""

    def __init__(
        self,
        network: Network,
        process: Process,
        target: Host,
        port: int,
        local: tuple[str, int],
        factory: Callable[[], Any],
    ) -> None:
        self._network = network
        self._process = process
        self._target = target
        self._port = port
        self._local = local
        self._factory = factory
        self.connected: asyncio.Future[Any] = network.loop.create_future()
        self._context = copy_context()
        self._end: End | None = None

    def send_syn(self) -> None:
        self._network.passage(self._process.host, self._target, None, self._syn_arrives)

    def give_up(self) -> None:
        self.connected.cancel()
        if self._end is not None:
            self._end.abort()

    def _syn_arrives(self) -> None:
        network, target = self._network, self._target
        network.note(self._process.host, target, b"syn", b"")
        there = target.process
        server = there.listeners.get(self._port) if there is not None else None
        if server is None or there is None:
            network.passage(target, self._process.host, None, self._refused)
            return
        here, far = End(network, self._process, self._context), End(network, there, server.context.copy())
        here.meet(far, self._local, (target.address, self._port))
        network.passage(target, self._process.host, far, self._accepted, here)
        # The program sees it when it runs.
        self._network.loop.call_soon(far.begin, server.factory, context=far.context)

    def _refused(self) -> None:
        if not self.connected.done() and not self._process.dead:
            self.connected.set_exception(ConnectionRefusedError(f"{self._target.address}:{self._port}: refused"))

    def _accepted(self, end: End) -> None:
        if self._process.dead or self.connected.done():
            end.kernel_close()
            return
        self._end = end
        self._network.loop.call_soon(self._begin, end, context=self._context)

    def _begin(self, end: End) -> None:
        if self.connected.done():
            end.kernel_close()
            return
        end.begin(self._factory)
        self.connected.set_result((end, end.protocol))


class End(asyncio.Transport):
    """One end of a connection: the transport of a program, and the kernel below it."""

    def __init__(self, network: Network, process: Process, context: Context) -> None:
        super().__init__()
        self._network = network
        self._loop = network.loop
        self.process = process
        self.host: Host = process.host
        self.context = context
        self.protocol: Any = None
        self.peer: End
        # What has come, in order: bytes, b"" for a FIN, an error for an RST.
        self._inbox: deque[bytes | Exception] = deque()
        self._reading = True
        self._asked = False
        # Bytes of ours that the peer has not read, and the time of the last passage of ours.
        self.unread = 0
        self.arrives_after = 0.0
        self.on_wire: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._paused = False
        self._high, self._low = HIGH_WATER, LOW_WATER
        # The program has closed it; the kernel's socket is closed; the peer's kernel knows nothing of it any more.
        self._closing = False
        self._lost = False
        self._closed = False
        self._fin_sent = False
        self._local = self._remote = ("", 0)
        process.ends[self] = None

    def meet(self, peer: End, local: tuple[str, int], remote: tuple[str, int]) -> None:
        self.peer, peer.peer = peer, self
        self._local = peer._remote = local
        self._remote = peer._local = remote

    def begin(self, factory: Callable[[], Any]) -> None:
        if self._lost:
            return
        self.protocol = factory()
        self.protocol.connection_made(self)
        self._ask()

    # The wire.

    def _send(self, kind: bytes, what: bytes | Exception) -> None:
        self._network.passage(self.host, self.peer.host, self, self.peer._arrives, kind, what)

    def next_arrives(self) -> None:
        """The oldest of what is on its way from here has arrived."""
        arrive, what = self.on_wire.popleft()
        arrive(*what)

    def _arrives(self, kind: bytes, what: bytes | Exception) -> None:
        data = what if isinstance(what, bytes) else b""
        self._network.note(self.peer.host, self.host, kind, data)
        if self._closed:
            if kind == b"data" and not isinstance(what, Exception):
                # Nobody reads it any more: the kernel says so.
                self._send(b"rst", ConnectionResetError(104, "Connection reset by peer"))
            return
        self._inbox.append(what)
        self._ask()

    def _ask(self) -> None:
        """Have the program read what has come, once it runs."""
        if self._asked or self._lost or self.protocol is None or not self._inbox:
            return
        if self._reading or isinstance(self._inbox[0], Exception):
            self._asked = True
            self._loop.call_soon(self._read, context=self.context)

    def _read(self) -> None:
        self._asked = False
        if self._lost or not self._inbox:
            return
        what = self._inbox[0]
        if isinstance(what, Exception):
            self._inbox.clear()
            self._lose(what)
            return
        if not self._reading or self._closing:
            return
        if what == b"":
            self._inbox.popleft()
            if not self.protocol.eof_received():
                self.close()
        else:
            # As a socket, which gives what is there.
            pieces = []
            while self._inbox and isinstance(self._inbox[0], bytes) and self._inbox[0] != b"":
                pieces.append(self._inbox.popleft())
            data = b"".join(pieces)
            self.peer._was_read(len(data))
            self.protocol.data_received(data)
        self._ask()

    def _was_read(self, size: int) -> None:
        self.unread -= size
        if self._paused and self.get_write_buffer_size() <= self._low:
            self._paused = False
            if not self.process.dead:
                self._loop.call_soon(self._resume, context=self.context)
        if self._closing and not self._lost and self.get_write_buffer_size() == 0:
            self._loop.call_soon(self._lose, None, context=self.context)

    def _resume(self) -> None:
        if not self._lost:
            self.protocol.resume_writing()

    def kernel_close(self, *, mute: bool = False) -> None:
        """The socket is closed: the peer gets a FIN, or an RST where something was left unread, unless it is mute."""
        if self._closed:
            return
        self._closed = True
        self.process.ends.pop(self, None)
        if mute:
            return
        if any(self._inbox):
            self._send(b"rst", ConnectionResetError(104, "Connection reset by peer"))
        elif not self._fin_sent:
            self._send(b"fin", b"")
        self.peer._was_read(self.peer.unread)

    def reset(self) -> None:
        """Something between the two ends breaks it: both get an RST."""
        for end in (self, self.peer):
            end._inbox.append(ConnectionResetError(104, "Connection reset by peer"))
            end._ask()

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        if isinstance(error, ConnectionResetError):
            # Both kernels have forgotten it.
            self._closed = True
            self.process.ends.pop(self, None)
            self.peer._was_read(self.peer.unread)
        else:
            self.kernel_close()
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    # The transport.

    def write(self, data: Any) -> None:
        if self._closing or self._fin_sent or not data:
            return
        data = bytes(data)
        self.unread += len(data)
        chance = self._loop.chance
        if len(data) > 1 and chance.random() < TORN:
            # TCP keeps no borders: what is written at once may come in two reads.
            cut = chance.randrange(1, len(data))
            self._send(b"data", data[:cut])
            data = data[cut:]
        self._send(b"data", data)
        if not self._paused and self.get_write_buffer_size() > self._high:
            self._paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._fin_sent and not self._closing:
            self._fin_sent = True
            self._send(b"fin", b"")

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        if self.get_write_buffer_size() == 0:
            self._loop.call_soon(self._lose, None, context=self.context)

    def abort(self) -> None:
        if self._lost:
            return
        self._closing = True
        self._loop.call_soon(self._lose, None, context=self.context)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._ask()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def get_write_buffer_size(self) -> int:
        return max(0, self.unread - KERNELS_BYTES)

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": self._remote, "sockname": self._local}.get(name, default)
