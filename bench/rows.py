"""The rows of the bench: what each sends where, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable

from bench import egress
from bench.processes import cpu_seconds, peak_rss
from bench.requests import Mode
from bench.row import Row
from bench.sample import Sample
from bench.stage import NAMESPACE, STORED, Stage, load
from bench.start import started
from tests.support.process import Running

CHANNELS = 100


def rows() -> list[Row]:
    """In the order in which every round runs them."""
    return [
        Row("floor", "bare ASGI callable that answers 202, 32 connections", _floor(32)),
        Row(
            "receive",
            "stored, binary mode, 32 connections",
            _receive(32, Mode.BINARY),
            "floor",
            go_channel_us=102.5,
        ),
        Row("receive-structured", "the same in structured mode", _receive(32, Mode.STRUCTURED), "floor"),
        Row("floor-1", "bare ASGI callable, 1 connection", _floor(1), share=0.25),
        Row(
            "receive-1",
            "stored, 1 connection",
            _receive(1, Mode.BINARY),
            "floor-1",
            0.25,
            go_channel_us=245.7,
        ),
        *egress.rows(),
        Row(
            "start-100-channels",
            "a fresh `receive`; p50 and p99 are from exec to the first 202 of a channel, over 100 channels",
            lambda stage, _: started(stage, CHANNELS),
        ),
    ]


def _floor(connections: int) -> Callable[[Stage, int], Sample]:
    return lambda stage, events: _served(stage, stage.floor, "/", events, connections, Mode.BINARY)


def _receive(connections: int, mode: Mode) -> Callable[[Stage, int], Sample]:
    path = f"/{NAMESPACE}/{STORED}"
    return lambda stage, events: _served(stage, stage.receive, path, events, connections, mode)


def _served(stage: Stage, server: Running, path: str, events: int, connections: int, mode: Mode) -> Sample:
    cpu, nats = cpu_seconds(server.pid), cpu_seconds(stage.nats.pid)
    found = load(server.url + path, events, connections=connections, mode=mode)
    return Sample(
        events,
        found["seconds"],
        cpu_seconds(server.pid) - cpu,
        cpu_seconds(stage.nats.pid) - nats,
        found["p50_ms"],
        found["p99_ms"],
        peak_rss(server.pid),
    )
