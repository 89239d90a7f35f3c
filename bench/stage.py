"""The stage of the bench: nats-server, the functions as their host starts them, floor and sink.

The channels are made by `reconcile`, as in production; nothing here reaches into NATS.
"""

from __future__ import annotations

import json
import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench import processes, proxied
from bench.requests import Mode
from headrace.core import names
from tests.support.functions.channels import channel, entry
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.programs.process import DidNotStart, Running

NAMESPACE = "bench"
STORED = "stored"
DRAINED = "drained"
PACED = "paced"
SUBSCRIPTIONS = {
    DRAINED: "5d1e0c52-0000-4000-8000-000000000001",
    PACED: "5d1e0c52-0000-4000-8000-000000000002",
}


@dataclass(frozen=True, slots=True)
class Stage:
    """The processes by their parts, and the means to start more of them.

    Attributes:
        relays: two in a row before the subscriber that `bench.paced` will be.
        relay_to_sink: another one, before the sink.
        paced_port: of that subscriber.
        proxied_floor: a Go proxy in front of the floor, and one in front of `receive`; None without a Go to build them.
    """

    nats: NatsServer
    floor: Running
    relays: tuple[Running, Running]
    relay_to_sink: Running
    sink: Running
    receive: Running
    reconcile: Running
    forward: Running
    token: str
    directory: Path
    environment: Mapping[str, str]
    paced_port: int
    proxied_floor: Running | None
    proxied_receive: Running | None

    def another_receive(self) -> Running:
        """One more `receive`, just begun; whoever asks for it stops it."""
        return processes.starting("receive", self.directory, self.environment)

    def another_forward(self) -> Running:
        """One more `forward`, likewise."""
        return processes.starting("forward", self.directory, self.environment)

    def make_channels(self) -> None:
        """One channel that only stores, and two whose events wait for `forward`."""
        self._sync(STORED)
        self._sync(DRAINED, entry(SUBSCRIPTIONS[DRAINED], subscriberUri=f"{self.sink.url}/"))
        self._sync(PACED, entry(SUBSCRIPTIONS[PACED], subscriberUri=f"http://127.0.0.1:{self.paced_port}/"))

    def make_many(self, count: int) -> list[str]:
        """So many channels that only store; the paths of all."""
        many = [f"many-{number}" for number in range(count)]
        for name in many:
            self._sync(name)
        return [f"/{NAMESPACE}/{name}" for name in many]

    def lease(self, *, linger: float, channel: str = DRAINED, forward: Running | None = None) -> dict[str, Any]:
        """Open one lease and wait for its answer."""
        return self._call(
            (forward or self.forward).url,
            {
                "stream": names.stream(NAMESPACE, channel),
                "consumer": names.durable(SUBSCRIPTIONS[channel]),
                "seconds": 20,
                "linger": linger,
                "max_in_flight": 100,
            },
        )

    def arrivals(self) -> dict[str, Any]:
        """What the sink has got since it was last asked."""
        with urllib.request.urlopen(self.sink.url, timeout=5) as answer:
            found: dict[str, Any] = json.load(answer)
            return found

    def _sync(self, name: str, *subscribers: dict[str, Any]) -> None:
        parent = channel(*subscribers, namespace=NAMESPACE, name=name, uid=f"bench-{name}")
        body = {"controller": {}, "parent": parent, "children": {}, "related": {}, "finalizing": False}
        status = self._call(f"{self.reconcile.url}/sync", body)["status"]
        ready = [condition for condition in status["conditions"] if condition["type"] == "Ready"]
        if not ready or ready[0]["status"] != "True":
            raise DidNotStart(f"channel {NAMESPACE}/{name} is not ready: {status['conditions']}")

    def _call(self, url: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"content-type": "application/json", "authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            found: dict[str, Any] = json.load(answer)
            return found


@contextmanager
def opened(directory: Path) -> Iterator[Stage]:
    """Start all processes, make the channels, and stop everything at the end, whatever happened."""
    token = secrets.token_hex(16)
    with ExitStack() as started:

        def keep(running: Running) -> Running:
            started.callback(running.stop)
            return running

        nats = NatsServer(directory / "nats").start()
        started.callback(nats.stop)
        environment = {"NATS_URL": nats.url, "HEADRACE_TOKEN": token}
        paced_port = free_port()
        second = keep(processes.module("bench.relay", directory, "--to", str(paced_port)))
        proxy = proxied.built()

        def proxied_by(server: Running) -> Running | None:
            return None if proxy is None else keep(proxied.in_front_of(server, proxy, directory))

        floor = keep(processes.module("bench.floor", directory))
        sink = keep(processes.module("bench.sink", directory))
        receive = keep(processes.function("receive", directory, environment))
        stage = Stage(
            nats=nats,
            floor=floor,
            relays=(keep(processes.module("bench.relay", directory, "--to", str(second.port))), second),
            relay_to_sink=keep(processes.module("bench.relay", directory, "--to", str(sink.port))),
            sink=sink,
            receive=receive,
            reconcile=keep(processes.function("reconcile", directory, environment)),
            forward=keep(processes.function("forward", directory, environment)),
            token=token,
            directory=directory,
            environment=environment,
            paced_port=paced_port,
            proxied_floor=proxied_by(floor),
            proxied_receive=proxied_by(receive),
        )
        stage.make_channels()
        yield stage


def load(
    url: str, events: int, *, connections: int = 32, mode: Mode = Mode.BINARY, more: Sequence[str] = ()
) -> dict[str, Any]:
    """Run the load generator to its end.

    Args:
        more: further arguments of `bench.load`.

    Raises:
        RuntimeError: not every event was answered with 202.
    """
    command = [sys.executable, "-m", "bench.load", "--url", url, "--events", str(events)]
    command += ["--connections", str(connections), "--mode", mode, *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    found: dict[str, Any] = json.loads(done.stdout)
    if found["statuses"] != {"202": events}:
        raise RuntimeError(f"{url} answered {found['statuses']} to {events} events; all must be 202 to be compared")
    return found
