"""Hosts, and the connections between them: TCP as programs see it, with everything that can happen to it.

Bytes come in order, after a latency that is drawn for each passage. What passes between two hosts that are cut off from
each other is kept, and passes when the cut is healed, as TCP sends it again. When a process is killed, its peers get
what its kernel sends: a FIN, or an RST where it had not read everything; whoever writes to a connection that is closed
on the other side gets an RST. A process that does not read lets its peer's bytes wait.
"""

from __future__ import annotations

import asyncio
import hashlib
import struct
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from functools import partial
from typing import Any

from tests.simulation.connections import Dialled, End, Server
from tests.simulation.loop import Process, SimulatedLoop, current

_NOTED = struct.Struct("<dBB4sI")


class Host:
    """A machine with one program.

    Attributes:
        wall: how far its wall clock is ahead.
        process: the present life of its program; None: it does not run.
    """

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.address = f"10.0.0.{number}"
        self.wall = 0.0
        self.process: Process | None = None

    def __repr__(self) -> str:
        return self.name


class Network:
    """All hosts of a history.

    Attributes:
        latency: the least and the most seconds of a passage.
        slower: more seconds for each passage, by host.
        hash: of every passage: its time, its ends and its bytes.
        passages: how many there were.
    """

    def __init__(self, loop: SimulatedLoop, latency: tuple[float, float]) -> None:
        loop.network = self
        self.loop = loop
        self.latency = latency
        self.slower: dict[Host, float] = {}
        self.hosts: dict[str, Host] = {}
        self.passages = 0
        self._hash = hashlib.blake2b(digest_size=8)
        self._by_address: dict[str, Host] = {}
        self._cuts: dict[tuple[Host, Host], int] = {}
        self._held: dict[tuple[Host, Host], list[Callable[[], None]]] = {}
        self._aims: dict[Any, tuple[str, int]] = {}
        self._next_port = 40_000
        # The wire belongs to no process.
        self._wire = copy_context()
        self._wire.run(current.set, None)

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()

    def add(self, name: str) -> Host:
        host = Host(name, len(self.hosts) + 1)
        self.hosts[name] = self._by_address[host.address] = host
        return host

    def at(self, address: str) -> Host:
        return self._by_address[address]

    # Processes.

    def boot(self, host: Host, program: Coroutine[Any, Any, Any]) -> Process:
        """Start a host's program."""
        host.process = process = Process(host)
        process.program = self.loop.start(process, program, name=host.name)
        return process

    def kill(self, host: Host, *, mute: bool = False) -> None:
        """End a host's process as SIGKILL does; its kernel closes its connections, unless power is gone."""
        process = host.process
        if process is None:
            return
        host.process = None
        self.loop.bury(process)
        process.listeners.clear()
        for end in list(process.ends):
            end.kernel_close(mute=mute)

    # Cuts.

    def cut(self, source: Host, target: Host) -> None:
        """Nothing passes in this direction any more. Cuts of the same direction add up."""
        self._cuts[source, target] = self._cuts.get((source, target), 0) + 1

    def heal(self, source: Host, target: Host) -> None:
        left = self._cuts.pop((source, target)) - 1
        if left:
            self._cuts[source, target] = left
            return
        for send in self._held.pop((source, target), ()):
            send()

    def passage(self, source: Host, target: Host, stream: End | None, arrive: Callable[..., None], *what: Any) -> None:
        """Let something pass, after all that has passed in the same stream before."""
        if (source, target) in self._cuts:
            held = self._held.setdefault((source, target), [])
            held.append(partial(self._pass, source, target, stream, arrive, what))
        else:
            self._pass(source, target, stream, arrive, what)

    def _pass(
        self, source: Host, target: Host, stream: End | None, arrive: Callable[..., None], what: tuple[Any, ...]
    ) -> None:
        loop = self.loop
        least, most = self.latency
        seconds = least + (most - least) * loop.chance.random()
        if source is target:
            seconds = 0.0
        elif self.slower:
            seconds += self.slower.get(source, 0.0) + self.slower.get(target, 0.0)
        when = loop.now + seconds
        if stream is None:
            loop.call_at(when, arrive, *what, context=self._wire)
            return
        stream.arrives_after = when = max(when, stream.arrives_after)
        # Two that arrive in the same moment are in order, too, in whatever order the loop calls.
        stream.on_wire.append((arrive, what))
        loop.call_at(when, stream.next_arrives, context=self._wire)

    def note(self, source: Host, target: Host, kind: bytes, data: bytes) -> None:
        self.passages += 1
        self._hash.update(_NOTED.pack(self.loop.now, source.number, target.number, kind, len(data)) + data)

    # Connections.

    def listen(self, factory: Callable[[], Any], port: int) -> Server:
        process = current.get()
        assert process is not None, "a server belongs to a process"
        server = Server(self, process, port, factory, copy_context())
        process.listeners[port] = server
        return server

    def aim(self, sock: Any, address: tuple[str, int]) -> None:
        self._aims[sock] = address

    def dial(self, factory: Callable[[], Any], host: Any, port: int) -> Dialled:
        """Begin to connect, from the host of the program that runs."""
        process = current.get()
        assert process is not None, "a connection belongs to a process"
        target = self._by_address.get(host)
        if target is None:
            raise OSError(f"no host has the address {host!r}")
        self._next_port += 1
        dialled = Dialled(self, process, target, port, (process.host.address, self._next_port), factory)
        dialled.send_syn()
        return dialled

    async def connect(self, factory: Callable[[], Any], host: Any, port: Any, named: dict[str, Any]) -> Any:
        sock = named.pop("sock", None)
        if sock is not None:
            host, port = self._aims.pop(sock)
            sock.close()
        if named.get("ssl"):
            raise NotImplementedError("no TLS here")
        dialled = self.dial(factory, host, port)
        try:
            return await dialled.connected
        except asyncio.CancelledError:
            dialled.give_up()
            raise
