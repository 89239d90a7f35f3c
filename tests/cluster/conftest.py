"""A cluster that is up (`task cluster`), what tests do to it with, and where figures go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from infra.cluster import instance, programs
from infra.cluster.daemons import INGRESS_LOCAL_PORT
from infra.cluster.instance import Cluster
from tests.cluster.figures import DOCS, Figures, write
from tests.cluster.kubectl import Kubectl
from tests.cluster.load import World


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", default=instance.DEFAULT, help="name of the cluster, which has to be up")
    parser.addoption("--write", action="store_true", help="write what was measured into docs")


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Cluster:
    name = pytestconfig.getoption("--cluster")
    found = instance.saved(name)
    assert found is not None, f"there is no cluster {name}: run `task cluster -- up`"
    return found


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster.kubeconfig, programs.found((programs.KUBECTL,))["kubectl"])


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Iterator[Figures]:
    found = Figures()
    yield found
    if pytestconfig.getoption("--write"):
        for name, table in found.tables().items():
            write(name, table, DOCS / "cluster.md")


@pytest.fixture(scope="module")
def world(cluster: Cluster, kubectl: Kubectl) -> Iterator[World]:
    """A subscriber on this machine, and the way into the cluster."""
    nats = kubectl.get("service", "nats", "nats-io")["spec"]["clusterIP"]
    node = cluster.addresses.node
    with World(kubectl, cluster.addresses.host, f"http://{node}:{INGRESS_LOCAL_PORT}", f"nats://{nats}:4222") as world:
        yield world
