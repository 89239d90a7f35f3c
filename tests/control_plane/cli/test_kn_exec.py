"""`kn` takes credentials from the program that a kubeconfig names, as every cloud writes it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.exec_program import ExecProgram
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.laptop.cli import run


@pytest.fixture
def given(tmp_path: Path) -> ExecProgram:
    return ExecProgram(tmp_path / "program")


def kubeconfig(control_plane: ControlPlane, directory: Path, user: dict[str, Any]) -> Path:
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"] = [{"name": "admin", "user": user}]
    file = directory / "kubeconfig"
    file.write_text(json.dumps(config))
    return file


def certificate(control_plane: ControlPlane) -> dict[str, str]:
    return {
        "clientCertificateData": control_plane.certificate.read_text(),
        "clientKeyData": control_plane.key.read_text(),
    }


@pytest.mark.parametrize("by", ["token", "certificate"])
async def test_kn_asks_the_program(
    given: ExecProgram, api: Api, control_plane: ControlPlane, namespace: str, tmp_path: Path, by: str
) -> None:
    if by == "token":
        # The first is refused.
        given.gives(token="nobody's")
        given.gives(token=control_plane.token)
    else:
        given.gives(**certificate(control_plane))
    file = kubeconfig(control_plane, tmp_path, {"exec": given.spec()})
    made = await asyncio.to_thread(run, "channel", "create", "orders", "-n", namespace, "--kubeconfig", str(file))
    assert made.ok().out == f"channel {namespace}/orders is created\n"
    assert (await api.get(f"{CHANNELS.format(namespace=namespace)}/orders")).status == 200


async def test_the_program_is_told_what_the_kubeconfig_says(
    given: ExecProgram, control_plane: ControlPlane, tmp_path: Path
) -> None:
    given.gives(token=control_plane.token)
    wanted = given.spec(args=["a", "b"], env=[{"name": "PROFILE", "value": "dev"}], provideClusterInfo=True)
    file = kubeconfig(control_plane, tmp_path, {"exec": wanted})
    (await asyncio.to_thread(run, "channel", "list", "--kubeconfig", str(file))).ok()
    assert (given.told, given.runs) == ("a b|dev", 1)
    assert given.info["spec"]["cluster"]["server"] == json.loads(file.read_text())["clusters"][0]["cluster"]["server"]


@pytest.mark.parametrize(
    ("user", "status", "words"),
    [
        pytest.param(
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "program-of-nobody",
                    "installHint": "see https://cloud.example/install",
                }
            },
            2,
            "'program-of-nobody', which is not there: install it: see https://cloud.example/install",
            id="not installed",
        ),
        pytest.param({"auth-provider": {"name": "azure"}}, 2, "auth-provider 'azure'", id="auth-provider"),
    ],
)
async def test_kn_says_what_is_missing(
    control_plane: ControlPlane, tmp_path: Path, user: dict[str, Any], status: int, words: str
) -> None:
    file = kubeconfig(control_plane, tmp_path, user)
    listed = await asyncio.to_thread(run, "channel", "list", "--kubeconfig", str(file))
    assert (listed.status, words in listed.err) == (status, True), listed


async def test_kn_says_what_the_program_said(given: ExecProgram, control_plane: ControlPlane, tmp_path: Path) -> None:
    given.does("echo the session has expired, sign in again >&2; exit 1")
    file = kubeconfig(control_plane, tmp_path, {"exec": given.spec()})
    listed = await asyncio.to_thread(run, "channel", "list", "--kubeconfig", str(file))
    assert listed.status != 0
    assert "gives no credentials: exec: process returned 1. the session has expired, sign in again" in listed.err
