"""The rows in which `forward` takes part: alone, beside `receive`, event by event, and from nothing."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from bench.processes import cpu_seconds, peak_rss
from bench.row import Row
from bench.sample import Sample
from bench.stage import DRAINED, NAMESPACE, PACED, Stage, load
from tests.support.programs.process import Running

LINGER_SECONDS = 0.3
RATE = 500
STARTS = 5
# Between two looks at whether a process serves yet; what is measured is uncertain by as much.
LOOK_SECONDS = 0.002


def rows() -> list[Row]:
    return [
        Row("floor-post", "bare HTTP client, the same bytes to the same sink", _post),
        Row("floor-client", "our HTTP client alone, the same bytes to the same sink", _client, "floor-post"),
        Row("forward", "stored events drained to a fast sink", _forward, "floor-client", go_channel_us=274.0),
        Row(
            "in-and-out",
            "32 connections in, one subscriber out, at once; p50 and p99 from being sent to being there; CPU of "
            "`receive` and `forward`; `waiting` are events accepted and not there yet, after half of them and all",
            _in_and_out,
            "floor-client",
            go_channel_us=475.0,
        ),
        Row(
            "floor-paced",
            f"{RATE} events/s handed on by two bare processes in a row, without NATS: what it costs to wake them",
            _relayed,
            share=0.25,
        ),
        Row(
            "paced",
            f"{RATE} events/s, warm; from the moment each was due to be sent until its subscriber has it; CPU of "
            "receive and forward",
            _paced,
            "floor-paced",
            share=0.25,
            go_channel_us=723.0,
        ),
        Row("floor-start", "a forward process, until it is ready; p50 of some", _start, share=0.0),
        Row(
            "from-zero",
            "an event waits, a forward process is started: from its being ready until the subscriber has it",
            _from_zero,
            share=0.0,
        ),
    ]


def _post(stage: Stage, events: int) -> Sample:
    found = load(stage.sink.url + "/", events)
    stage.arrivals()
    return Sample(events, found["seconds"], found["cpu_seconds"], p50_ms=found["p50_ms"], p99_ms=found["p99_ms"])


def _client(stage: Stage, events: int) -> Sample:
    found = _module("bench.client_floor", "--url", f"{stage.sink.url}/", "--events", str(events))
    stage.arrivals()
    return Sample(events, found["seconds"], found["cpu_seconds"])


def _forward(stage: Stage, events: int) -> Sample:
    """Fill the channel, then drain it by leases, as the operator would; the filling is not measured."""
    load(f"{stage.receive.url}/{NAMESPACE}/{DRAINED}", events)
    stage.arrivals()
    forward, server = stage.forward.pid, stage.nats.pid
    cpu, nats = cpu_seconds(forward), cpu_seconds(server)
    delivered = _drain(stage)
    cpu, nats = cpu_seconds(forward) - cpu, cpu_seconds(server) - nats
    arrived = _arrived(stage, events, delivered)
    return Sample(events, arrived["last"] - arrived["first"], cpu, nats, peak_rss=peak_rss(forward))


def _in_and_out(stage: Stage, events: int) -> Sample:
    """Deliver while events come in; counted until the last one has arrived."""
    arguments = "--url", f"{stage.receive.url}/{NAMESPACE}/{PACED}", "--port", str(stage.paced_port)
    found = _delivered_meanwhile(stage, "bench.closed", *arguments, "--events", str(events))
    return replace(found, peak_rss=peak_rss(stage.forward.pid))


def _relayed(stage: Stage, events: int) -> Sample:
    before = sum(cpu_seconds(relay.pid) for relay in stage.relays)
    found = _module("bench.paced", *_pace(stage, f"{stage.relays[0].url}/", events))
    cpu = sum(cpu_seconds(relay.pid) for relay in stage.relays) - before
    return Sample(found["events"], found["seconds"], cpu, p50_ms=found["p50_ms"], p99_ms=found["p99_ms"])


def _paced(stage: Stage, events: int) -> Sample:
    return _delivered_meanwhile(stage, "bench.paced", *_pace(stage, f"{stage.receive.url}/{NAMESPACE}/{PACED}", events))


def _delivered_meanwhile(stage: Stage, name: str, *arguments: str) -> Sample:
    """Run a module that sends events and is their subscriber, and lease them meanwhile; CPU of receive and forward."""
    ours, server = (stage.receive.pid, stage.forward.pid), stage.nats.pid
    cpu, nats = sum(map(cpu_seconds, ours)), cpu_seconds(server)
    with ThreadPoolExecutor(1) as beside:
        sending = beside.submit(_module, name, *arguments)
        while not sending.done():
            stage.lease(linger=LINGER_SECONDS, channel=PACED)
        found = sending.result()
    cpu, nats = sum(map(cpu_seconds, ours)) - cpu, cpu_seconds(server) - nats
    waiting = {name: found[name] for name in ("waiting_half", "waiting_end") if name in found}
    return Sample(found["events"], found["seconds"], cpu, nats, found["p50_ms"], found["p99_ms"], **waiting)


def _pace(stage: Stage, url: str, events: int) -> tuple[str, ...]:
    return "--url", url, "--port", str(stage.paced_port), "--events", str(events), "--rate", str(RATE)


def _start(stage: Stage, _: int) -> Sample:
    return _starts(stage, _until_ready)


def _from_zero(stage: Stage, _: int) -> Sample:
    def until_delivered(forward: Running, began: float) -> float:
        ready = began + _until_ready(forward, began)
        answer = stage.lease(linger=0.0, forward=forward)
        if answer["delivered"] != 1:
            raise RuntimeError(f"the lease of a new process has answered {answer}")
        return float(stage.arrivals()["last"]) - ready

    def prepare() -> None:
        load(f"{stage.receive.url}/{NAMESPACE}/{DRAINED}", 1, connections=1)
        stage.arrivals()

    return _starts(stage, until_delivered, prepare)


def _starts(
    stage: Stage, until: Callable[[Running, float], float], prepare: Callable[[], None] = lambda: None
) -> Sample:
    seconds, cpu = [], 0.0
    for _ in range(STARTS):
        prepare()
        began = time.monotonic()
        forward = stage.another_forward()
        try:
            seconds.append(until(forward, began))
            cpu += cpu_seconds(forward.pid)
        finally:
            forward.stop()
    return Sample(STARTS, sum(seconds), cpu, p50_ms=statistics.median(seconds) * 1000, p99_ms=max(seconds) * 1000)


def _until_ready(forward: Running, began: float) -> float:
    while not forward.is_ready():
        time.sleep(LOOK_SECONDS)
    return time.monotonic() - began


def _drain(stage: Stage) -> int:
    """Open leases until nothing is left; how many events they have delivered."""
    delivered = 0
    while True:
        answer = stage.lease(linger=LINGER_SECONDS)
        delivered += int(answer["delivered"])
        if answer["pending"] == 0 and answer["ack_pending"] == 0:
            return delivered


def _arrived(stage: Stage, events: int, delivered: int) -> dict[str, Any]:
    arrived = stage.arrivals()
    if (delivered, arrived["count"]) != (events, events):
        raise RuntimeError(f"of {events} events forward delivered {delivered} and the sink got {arrived['count']}")
    return arrived


def _module(name: str, *arguments: str) -> dict[str, Any]:
    """Run a module of the bench that prints one JSON object."""
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
