"""A cluster, Headrace in it, what tests do to them, and where figures go.

Without `--cluster` a run starts a cluster of its own, with an image built from these sources, and takes it down again.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Generator, Iterator

import pytest

from infra.cluster import headrace, images, instance, life, names, programs
from infra.cluster.instance import Cluster
from tests.support.cluster.figures import DOCS, Figures
from tests.support.cluster.installation import Installation
from tests.support.cluster.kept_logs import KeptLogs
from tests.support.cluster.kubectl import Kubectl
from tests.support.cluster.load import World
from tests.support.cluster.scenarios import Scenarios
from tests.support.programs.page import Shell

Told = Callable[[str], None]
_OWN = "test"
_SCENARIOS = pytest.StashKey[Scenarios]()
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", help="name of a cluster that is up; otherwise one is started, and taken down")
    parser.addoption("--write", action="store_true", help="write what was measured into docs")
    parser.addoption("--only", default="", help="of Knative's own tests these, with commas between them")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SCENARIOS] = Scenarios()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    item.config.stash[_SCENARIOS].add(report)
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write", default=False):
        session.config.stash[_SCENARIOS].write(DOCS / "cluster.md")


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[Cluster]:
    if name := pytestconfig.getoption("--cluster"):
        found = instance.saved(name)
        assert found is not None, f"there is no cluster {name}: run `task cluster -- up --name {name}`"
        yield found
        return
    with life.alone(_OWN):
        made = life.up(_OWN, None)
    try:
        headrace.load(made)
        yield made
    finally:
        with life.alone(_OWN):
            life.sweep(_OWN)


@pytest.fixture(scope="session")
def kubectl(cluster: Cluster) -> Kubectl:
    return Kubectl(cluster.kubeconfig, programs.found((programs.KUBECTL,))["kubectl"])


@pytest.fixture(scope="session")
def shell(cluster: Cluster, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """For the commands of docs/install.md; the image is the one that was brought in."""
    assert names.HEADRACE in images.loaded(cluster), "there is no image in the cluster: `task cluster -- load`"
    directory = tmp_path_factory.mktemp("page")
    return Shell(directory, cluster.kubeconfig, names.HEADRACE, programs.found((programs.KUBECTL,))["kubectl"])


@pytest.fixture(scope="session")
def installation(kubectl: Kubectl, shell: Shell) -> Installation:
    return Installation(kubectl, shell)


@pytest.fixture(scope="session")
def kept_logs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KeptLogs]:
    """What pods of ours write from now on, also of those that are gone."""
    with KeptLogs(cluster.logs / "pods", cluster.logs / "kept") as kept:
        yield kept


@pytest.fixture
def installed(installation: Installation, kept_logs: KeptLogs) -> Installation:
    """Headrace is in the cluster, as the page says it for one with Knative Serving."""
    installation.have()
    return installation


@pytest.fixture
def bare(installation: Installation, kept_logs: KeptLogs) -> Installation:
    """Nothing of Headrace is in the cluster yet."""
    if installation.is_there():
        installation.remove()
    installation.wait_until_nothing_is_left()
    return installation


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Iterator[Figures]:
    found = Figures()
    yield found
    if pytestconfig.getoption("--write"):
        found.write(DOCS / "cluster.md")


@pytest.fixture
def told(request: pytest.FixtureRequest) -> Told:
    """Takes the figures of this test, in words, for the table of scenarios."""
    return lambda words: request.config.stash[_SCENARIOS].tell(request.node.nodeid, words)


@pytest.fixture(scope="module")
def world_anywhere(cluster: Cluster, kubectl: Kubectl) -> Iterator[World]:
    """A subscriber on this machine, whether Headrace is in the cluster or not."""
    nats = kubectl.get("service", "nats", "nats-io")["spec"]["clusterIP"]
    with World(kubectl, cluster.addresses.host, f"nats://{nats}:4222") as world:
        yield world


@pytest.fixture(scope="module")
def world(world_anywhere: World, installation: Installation, kept_logs: KeptLogs) -> World:
    """The same, with Headrace installed."""
    installation.have()
    return world_anywhere


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """One of this test's own, which goes afterwards, with all that is in it; pods first, so it takes a while."""
    name = f"flows-{os.getpid()}-{next(_numbers)}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
