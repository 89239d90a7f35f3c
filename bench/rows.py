"""The rows of the bench: what each sends where, and what it is held against."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.processes import cpu_seconds, peak_rss
from bench.requests import Mode
from bench.sample import Sample
from bench.stage import DRAINED, NAMESPACE, STORED, Stage, load
from bench.start import started
from tests.support.process import Running

LINGER_SECONDS = 0.3
CHANNELS = 100


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table.

    Attributes:
        floor: name of the row that it is divided by; floors have none.
        share: part of the events that it sends: the slow ones send fewer.
        go_channel_us: CPU µs per event of the Go implementation of this CRD (eventing-natss at 03a34594),
            measured in another run: 2 cores, nats-server 2.15.1, file storage, 1 KiB binary events, as many
            connections; for `forward` its pull dispatcher as it comes. None: nobody has measured it.
    """

    name: str
    what: str
    measure: Callable[[Stage, int], Sample]
    floor: str | None = None
    share: float = 1.0
    go_channel_us: float | None = None


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
        Row("floor-post", "bare HTTP client, the same bytes to the same sink", _post),
        Row("forward", "stored events drained to a fast sink", _forward, "floor-post", go_channel_us=274.0),
        Row(
            "start, 100 channels",
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


def _post(stage: Stage, events: int) -> Sample:
    found = load(stage.sink.url + "/", events)
    stage.arrivals()
    return Sample(events, found["seconds"], found["cpu_seconds"], p50_ms=found["p50_ms"], p99_ms=found["p99_ms"])


def _forward(stage: Stage, events: int) -> Sample:
    """Fill the channel, then drain it by leases, as the operator would; the filling is not measured."""
    load(f"{stage.receive.url}/{NAMESPACE}/{DRAINED}", events)
    stage.arrivals()
    forward, server = stage.forward.pid, stage.nats.pid
    cpu, nats = cpu_seconds(forward), cpu_seconds(server)
    delivered = 0
    while True:
        answer = stage.lease(linger=LINGER_SECONDS)
        delivered += answer["delivered"]
        if answer["pending"] == 0 and answer["ack_pending"] == 0:
            break
    cpu, nats = cpu_seconds(forward) - cpu, cpu_seconds(server) - nats
    arrived = stage.arrivals()
    if (delivered, arrived["count"]) != (events, events):
        raise RuntimeError(f"of {events} events forward delivered {delivered} and the sink got {arrived['count']}")
    return Sample(events, arrived["last"] - arrived["first"], cpu, nats, peak_rss=peak_rss(forward))
