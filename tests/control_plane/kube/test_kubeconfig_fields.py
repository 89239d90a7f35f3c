"""A kubeconfig's fields about the way to the API server are obeyed, by the operator and by `kn`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.core.errors import Unavailable
from headrace_operator.kube.access import from_kubeconfig
from headrace_operator.kube.api import KubeApi
from tests.support.http.connect_proxy import proxying
from tests.support.kube.control_plane import ControlPlane
from tests.support.laptop.cli import run


def kubeconfig(
    control_plane: ControlPlane, directory: Path, user: dict[str, Any] | None = None, **cluster: Any
) -> Path:
    """The tests' own, with more said of cluster or user; None takes a field out."""
    config = json.loads(control_plane.kubeconfig.read_text())
    known = {**config["clusters"][0]["cluster"], **{name.replace("_", "-"): value for name, value in cluster.items()}}
    config["clusters"][0]["cluster"] = {name: value for name, value in known.items() if value is not None}
    config["users"][0]["user"] = {**config["users"][0]["user"], **(user or {})}
    file = directory / "kubeconfig"
    file.write_text(json.dumps(config))
    return file


async def version(file: Path) -> str:
    async with KubeApi(lambda: from_kubeconfig(file)) as api:
        return str((await api.get("/version") or {}).get("major"))


async def listed(file: Path, namespace: str) -> tuple[int, str]:
    told = await asyncio.to_thread(run, "channel", "list", "-n", namespace, "--kubeconfig", str(file))
    return told.status, told.err


async def test_the_name_that_a_certificate_has_to_bear(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    right = kubeconfig(control_plane, tmp_path, tls_server_name="127.0.0.1")
    assert await version(right) == "1"
    assert (await listed(right, namespace))[0] == 0

    wrong = kubeconfig(control_plane, tmp_path, tls_server_name="api.example")
    with pytest.raises(Unavailable, match=r"not valid for 'api\.example'"):
        await version(wrong)
    status, words = await listed(wrong, namespace)
    assert (status != 0, "api.example" in words) == (True, True), words


async def test_a_proxy_leads_there_and_is_told_who_comes(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    async with proxying() as proxy:
        url = f"http://me:secret@127.0.0.1:{proxy.port}"
        file = kubeconfig(control_plane, tmp_path, proxy_url=url, tls_server_name="127.0.0.1")
        assert await version(file) == "1"
        assert proxy.tunnels == [control_plane.url.removeprefix("https://")]
        assert proxy.authorizations == ["Basic bWU6c2VjcmV0"]
        assert (await listed(file, namespace))[0] == 0
        assert len(proxy.tunnels) == 2


async def test_a_certificate_that_is_not_to_be_verified(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    unknown = kubeconfig(control_plane, tmp_path, **{"certificate-authority": None})
    with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
        await version(unknown)
    insecure = {"certificate-authority": None, "insecure-skip-tls-verify": True}
    file = kubeconfig(control_plane, tmp_path, **insecure)
    assert await version(file) == "1"
    assert (await listed(file, namespace))[0] == 0


async def test_kn_refuses_to_act_as_another_rather_than_as_itself(
    control_plane: ControlPlane, namespace: str, tmp_path: Path
) -> None:
    file = kubeconfig(control_plane, tmp_path, {"as": "somebody", "as-groups": ["readers"]})
    status, words = await listed(file, namespace)
    assert (status, "its user acts as another ('as')" in words) == (2, True), words
