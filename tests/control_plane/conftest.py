"""One control plane for the whole suite, with our CRD and the neighbours' kinds; a namespace of its own per test."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.generate import crd
from infra.programs import control_plane_binaries
from tests.support.http.subscriber import Subscriber
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api, connect
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pods import ready_pods
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.tenants import Accounts
from tests.support.waiting import until

NEIGHBOURS = Path(__file__).with_name("crds") / "neighbours.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Running, with all kinds established."""
    try:
        started = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    except control_plane_binaries.Missing as missing:
        if os.environ.get("CI"):
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    started.start()
    try:
        asyncio.run(define(started))
        yield started
    finally:
        started.stop()


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """A client that may do everything."""
    session, found = connect(control_plane)
    async with session:
        yield found


@pytest.fixture
async def pods(api: Api) -> AsyncIterator[None]:
    """Functions are told to be ready a moment after they were applied."""
    async with ready_pods(api):
        yield


@pytest.fixture
async def namespace(api: Api) -> AsyncIterator[str]:
    """A new one; its channels go at the end, or an operator of the whole cluster would have them all to see to."""
    name = f"test-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    yield name
    await clear(api, name)


async def clear(api: Api, namespace: str) -> None:
    """Take the channels of a namespace away."""
    folder = CHANNELS.format(namespace=namespace)
    for channel in (await api.get(folder)).body.get("items") or ():
        place = f"{folder}/{channel['metadata']['name']}"
        await api.delete(place)
        # Whoever would take it off has ended.
        await api.merge(place, {"metadata": {"finalizers": []}})


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    """A running nats-server with JetStream, empty."""
    server = NatsServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Accounts]:
    """A running nats-server with accounts of several tenants."""
    found = Accounts(tmp_path / "accounts")
    found.start()
    yield found
    found.kill()


@pytest.fixture
def subscriber() -> Iterator[Subscriber]:
    """HTTP places that record what they are sent."""
    with Subscriber() as server:
        yield server


@pytest.fixture
def hook(subscriber: Subscriber) -> Hook:
    """What plays `reconcile`."""
    return Hook(subscriber, "/hook")


@pytest.fixture
async def relay(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[ApiRelay]:
    """The way of the operator to the API server."""
    async with ApiRelay(control_plane, tmp_path) as relay:
        yield relay


@pytest.fixture
async def operator(
    relay: ApiRelay, nats_server: NatsServer, hook: Hook, namespace: str, tmp_path: Path
) -> AsyncIterator[Callable[..., OperatorProcess]]:
    """Start an operator for the test's namespace, with more settings if given."""
    started: list[OperatorProcess] = []

    def start(**settings: str) -> OperatorProcess:
        # What one test leaves unfinished is not the next one's.
        ours = {"WATCH_NAMESPACE": namespace, "POD_NAMESPACE": namespace, "OPERATOR_LEASE_DURATION": "6s"}
        given = {"kubeconfig": relay.kubeconfig, "hook": hook.url}
        more = {**ours, **settings}
        one = OperatorProcess(
            given["kubeconfig"], nats_server.url, more.pop("hook", str(given["hook"])), tmp_path, **more
        )
        started.append(one.start())
        return one

    yield start
    # Beside the loop: the relay is on it, and the last thing that an operator does is to give its Lease back.
    await asyncio.gather(*(asyncio.to_thread(one.stop) for one in started))


async def define(control_plane: ControlPlane) -> None:
    """Our kind, and the neighbours'."""
    session, api = connect(control_plane)
    async with session:
        texts = (crd.FILE.read_text(encoding="utf-8"), NEIGHBOURS.read_text(encoding="utf-8"))
        for definition in itertools.chain.from_iterable(map(yaml.safe_load_all, texts)):
            (await api.create(DEFINITIONS, definition, strict=True)).unwrapped()
            await established(api, definition["metadata"]["name"])


async def established(api: Api, name: str) -> None:
    """Wait until the server serves a kind."""
    last: dict[str, Any] = {}

    async def is_so() -> bool:
        last.update((await api.get(f"{DEFINITIONS}/{name}")).unwrapped())
        conditions = {one["type"]: one for one in last.get("status", {}).get("conditions") or ()}
        assert conditions.get("NonStructuralSchema", {}).get("status") != "True", conditions
        return conditions.get("Established", {}).get("status") == "True"

    await until(f"{name} is established", is_so, 60.0)
