"""The rows in which `receive` takes part alone, each beside bare ASGI on the same traffic."""

from __future__ import annotations

from dataclasses import dataclass

from bench.processes import cpu_seconds, peak_rss
from bench.requests import Mode
from bench.row import NotMeasured, Row
from bench.sample import Sample
from bench.stage import NAMESPACE, STORED, Stage, load
from tests.support.programs.process import Running

# Between head and body, for one connection: as far apart as a busy sender's two writes come.
GAP = "100"


@dataclass(frozen=True, slots=True)
class Traffic:
    """How events come in.

    Attributes:
        name: the end of its rows' names, behind `floor` and `receive`.
        arguments: of the load generator.
        share: part of the events that it sends.
        go_channel_us: as `Row` has it.
    """

    name: str
    what: str
    connections: int = 32
    arguments: tuple[str, ...] = ()
    proxied: bool = False
    share: float = 1.0
    go_channel_us: float | None = None

    def rows(self) -> list[Row]:
        floor = f"floor{self.name}"
        return [
            Row(floor, f"bare ASGI callable that answers 202, {self.what}", self._floor, share=self.share),
            Row(
                f"receive{self.name}",
                f"stored, binary mode, {self.what}",
                self._receive,
                floor,
                self.share,
                self.go_channel_us,
            ),
        ]

    def _floor(self, stage: Stage, events: int) -> Sample:
        return self._sent(stage, stage.floor, stage.proxied_floor, "/", events)

    def _receive(self, stage: Stage, events: int) -> Sample:
        return self._sent(stage, stage.receive, stage.proxied_receive, f"/{NAMESPACE}/{STORED}", events)

    def _sent(self, stage: Stage, server: Running, proxy: Running | None, path: str, events: int) -> Sample:
        if self.proxied and proxy is None:
            raise NotMeasured("there is no Go to build the proxy with")
        front = proxy if self.proxied and proxy is not None else server
        return served(stage, server, front.url + path, events, self.connections, self.arguments)


STRUCTURED = Row(
    "receive-structured",
    "the same in structured mode, in one write",
    lambda stage, events: served(
        stage,
        stage.receive,
        f"{stage.receive.url}/{NAMESPACE}/{STORED}",
        events,
        connections=32,
        arguments=("--mode", Mode.STRUCTURED),
    ),
    "floor",
)


def rows() -> list[Row]:
    gap = ("--two-writes", "--gap", GAP)
    return [
        *Traffic("", "32 connections, head and body in one write", go_channel_us=102.5).rows(),
        STRUCTURED,
        *Traffic("-two-writes", "32 connections, head and body in a write each", arguments=("--two-writes",)).rows(),
        *Traffic("-proxied", "32 connections to a Go reverse proxy, which sends it on", proxied=True).rows(),
        *Traffic("-1", "1 connection, one write", 1, share=0.25, go_channel_us=245.7).rows(),
        Row(
            "floor-1-relayed",
            "1 connection, one write, to a bare process that asks another one before it answers, without HTTP or NATS",
            lambda stage, events: served(stage, stage.relay_to_sink, f"{stage.relay_to_sink.url}/", events, 1, ()),
            share=0.25,
        ),
        *Traffic("-1-two-writes", f"1 connection, two writes with {GAP} µs between them", 1, gap, share=0.25).rows(),
        *Traffic("-1-proxied", "1 connection to a Go reverse proxy", 1, proxied=True, share=0.25).rows(),
    ]


def served(
    stage: Stage, server: Running, url: str, events: int, connections: int, arguments: tuple[str, ...]
) -> Sample:
    """Events sent to a URL that leads to a server, in a closed loop; CPU is the server's alone."""
    cpu, nats = cpu_seconds(server.pid), cpu_seconds(stage.nats.pid)
    found = load(url, events, connections=connections, more=arguments)
    return Sample(
        events,
        found["seconds"],
        cpu_seconds(server.pid) - cpu,
        cpu_seconds(stage.nats.pid) - nats,
        found["p50_ms"],
        found["p99_ms"],
        peak_rss(server.pid),
    )
