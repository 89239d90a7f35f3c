"""How soon a `receive` that starts from zero accepts events: one for each of many channels, one after the other.

The Go channel answers 404 for a channel until it has reconciled it: the last of 100 after 17 s.
"""

from __future__ import annotations

import itertools
import socket
import time

from bench.processes import cpu_seconds, peak_rss
from bench.requests import Mode, template
from bench.sample import Sample
from bench.stage import Stage

LONGEST_START_SECONDS = 20.0
_numbers = itertools.count(1)


def started(stage: Stage, channels: int) -> Sample:
    """Start one, have every channel accept an event, and stop it.

    Raises:
        RuntimeError: a channel did not accept.
    """
    paths = stage.make_many(channels)
    cpu = cpu_seconds(stage.nats.pid)
    began = time.perf_counter()
    receive = stage.another_receive()
    try:
        with _connection(receive.port, began + LONGEST_START_SECONDS) as connection:
            accepted = sorted(_accepted(connection, path) - began for path in paths)
        return Sample(
            channels,
            accepted[-1],
            cpu_seconds(receive.pid),
            cpu_seconds(stage.nats.pid) - cpu,
            accepted[len(accepted) // 2] * 1000,
            accepted[len(accepted) * 99 // 100] * 1000,
            peak_rss(receive.pid),
        )
    finally:
        receive.stop()


def _connection(port: int, deadline: float) -> socket.socket:
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port), timeout=LONGEST_START_SECONDS)
        except OSError:
            if time.perf_counter() > deadline:
                raise
            time.sleep(0.002)


def _accepted(connection: socket.socket, path: str) -> float:
    number = next(_numbers)
    connection.sendall(template(Mode.BINARY, path, f"start-{time.time_ns():x}").request(number))
    answer = connection.recv(4096)
    if not answer.startswith(b"HTTP/1.1 202 "):
        raise RuntimeError(f"{path} answered {answer[:80]!r} instead of 202")
    return time.perf_counter()
