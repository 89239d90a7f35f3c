"""The `kubectl` commands of docs/migration.md, word for word, by the real kubectl on a real API server.

tests/cli/test_migration.py walks the page; here the commands are taken, and their effects are looked at.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import INFRA, ROOT

NEIGHBOURS = ROOT / "tests/control_plane/crds/neighbours.yaml"
COMMANDS = re.findall(r"^ *(kubectl .+)$", (ROOT / "docs" / "migration.md").read_text(encoding="utf-8"), re.MULTILINE)
# Argo's kinds are not here.
ELSEWHERE = ("kubectl get eventbus,sensors,eventsources -A -o yaml > argo.yaml",)
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: %s, namespace: knative-eventing, labels: {app.kubernetes.io/name: headrace, %s}}
spec:
  selector: {matchLabels: {app: %s}}
  template: {metadata: {labels: {app: %s}}, spec: {containers: [{name: c, image: registry.example/c}]}}
"""
Shell = Callable[[str], str]


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """On a cluster with what the page is about: the Go channel's programs, our own, and functions."""
    control_plane = ControlPlane(tmp_path / "control-plane")
    control_plane.start()
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}

    def run(text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    try:
        run("kubectl create namespace knative-eventing; kubectl create namespace knative-serving")
        run(f"kubectl apply --server-side -f {NEIGHBOURS}")
        run("kubectl wait --for=condition=Established crd/services.serving.knative.dev --timeout=60s")
        run(f"kubectl apply --server-side -f {INFRA}/install.yaml")
        for name in (
            "jetstream-ch-controller",
            "jetstream-ch-dispatcher",
            "headrace-receive-plain",
            "headrace-forward-x",
        ):
            part = "forward" if "forward" in name else "receive" if "receive" in name else "peer"
            component = f"app.kubernetes.io/component: {part}"
            (tmp_path / f"{name}.yaml").write_text(DEPLOYMENT % (name, component, name, name), encoding="utf-8")
            run(f"kubectl apply -f {name}.yaml")
        yield run
    finally:
        control_plane.stop()


def replicas(shell: Shell) -> dict[str, str]:
    lines = shell(
        "kubectl -n knative-eventing get deployments --no-headers -o custom-columns=a:.metadata.name,b:.spec.replicas"
    )
    return dict(line.split() for line in lines.splitlines())


def test_every_command_is_taken_and_leaves_what_is_not_named(shell: Shell) -> None:
    commands = [command for command in COMMANDS if command not in ELSEWHERE]
    assert len(commands) == len(COMMANDS) - len(ELSEWHERE) == 11
    shell("kubectl -n knative-eventing scale deploy headrace-operator --replicas=0")
    for command in commands:
        shell(command)
        if command.endswith("headrace-operator --replicas=1"):
            there = replicas(shell)
            assert (there["jetstream-ch-controller"], there["jetstream-ch-dispatcher"]) == ("0", "0")
            assert there["headrace-operator"] == "1"
    back = replicas(shell)
    assert (back["jetstream-ch-controller"], back["headrace-operator"]) == ("1", "0")
    assert not {"headrace-receive-plain", "headrace-forward-x"} & back.keys()
    assert "headrace-hook" in shell("kubectl -n knative-eventing get services.serving.knative.dev -o name")
