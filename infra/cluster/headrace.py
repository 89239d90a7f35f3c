"""Headrace in the cluster: its image, built by `infra.image` and brought in, and installed as docs/install.md says."""

from __future__ import annotations

import secrets
import subprocess
import sys
import tempfile
from pathlib import Path

from infra.cluster import images, manifests
from infra.cluster.commands import kubectl
from infra.cluster.instance import Cluster, Problem
from infra.cluster.names import HEADRACE

_INFRA = Path(__file__).resolve().parents[1]
_NAMED = "headrace.example/headrace:0.1.0"
_NAMESPACE, _TOKEN = "knative-eventing", "headrace-token"


def load(cluster: Cluster, name: str = HEADRACE) -> None:
    """Build the image, and bring it in under that name.

    Raises:
        Problem: it can't be built.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "headrace.tar"
        command = [sys.executable, "-m", "infra.image", "archive", "--name", name, "--out", str(file)]
        if subprocess.run(command, cwd=_INFRA.parent).returncode != 0:
            raise Problem("the image can't be built: see above")
        images.load(cluster, file)


def install(cluster: Cluster, name: str = HEADRACE) -> None:
    """Apply `infra/install.yaml` with the image of that name, and wait until all is ready.

    Raises:
        Problem: there is no such image in the cluster, or it does not come up.
    """
    if name not in images.loaded(cluster):
        raise Problem(f"there is no image {name} in the cluster: `task cluster -- load` builds it and brings it in")
    of = ("-n", _NAMESPACE)
    if not kubectl(cluster, *of, "get", "secret", _TOKEN, "--ignore-not-found", "-o", "name"):
        # Not among the words of a command, which everybody on the machine can read.
        token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": _TOKEN, "namespace": _NAMESPACE}}
        with_token = manifests.text([{**token, "stringData": {"token": secrets.token_hex(32)}}])
        kubectl(cluster, "create", "-f", "-", given=with_token)
    wanted = (_INFRA / "install.yaml").read_text(encoding="utf-8").replace(_NAMED, name)
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", given=wanted)
    kubectl(cluster, *of, "rollout", "status", "deployment/headrace-operator", "--timeout=120s")
    kubectl(cluster, *of, "wait", "--for=condition=Ready", "ksvc/headrace-hook", "--timeout=120s")
