"""`func deploy` as docs/install.md says it, without an engine, up to a pod that takes events."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.cluster import images
from infra.cluster.instance import Cluster
from infra.image import base
from infra.image.store import Store
from tests.cluster.conftest import Told
from tests.hosts import pythons
from tests.support.cluster.kubectl import SYSTEM, Kubectl, until
from tests.support.cluster.load import World
from tests.support.cluster.reach import Sender
from tests.support.programs import func
from tests.support.programs.func import Func
from tests.support.programs.image_registry import Registry

SEES = "Waiting for Knative Service to become ready"
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def deployed(kubectl: Kubectl) -> Iterator[None]:
    yield
    kubectl("delete", "ksvc", "headrace", "-n", SYSTEM, "--ignore-not-found")


def of_version(version: str, directory: Path) -> str:
    """A PATH on which `python` is of that version: func installs for the Python that it finds."""
    folder = directory / "python"
    folder.mkdir()
    (folder / "python").symlink_to(pythons.found()[version])
    return f"{folder}:{os.environ['PATH']}"


def test_func_deploys_a_function_without_an_engine_and_its_pod_takes_events(
    world: World, cluster: Cluster, kubectl: Kubectl, deployed: None, tmp_path: Path, told: Told
) -> None:
    flow = world.flow("func", "orders")
    name, version = base.wanted()
    with Registry(tmp_path / "registry.log") as registry:
        with Store() as store:
            base.have(store)
            store.said("push", "--quiet", "--tls-verify=false", name, f"docker://{registry.place}/python:{version}")
        place = f"{registry.place}/me"
        variables = {"KUBECONFIG": str(kubectl.kubeconfig), "REGISTRY": place, "PATH": of_version(version, tmp_path)}
        tool = Func(tmp_path, variables)
        (command,) = func.commands("deploy")
        command = f"{command.replace('$REGISTRY', place)} --builder=host --base-image={registry.place}/python:{version}"
        with tool.running(f"{command} --verbose", until=SEES):
            (container,) = kubectl.get("ksvc", "headrace")["spec"]["template"]["spec"]["containers"]
            # The node reaches no registry of this machine's loopback: what func has pushed is brought in.
            images.pull(cluster, container["image"])
            ready = kubectl.wait_ready("ksvc", "headrace", SYSTEM, 240)
    url = kubectl.get("ksvc", "headrace")["status"]["url"]
    Sender(kubectl, f"{url}{flow.channel.path}").accepted("by-func")
    until("it is delivered", lambda: [arrival.id for arrival in flow.place.arrivals] == ["by-func"], 60)
    told(f"Ready {ready:.0f} s after the image was there; an event answered with 202, and delivered")
