"""Floors: protocols that can do one thing only, and bear no reconnect, no error and no other message.

Cheating is the point: acks are split at line ends, since a PubAck has none inside.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from urllib.parse import urlsplit

HELLO = b'CONNECT {"verbose":false,"headers":true,"no_responders":true,"protocol":1}\r\nSUB _INBOX.bare.* 1\r\nPING\r\n'


class Bare(asyncio.Protocol):
    """One connection; exactly one of its uses at a time."""

    def __init__(self) -> None:
        self.hello: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._pongs = 0
        self._rest = b""
        self._take = self._greet
        self._done: asyncio.Future[None] = self._loop.create_future()
        self._left = 0
        self._in_batch = 0
        self._awaited: dict[bytes, asyncio.Future[bytes]] = {}
        self._told: dict[bytes, Callable[[bytes], None]] = {}
        self._burst: list[bytes] = []
        self._serial = 0
        self._before = self._after = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from no asyncio class

    def data_received(self, data: bytes) -> None:
        try:
            self._take(self._rest + data if self._rest else data)
        except (ValueError, IndexError, KeyError):
            # A PING, which the server sends after 2 s: the round took too long, and is made anew.
            self._loop.call_soon(sys.exit, "the bare protocol can't do that")

    def _greet(self, data: bytes) -> None:
        """Say hello, then wait for a second PONG: the server may send another INFO after the first."""
        if data.startswith(b"INFO") and not self._pongs:
            self._write(HELLO)
            self._pongs = 2
        elif b"PONG" in data:
            self._pongs -= 1
            if self._pongs:
                self._write(b"PING\r\n")
            else:
                self.hello.set_result(None)

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    async def publish_all(self, subject: str, block: bytes, data: bytes, messages: int, window: int) -> float:
        """CPU seconds; every frame is made before the clock starts, as many leave as acks have come."""
        self._left = messages
        frames = [_frame(subject, b"_INBOX.bare.%d" % number, block, data) for number in range(messages)]
        self._take = self._count
        cpu = time.process_time()
        self._frames, self._sent = frames, window
        self._write(b"".join(frames[:window]))
        await self._done
        return time.process_time() - cpu

    def _count(self, data: bytes) -> None:
        end = data.rfind(b"\r\n") + 2
        self._rest = data[end:]
        # Two lines per ack; a line that came alone is counted with its second half.
        lines = data[:end].split(b"\r\n")
        acks = sum(1 for line in lines if line.startswith(b"{"))
        self._left -= acks
        if self._left == 0:
            self._done.set_result(None)
        elif acks:
            self._write(b"".join(self._frames[self._sent : self._sent + acks]))
            self._sent += acks

    def prepare(self, subject: str, block: bytes, data: bytes) -> None:
        self._before, _, self._after = _frame(subject, b"?", block, data).partition(b"?")
        self._take = self._answer

    async def publish(self) -> bytes:
        """One publish; the ack's data."""
        self._serial += 1
        reply = b"_INBOX.bare.%d" % self._serial
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._awaited[reply] = future
        if not self._burst:
            self._loop.call_soon(self._flush)
        self._burst.append(self._before + reply + self._after)
        return await future

    def ask(self, on_answer: Callable[[bytes], None]) -> None:
        """One publish; the ack's data goes to a callback."""
        self._take = self._tell
        self._serial += 1
        reply = b"_INBOX.bare.%d" % self._serial
        self._told[reply] = on_answer
        if not self._burst:
            self._loop.call_soon(self._flush)
        self._burst.append(self._before + reply + self._after)

    def _flush(self) -> None:
        self._write(b"".join(self._burst))
        self._burst.clear()

    def _answer(self, data: bytes) -> None:
        lines = self._lines(data)
        for number in range(0, len(lines), 2):
            future = self._awaited.pop(lines[number].split(b" ", 2)[1])
            future.set_result(lines[number + 1])

    def _tell(self, data: bytes) -> None:
        lines = self._lines(data)
        for number in range(0, len(lines), 2):
            self._told.pop(lines[number].split(b" ", 2)[1])(lines[number + 1])

    def _lines(self, data: bytes) -> list[bytes]:
        """Two per ack."""
        lines = data.split(b"\r\n")
        self._rest = lines.pop()
        if len(lines) % 2:
            self._rest = lines.pop() + b"\r\n" + self._rest
        return lines

    async def pull_all(self, subject: str, pull: bytes, batch: int, messages: int) -> float:
        """CPU seconds for pulling and acking that many."""
        self._left, self._in_batch, self._batch = messages, batch, batch
        self._pull = b"PUB %b _INBOX.bare.pull %d\r\n%b\r\n" % (subject.encode(), len(pull), pull)
        self._take = self._split
        cpu = time.process_time()
        self._write(self._pull)
        await self._done
        return time.process_time() - cpu

    def _split(self, data: bytes) -> None:
        out = []
        position = 0
        while True:
            line_end = data.find(b"\r\n", position)
            if line_end < 0:
                break
            words = data[position:line_end].split(b" ")
            stop = line_end + 4 + int(words[-1])
            if stop > len(data):
                break
            # What any reader must have: the block and the data apart.
            block_end = line_end + 2 + int(words[-2])
            _block, _body = data[line_end + 2 : block_end], data[block_end : stop - 2]
            out.append(b"PUB %b 4\r\n+ACK\r\n" % words[3])
            position = stop
        self._rest = data[position:]
        self._left -= len(out)
        self._in_batch -= len(out)
        if self._in_batch == 0 and self._left > 0:
            self._in_batch = self._batch
            out.append(self._pull)
        self._write(b"".join(out))
        if self._left == 0:
            self._done.set_result(None)


async def connect(url: str) -> Bare:
    address = urlsplit(url)
    host, port = address.hostname or "127.0.0.1", address.port or 4222
    _, link = await asyncio.get_running_loop().create_connection(Bare, host, port)
    await link.hello
    return link


def _frame(subject: str, reply: bytes, block: bytes, data: bytes) -> bytes:
    sizes = (len(block), len(block) + len(data))
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject.encode(), reply, *sizes, block, data)
