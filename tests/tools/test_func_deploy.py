"""`func deploy` as docs/install.md says, as far as there is no kubelet: built without an engine, pushed, and applied.

The image is built on an empty one, in place of Python's own, so what is in it is run by the Python that is here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import ROOT
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.programs import func
from tests.support.programs.func import Func
from tests.support.programs.image_registry import Registry
from tests.support.programs.process import Running

NEIGHBOURS = ROOT / "tests/control_plane/crds/neighbours.yaml"
# The first of them waits for pip.
pytestmark = pytest.mark.timeout(600)
SERVICE = "services.serving.knative.dev/headrace"
# A moment behind the Service's creation, func looks at it again and again.
SEES = "Waiting for Knative Service to become ready"


@dataclass(frozen=True)
class Deployed:
    """What `func deploy` has made: the object in the cluster, and the image, unpacked."""

    service: dict[str, Any]
    image: Path
    command: list[str]
    environment: list[str]


@pytest.fixture(scope="module")
def deployed(tmp_path_factory: pytest.TempPathFactory) -> Deployed:
    directory = tmp_path_factory.mktemp("deploy")
    control_plane = ControlPlane(directory / "control-plane")
    with Registry(directory / "registry.log") as registry:
        control_plane.start()
        try:
            kubectl(control_plane, "create", "namespace", "knative-eventing")
            kubectl(control_plane, "apply", "--server-side", "-f", str(NEIGHBOURS))
            tool = Func(directory, {"KUBECONFIG": str(control_plane.kubeconfig), "REGISTRY": f"{registry.place}/me"})
            (command,) = func.commands("deploy")
            command = command.replace("$REGISTRY", f"{registry.place}/me")
            base = registry.push_an_empty_one("base")
            with tool.running(f"{command} --builder=host --base-image={base} --verbose", until=SEES):
                service = json.loads(kubectl(control_plane, "-n", "knative-eventing", "get", SERVICE, "-o", "json"))
            config = registry.config("me/headrace")["config"]
            registry.unpack("me/headrace", directory / "image")
        finally:
            control_plane.stop()
    return Deployed(service, directory / "image", config["Cmd"], config["Env"])


def kubectl(control_plane: ControlPlane, *words: str) -> str:
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    done = subprocess.run(["kubectl", *words], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_the_service_is_what_func_yaml_says(deployed: Deployed) -> None:
    template = deployed.service["spec"]["template"]
    (container,) = template["spec"]["containers"]
    scale = {name: value for name, value in template["metadata"]["annotations"].items() if "autoscaling" in name}
    assert float(scale.pop("autoscaling.knative.dev/target")) == 100
    assert scale == {"autoscaling.knative.dev/min-scale": "0", "autoscaling.knative.dev/metric": "concurrency"}
    environment = {one["name"]: one["value"] for one in container["env"]}
    assert environment["FUNCTION_TARGET"] == "receive"
    assert environment["NATS_URL"] == "nats://nats.nats-io.svc.cluster.local:4222"
    probes = [container[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
    assert probes == ["/health/liveness", "/health/readiness"]
    assert container["resources"] == {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


@pytest.mark.parametrize("target", ["receive", "forward", "reconcile"])
def test_what_is_in_the_image_serves_every_function(deployed: Deployed, tmp_path: Path, target: str) -> None:
    python, script = deployed.command
    assert python == "python"
    (lib,) = [one.removeprefix("PYTHONPATH=") for one in deployed.environment if one.startswith("PYTHONPATH=")]
    port = free_port()
    server = NatsServer(tmp_path / "nats").start()
    variables = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": f"{deployed.image}{lib}",
        "LISTEN_ADDRESS": f"127.0.0.1:{port}",
        "NATS_URL": server.url,
        "FUNCTION_TARGET": target,
        "HEADRACE_TOKEN": "secret",
    }
    try:
        command = [sys.executable, f"{deployed.image}{script}"]
        running = Running(target, command, port, tmp_path, variables, inherit=False)
        try:
            running.wait_until_ready()
        finally:
            running.stop()
    finally:
        server.kill()


def test_nothing_of_git_and_of_earlier_runs_is_in_the_image(deployed: Deployed) -> None:
    assert (deployed.image / "func" / "func.yaml").is_file()
    assert not (deployed.image / "func" / ".git").exists()
    assert not (deployed.image / "func" / ".func" / "runs").exists()


def test_on_the_host_func_goes_by_no_funcignore(deployed: Deployed) -> None:
    # As the page warns; when this fails, the warning may go.
    assert "/tests" in (ROOT / ".funcignore").read_text(encoding="utf-8").splitlines()
    assert (deployed.image / "func" / "tests").is_dir()
