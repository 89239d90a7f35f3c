"""The floor of a paced event: it hands each request on, and answers 202 once it has an answer; nothing is stored.

    python -m bench.relay --port 9002 --to 9001

It stands on bare protocols: it parses no request, and takes each read for a whole one. Two of them in a row read, write
and wait as often as `receive` and `forward` do, so their CPU is the price of waking two processes four times per event.
"""

from __future__ import annotations

import argparse
import asyncio
import gc

import uvloop

from bench.sink import ACCEPTED


class Onward(asyncio.Protocol):
    """One connection to whoever is next, with one request at a time on it."""

    def __init__(self, free: list[Onward]) -> None:
        self._free = free
        self._whose: Inward | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's derive from no such class

    def data_received(self, _: bytes) -> None:
        whose, self._whose = self._whose, None
        self._free.append(self)
        if whose is not None:
            whose.answered()

    def connection_lost(self, _: Exception | None) -> None:
        if self in self._free:
            self._free.remove(self)

    def send(self, data: bytes, whose: Inward) -> None:
        self._whose = whose
        self._transport.write(data)


class Inward(asyncio.Protocol):
    """One connection of whoever was before."""

    def __init__(self, free: list[Onward], port: int) -> None:
        self._free = free
        self._port = port
        self._opening: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]  # uvloop's derive from no such class

    def data_received(self, data: bytes) -> None:
        if self._free:
            self._free.pop().send(data, self)
        else:
            opening = asyncio.create_task(self._send_on_new(data))
            self._opening.add(opening)
            opening.add_done_callback(self._opening.discard)

    async def _send_on_new(self, data: bytes) -> None:
        loop = asyncio.get_running_loop()
        _, onward = await loop.create_connection(lambda: Onward(self._free), "127.0.0.1", self._port)
        onward.send(data, self)

    def answered(self) -> None:
        self._transport.write(ACCEPTED)


async def serve(port: int, to: int) -> None:
    free: list[Onward] = []
    server = await asyncio.get_running_loop().create_server(lambda: Inward(free, to), "127.0.0.1", port)
    gc.freeze()
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.relay", description="Hand on whatever comes.")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--to", type=int, required=True, help="port of whoever is next")
    arguments = parser.parse_args()
    uvloop.run(serve(arguments.port, arguments.to))


if __name__ == "__main__":
    main()
