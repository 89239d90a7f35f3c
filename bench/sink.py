"""A subscriber that costs next to nothing, in a process of its own: 202 to every POST, on the bare protocol.

    python -m bench.sink --port 9000

GET tells what came since the last GET: `{"count", "first", "last"}`, times on the monotonic clock in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time

import httptools
import uvloop

ACCEPTED = b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


class Arrivals:
    """How many events came, and when the first and the last one did."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0.0
        self.last = 0.0

    def add(self) -> None:
        self.last = time.monotonic()
        if self.count == 0:
            self.first = self.last
        self.count += 1

    def take(self) -> bytes:
        """What came, as a whole HTTP answer; counts from zero afterwards."""
        body = json.dumps({"count": self.count, "first": self.first, "last": self.last}).encode()
        self.count = 0
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
            len(body),
            body,
        )


class Connection(asyncio.Protocol):
    """One client's connection; httptools calls the `on_` method."""

    def __init__(self, arrivals: Arrivals) -> None:
        self._arrivals = arrivals
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's transports derive from no asyncio class

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_complete(self) -> None:
        assert self._transport is not None
        if self._parser.get_method() == b"GET":
            self._transport.write(self._arrivals.take())
        else:
            self._arrivals.add()
            self._transport.write(ACCEPTED)


async def serve(port: int) -> None:
    arrivals = Arrivals()
    server = await asyncio.get_running_loop().create_server(lambda: Connection(arrivals), "127.0.0.1", port)
    await server.serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="bench.sink", description="Answer 202 to everything.")
    parser.add_argument("--port", type=int, required=True)
    uvloop.run(serve(parser.parse_args().port))


if __name__ == "__main__":
    main()
