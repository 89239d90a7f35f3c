"""One control plane with Knative Eventing's own controller and webhook, and Headrace on it as local processes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from infra.generate import crd
from infra.programs import control_plane_binaries, neighbour_binaries
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Subscriber
from tests.support.kube import eventing
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import Api, connect
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.pods import ready_pods
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.programs.process import Running

ROLES = Path(__file__).parents[2] / "infra" / "base" / "rbac" / "knative.yaml"
# A consumer outlives its Subscription by little, so that the end of it is in the test.
GRACE = "5s"
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Running, with nothing on it."""
    try:
        neighbour_binaries.found()
        started = ControlPlane(tmp_path_factory.mktemp("control-plane"))
    except control_plane_binaries.Missing as missing:
        pytest.skip(str(missing))
    started.start()
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def neighbours(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Knative Eventing at work, our kind and the roles for it in place."""
    directory = tmp_path_factory.mktemp("eventing")

    async def begin() -> list[Running]:
        session, api = connect(control_plane)
        async with session:
            # Our roles first: what the controller may not see once, it does not look for again.
            for text in (crd.FILE, ROLES):
                for body in yaml.safe_load_all(text.read_text(encoding="utf-8")):
                    await eventing.apply(api, body)
            return await eventing.begin(control_plane, api, directory)

    processes = asyncio.run(begin())
    try:
        yield control_plane
    finally:
        for process in processes:
            process.kill()


@pytest.fixture(scope="session")
def nats_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    """A running nats-server with JetStream."""
    server = NatsServer(tmp_path_factory.mktemp("nats"))
    server.start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def headrace(
    neighbours: ControlPlane, nats_server: NatsServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Function]]:
    """The three functions, with paths as addresses and without pods, and the operator of the whole cluster.

    Of a module: beside a Metacontroller there is no operator.
    """
    directory, url = tmp_path_factory.mktemp("headrace"), nats_server.url
    functions = {
        "receive": Function("receive", url, directory),
        "forward": Function("forward", url, directory, METRICS_PORT=str(free_port())),
    }
    functions["reconcile"] = Function(
        "reconcile", url, directory, HEADRACE_ADDRESS=functions["receive"].url, RECONCILE_GONE_GRACE=GRACE
    )
    operator = OperatorProcess(
        neighbours.kubeconfig,
        url,
        functions["reconcile"].url,
        directory,
        FORWARD_URL=functions["forward"].url,
        POD_NAMESPACE="knative-eventing",
    )
    try:
        for function in functions.values():
            function.start()
        operator.start()
        yield functions
    finally:
        operator.stop()
        for function in functions.values():
            function.stop()


@pytest.fixture
async def api(neighbours: ControlPlane) -> AsyncIterator[Api]:
    """A client that may do everything."""
    session, found = connect(neighbours)
    async with session:
        yield found


@pytest.fixture
async def pods(api: Api) -> AsyncIterator[None]:
    """Functions are told to be ready a moment after they were applied."""
    async with ready_pods(api):
        yield


@pytest.fixture
async def namespace(api: Api) -> str:
    """A new one."""
    return await _new_namespace(api)


@pytest.fixture
async def other_namespace(api: Api) -> str:
    """Another new one."""
    return await _new_namespace(api)


@pytest.fixture(scope="session")
def subscriber() -> Iterator[Subscriber]:
    """HTTP places that record what they are sent."""
    with Subscriber() as server:
        yield server


async def _new_namespace(api: Api) -> str:
    name = f"test-{next(_numbers)}"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    return name
