"""`python -m tests.faults.stranger ATTACK PORT SECONDS`: strangers at one port, in a process of their own, and niced.

Each attack is so many connections that send some bytes once, and others again and again. A connection that the server
closes is opened again where the attack says so. The last line of output tells what became of them.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

HEAD = b"POST /shop/orders HTTP/1.1\r\nhost: x\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"
TINY = b"GET / HTTP/1.1\r\nHost:\r\n\r\n"
BLOCK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Attack:
    """One kind of attack.

    Attributes:
        words: for the table.
        again: sent without end, every so many seconds; empty: nothing more is sent.
        reads: are the answers read?
        returns: is a connection that the server has closed opened again?
        others: what other connections send once in place of `first`, each as many.
        settings: of the function that is attacked.
    """

    words: str
    first: bytes = b""
    again: bytes = b""
    every: float = 0.0
    count: int = 20
    reads: bool = False
    returns: bool = True
    others: tuple[bytes, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)


def _blocks(unit: bytes) -> bytes:
    return unit * (BLOCK // len(unit))


def _half(size: int) -> bytes:
    return HEAD + b"content-length: %d\r\n\r\n" % (2 * size) + b"b" * size


ATTACKS: Mapping[str, Attack] = {
    "pipelined": Attack("requests without end on each connection, answers not read", again=_blocks(TINY)),
    "pipelined-read": Attack("the same, answers read", again=_blocks(TINY), reads=True),
    "trailer": Attack("a trailer without end", CHUNKED + b"0\r\na: ", b"b" * BLOCK),
    "trailers": Attack("trailers without end", CHUNKED + b"0\r\n", _blocks(b"a: b\r\n")),
    "extension": Attack("a chunk extension without end", CHUNKED + b"1;a=", b"b" * BLOCK),
    "chunks": Attack(
        "a body in chunks of one byte, 65,536 of them for each connection", CHUNKED, _blocks(b"1\r\nx\r\n")
    ),
    "blank": Attack("blank lines without end", again=b"\r\n" * (BLOCK // 2)),
    "request-line": Attack("a request line without end", b"GET /", b"a" * BLOCK),
    "header": Attack("a header without end", HEAD + b"a: ", b"b" * BLOCK),
    "slow-body": Attack(
        "1,000 bodies at a byte a second", HEAD + b"content-length: 1000\r\n\r\n", b"b", every=1.0, count=1000
    ),
    "half-bodies": Attack(
        "360 halves of bodies, of 2 KB to 1 MB each, and no more of them",
        _half(1_000_000),
        count=360,
        reads=True,
        others=(_half(200_000), _half(14_000), _half(2_000)),
    ),
    "tiny": Attack(
        "tiny requests again and again on 400 connections, where 200 may be",
        again=TINY,
        every=0.5,
        count=400,
        reads=True,
        settings={"HEADRACE_MAX_CONNECTIONS": "200"},
    ),
    "idle": Attack("10,000 idle connections that have had an answer", TINY, count=10_000, reads=True, returns=False),
    "idle-large": Attack(
        "2,000 idle connections after a head of 60 KiB",
        TINY[:-2] + b"a: " + b"b" * 60_000 + b"\r\n\r\n",
        count=2_000,
        reads=True,
        returns=False,
    ),
    "silent": Attack("10,000 connections that send nothing", count=10_000, reads=True, returns=False),
}


class Strangers:
    """The connections of one attack."""

    def __init__(self, attack: Attack, port: int, until: float) -> None:
        self.attack = attack
        self.seen: Counter[str] = Counter()
        self._port = port
        self._until = until
        self._opening = asyncio.Semaphore(100)

    async def run(self) -> None:
        await asyncio.gather(*map(self._stand, range(self.attack.count)))

    async def _stand(self, number: int) -> None:
        firsts = (self.attack.first, *self.attack.others)
        first = firsts[number % len(firsts)]
        while time.monotonic() < self._until:
            try:
                async with asyncio.timeout(self._until - time.monotonic()):
                    await self._attack(first)
                self.seen["closed"] += 1
            except TimeoutError:
                self.seen["open at the end"] += 1
                return
            except OSError:
                self.seen["reset"] += 1
            if not self.attack.returns:
                return
            await asyncio.sleep(0.05)

    async def _attack(self, first: bytes) -> None:
        """Return when the server has closed the connection."""
        loop, attack = asyncio.get_running_loop(), self.attack
        with socket.socket() as plug:
            plug.setblocking(False)
            async with self._opening:
                await loop.sock_connect(plug, ("127.0.0.1", self._port))
                self.seen["opened"] += 1
                await loop.sock_sendall(plug, first)
            sending = asyncio.create_task(self._send(plug))
            try:
                if attack.reads or not attack.again:
                    while await loop.sock_recv(plug, BLOCK):
                        pass
                else:
                    await sending
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)

    async def _send(self, plug: socket.socket) -> None:
        loop, attack = asyncio.get_running_loop(), self.attack
        while attack.again:
            await loop.sock_sendall(plug, attack.again)
            self.seen["KiB"] += len(attack.again) // 1024
            await asyncio.sleep(attack.every)


def main() -> int:
    os.nice(30)
    name, port, seconds, *count = sys.argv[1:]
    attack = ATTACKS[name]
    if count:
        attack = replace(attack, count=int(count[0]))
    strangers = Strangers(attack, int(port), time.monotonic() + float(seconds))
    asyncio.run(strangers.run())
    print(json.dumps(strangers.seen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
