"""The operator as `install.yaml` has it: its variables, its probes, its account's rights, and no file to write."""

from __future__ import annotations

import os
import shutil
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.support.functions.functions import LEFT_OUT
from tests.support.functions.read_only import refusing_writes, written
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import INFRA, SYSTEM, container, in_file, path_of, variables
from tests.support.kube.kube_api import Api
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.programs.process import Running
from tests.support.waiting import until

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases/headrace-operator"
# Where a pod's account is, as the kubelet mounts it.
PATCHED = "from headrace_operator.kube import access; access.SERVICE_ACCOUNT = access.Path({!r})"


async def installed(api: Api) -> dict[str, Any]:
    """Everything but the CRD, which is there; gives the operator's Deployment."""
    for name in (SYSTEM, "knative-serving"):
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert (await api.create("/api/v1/namespaces", body)).status in (201, 409)
    bodies = [one for one in in_file(INFRA / "install.yaml") if one["kind"] != "CustomResourceDefinition"]
    for one in bodies:
        (await api.apply(path_of(one), one, manager="installer", force=True)).unwrapped()
    return next(one for one in bodies if (one["kind"], one["metadata"]["name"]) == ("Deployment", "headrace-operator"))


async def own_token(api: Api) -> str:
    """Of its account, with no other rights than its roles give."""
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/headrace-operator/token"
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    return str((await api.create(path, body)).unwrapped()["status"]["token"])


def mounted(directory: Path, token: str, authority: Path) -> None:
    """What the kubelet would mount of it."""
    directory.mkdir()
    (directory / "token").write_text(token)
    (directory / "namespace").write_text(SYSTEM)
    shutil.copy(authority, directory / "ca.crt")


async def test_it_is_ready_and_leads_with_what_it_is_given_and_writes_nothing(
    api: Api, control_plane: ControlPlane, nats_server: NatsServer, tmp_path: Path
) -> None:
    deployment = await installed(api)
    account, token, port = tmp_path / "account", tmp_path / "token", free_port()
    mounted(account, await own_token(api), control_plane.ca)
    token.write_text("shared")
    host, api_port = control_plane.url.removeprefix("https://").split(":")
    told = {
        **variables(deployment),
        # As the pod's fields, the mounts, and Kubernetes would have it.
        "POD_NAME": "headrace-operator-0",
        "POD_NAMESPACE": SYSTEM,
        "HEADRACE_TOKEN_FILE": str(token),
        "KUBERNETES_SERVICE_HOST": host,
        "KUBERNETES_SERVICE_PORT": api_port,
        # Of this machine.
        "NATS_URL": nats_server.url,
        "HOST": "127.0.0.1",
        "PORT": str(port),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path / "not-there"),
        "TMPDIR": str(tmp_path / "not-there"),
    }
    around = {name: value for name, value in os.environ.items() if not name.startswith((*LEFT_OUT, "KUBE"))}
    assert container(deployment)["command"] == ["python", "-m", "headrace_operator"]
    command = [sys.executable, "-c", refusing_writes("headrace_operator", PATCHED.format(str(account)))]
    running = Running("installed", command, port, tmp_path, {**around, **told}, inherit=False)
    try:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            where = container(deployment)[probe]["httpGet"]
            assert where["port"] == "metrics"
            await until(f"{probe} is passed", lambda path=where["path"]: status(port, path) == 200, 90.0)

        async def leads() -> bool:
            return (await api.get(LEASE)).body.get("spec", {}).get("holderIdentity", "") == "headrace-operator-0"

        await until("it leads", leads, 60.0)
        assert "cannot " not in running.log
        running.terminate()
        assert running.wait() == 0
    finally:
        running.stop()
        await api.delete(LEASE)
    assert written(running.log) == []


def status(port: int, path: str) -> int:
    """Of a GET; 0 without an answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
