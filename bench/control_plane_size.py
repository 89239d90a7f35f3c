"""How the operator carries many channels: time until all are Ready, memory, CPU and requests while nothing happens.

Real are the API server, etcd, the nats-server, `reconcile` and the operator; each channel has two subscribers with
their Subscriptions. CPU is that of the operator's process alone, so a busy machine changes the time until Ready, and
little else.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import re
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil
import yaml

from bench.processes import cpu_seconds, peak_rss
from infra import document_place
from infra.generate import crd
from tests.support.functions.functions import Function
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import CHANNELS, Api, connect
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parents[1]
NEIGHBOURS = ROOT / "tests/control_plane/crds/neighbours.yaml"
PAGE = ROOT / "docs/bench/control-plane.md"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SUBSCRIPTIONS = "/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions"
NAMESPACE = "bench"
AT_ONCE = 8
SETTLE_SECONDS = 16.0
MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """What was measured; CPU in seconds, memory in MiB, requests to the API server per minute."""

    channels: int
    created_s: float
    ready_s: float
    busy_cpu_s: float
    peak_mib: float
    idle_mib: float
    idle_percent: float
    requests: dict[str, float]
    sweep: str
    load: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--channels", type=int, default=1000, help="how many channels, by default 1000")
    parser.add_argument("--idle", type=float, default=60.0, help="seconds over which the idle operator is measured")
    parser.add_argument("--sweep", default="15s", help="OPERATOR_SWEEP")
    parser.add_argument("--write", action="store_true", help=f"write the row into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, started(Path(scratch), options.sweep) as (plane, operator):
        found = asyncio.run(measured(plane, operator, options.channels, options.idle, options.sweep))
    print(row(found))
    if options.write:
        write(found)
    return 0


@contextmanager
def started(directory: Path, sweep: str) -> Iterator[tuple[ControlPlane, OperatorProcess]]:
    """Everything but the channels."""
    with ExitStack() as stack:
        plane = ControlPlane(directory / "plane")
        stack.callback(plane.stop)
        plane.start()
        asyncio.run(define(plane))
        nats = NatsServer(directory / "nats")
        stack.callback(nats.kill)
        nats.start()
        reconcile = stack.enter_context(Function("reconcile", nats.url, directory))
        settings = {"OPERATOR_SWEEP": sweep, "LOG_LEVEL": "warning", "FORWARD_URL": "http://127.0.0.1:9"}
        operator = OperatorProcess(plane.kubeconfig, nats.url, reconcile.url, directory, **settings)
        stack.callback(operator.stop)
        yield plane, operator


async def define(plane: ControlPlane) -> None:
    """Our kind and the neighbours', and the namespace."""
    session, api = connect(plane)
    async with session:
        texts = (crd.FILE.read_text(encoding="utf-8"), NEIGHBOURS.read_text(encoding="utf-8"))
        for definition in itertools.chain.from_iterable(map(yaml.safe_load_all, texts)):
            (await api.create(DEFINITIONS, definition)).unwrapped()
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        (await api.create("/api/v1/namespaces", body)).unwrapped()

        async def is_served() -> bool:
            return (await api.get(CHANNELS.format(namespace=NAMESPACE))).accepted

        await until("the channels are served", is_served, 60.0)


