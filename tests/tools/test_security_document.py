"""The commands of docs/knative-security.md, word for word, with a real kubectl on a real API server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest

from headrace.core import names
from headrace.core.security.flags import Flags
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import ROOT, blocks

DOCUMENT = ROOT / "docs/knative-security.md"
Run = Callable[[str], str]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Bash on a cluster with Knative's ConfigMap of flags, and a namespace with a sender."""
    assert shutil.which("kubectl"), "there is no kubectl: install it, or leave this file out"
    control_plane = ControlPlane(tmp_path / "control-plane")
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig), "HOME": str(tmp_path)}

    def bash(text: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180)
        assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
        return done.stdout

    control_plane.start()
    try:
        bash("kubectl create namespace knative-eventing; kubectl create namespace shop")
        bash("kubectl -n knative-eventing create configmap config-features; kubectl -n shop create serviceaccount till")
        yield bash
    finally:
        control_plane.stop()


def commands(mark: str, page: Path = DOCUMENT) -> list[str]:
    return [block.text for block in blocks(page) if block.about == mark]


def flags(run: Run) -> Flags:
    found: dict[str, Any] = json.loads(run("kubectl -n knative-eventing get configmap config-features -o json"))
    read, problems = Flags.read(found["data"])
    assert problems == ()
    return read


def test_the_flag_is_set_and_a_token_is_for_the_channel(run: Run) -> None:
    turn_on, by_hand = commands("oidc")
    run(turn_on)
    assert flags(run) == Flags(oidc=True)
    claims = jwt.decode(run(by_hand).strip(), options={"verify_signature": False})
    assert claims["aud"] == [names.audience("shop", "orders")]


def test_the_operator_may_have_tokens_made_in_the_namespace_that_lets_it_alone(run: Run) -> None:
    (bind,) = commands("sender tokens")
    assert commands("sender tokens", ROOT / "docs/rbac.md") == [bind]
    run(f"kubectl apply --server-side -f {ROOT / 'infra/base/rbac/operator.yaml'}")
    operator = "system:serviceaccount:knative-eventing:headrace-operator"
    asked = f"kubectl auth can-i create serviceaccounts --subresource=token --as={operator}"
    assert run(f"{asked} -n shop || true").strip() == "no"

    run(bind)

    assert run(f"for _ in $(seq 30); do {asked} -n shop && break || sleep 1; done").split()[-1] == "yes"
    assert run(f"{asked} -n default || true").strip() == "no"


def test_the_flag_of_event_types_is_set(run: Run) -> None:
    (turn_on,) = commands("types")
    run(turn_on)
    assert flags(run).auto_create_types is True