async def measured(plane: ControlPlane, operator: OperatorProcess, count: int, idle: float, sweep: str) -> Found:
    session, api = connect(plane)
    async with session:
        operator.start()
        await operator.leads()
        began, cpu = time.monotonic(), cpu_seconds(operator.pid)
        gate = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(create(api, number, gate) for number in range(count)))
        created = time.monotonic() - began
        print(f"{count} channels created in {created:.0f} s", file=sys.stderr)
        await all_ready(api, count)
        ready, busy = time.monotonic() - began, cpu_seconds(operator.pid) - cpu
        print(f"all ready after {ready:.0f} s", file=sys.stderr)
        await events_written(operator)
        calls = requests(operator)
        # What is scraped has a part of it read in NATS: that is not what an idle operator costs.
        await asyncio.sleep(SETTLE_SECONDS)
        cpu = cpu_seconds(operator.pid)
        await asyncio.sleep(idle)
        used, after = cpu_seconds(operator.pid) - cpu, requests(operator)
    return Found(
        channels=count,
        created_s=created,
        ready_s=ready,
        busy_cpu_s=busy,
        peak_mib=peak_rss(operator.pid) / MIB,
        idle_mib=psutil.Process(operator.pid).memory_info().rss / MIB,
        idle_percent=100 * used / idle,
        requests={verb: (after[verb] - calls.get(verb, 0.0)) * 60 / (idle + SETTLE_SECONDS) for verb in sorted(after)},
        sweep=sweep,
        load=os.getloadavg()[0],
    )


async def create(api: Api, number: int, gate: asyncio.Semaphore) -> None:
    """A channel with two subscribers, as Knative's controllers leave it."""
    async with gate:
        entries = []
        for part in ("billing", "shipping"):
            name = f"{part}-{number}"
            body: dict[str, Any] = {
                "apiVersion": "messaging.knative.dev/v1",
                "kind": "Subscription",
                "metadata": {"name": name},
                "spec": {
                    "channel": {
                        "apiVersion": "messaging.knative.dev/v1alpha1",
                        "kind": "NatsJetStreamChannel",
                        "name": f"orders-{number}",
                    },
                    "subscriber": {"uri": f"http://{part}.example/"},
                },
            }
            made = (await api.create(SUBSCRIPTIONS.format(namespace=NAMESPACE), body)).unwrapped()
            uid = made["metadata"]["uid"]
            entries.append({"uid": uid, "name": name, "generation": 1, "subscriberUri": f"http://{part}.example/"})
        channel = {
            "apiVersion": "messaging.knative.dev/v1alpha1",
            "kind": "NatsJetStreamChannel",
            "metadata": {"name": f"orders-{number}"},
            "spec": {"subscribers": entries},
        }
        (await api.create(CHANNELS.format(namespace=NAMESPACE), channel)).unwrapped()


async def events_written(operator: OperatorProcess) -> None:
    deadline = time.monotonic() + 300.0
    while operator.number("headrace_operator_events_waiting") != 0.0:
        assert time.monotonic() < deadline, "the operator still writes Events"
        await asyncio.sleep(5.0)


async def all_ready(api: Api, count: int) -> None:
    while True:
        items = (await api.get(CHANNELS.format(namespace=NAMESPACE))).unwrapped()["items"]
        ready = sum((one.get("status") or {}).get("readySubscribers") == "2/2" and is_ready(one) for one in items)
        if ready == count:
            return
        await asyncio.sleep(0.5)


def is_ready(channel: dict[str, Any]) -> bool:
    conditions = channel["status"].get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def requests(operator: OperatorProcess) -> dict[str, float]:
    """Requests to the API server so far, by verb, as the operator counts them itself."""
    with urllib.request.urlopen(f"http://127.0.0.1:{operator.port}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    found = re.findall(r'^headrace_operator_api_requests_total\{verb="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {verb: float(count) for verb, count in found}


def row(found: Found) -> str:
    """One line of the table."""
    calls = ", ".join(f"{verb} {count:.0f}" for verb, count in found.requests.items() if count) or "none"
    return (
        f"| {datetime.now(UTC):%Y-%m-%d} | {found.channels} | {found.created_s:.0f} s | {found.ready_s:.0f} s "
        f"| {found.busy_cpu_s:.1f} s | {found.peak_mib:.0f} MiB | {found.idle_mib:.0f} MiB | {found.sweep} "
        f"| {found.idle_percent:.2f} % | {calls} | {found.load:.0f} |"
    )


def write(found: Found) -> None:
    """Add the row to the page."""
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(
        document_place.filled(page, "rows", document_place.content(page, "rows") + row(found)), encoding="utf-8"
    )


if __name__ == "__main__":
    sys.exit(main())
