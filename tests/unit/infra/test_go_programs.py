"""Where the programs of a control plane are looked for, and the words when they are nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from infra.programs import control_plane_binaries as binaries
from infra.programs import go_programs, neighbour_binaries, tool_binaries


@pytest.fixture(autouse=True)
def nothing_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with no control plane: its PATH has a shell only."""
    monkeypatch.setattr(go_programs, "CACHE", tmp_path / "cache")
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))


def program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    place = folder / name
    place.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="ascii")
    place.chmod(0o755)
    return place


def test_assets_come_before_the_path_and_the_path_before_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cached = program(
        tmp_path / "cache" / "control-plane" / binaries.API_SERVER.version, "kube-apiserver", "Kubernetes v1.36.3"
    )
    assert go_programs.find(binaries.API_SERVER) == cached

    on_path = program(tmp_path / "path", "kube-apiserver", "Kubernetes v1.35.4")
    assert go_programs.find(binaries.API_SERVER) == on_path

    asset = program(tmp_path / "assets", "kube-apiserver", "Kubernetes v1.34.0")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    assert go_programs.find(binaries.API_SERVER) == asset


def test_one_that_is_too_old_does_not_count(tmp_path: Path) -> None:
    program(tmp_path / "path", "kube-apiserver", "Kubernetes v1.29.9")

    assert go_programs.find(binaries.API_SERVER) is None


def test_what_is_missing_is_named_with_the_command_that_prepares_it(tmp_path: Path) -> None:
    program(tmp_path / "path", "etcd", "etcd Version: 3.4.23")

    with pytest.raises(go_programs.Missing) as missing:
        binaries.found()

    assert str(missing.value) == (
        "there is no kube-apiserver, kube-controller-manager: run `task control-plane`, or set KUBEBUILDER_ASSETS"
    )


def test_versions_are_those_of_the_modules() -> None:
    pinned = (binaries.MODULES / "kubernetes" / "go.mod").read_text(encoding="ascii")

    assert f"k8s.io/kubernetes v{binaries.API_SERVER.version}" in pinned
    assert binaries.API_SERVER.version == binaries.CONTROLLER_MANAGER.version
    assert "gitVersion=v1.36.3" in binaries.API_SERVER.link_flags("1.36.3")


@pytest.mark.parametrize(
    "pinned",
    [*binaries.PROGRAMS, *tool_binaries.PROGRAMS, *neighbour_binaries.PROGRAMS],
)
def test_every_program_has_a_version_and_is_a_tool_of_its_module(pinned: go_programs.Program) -> None:
    text = (pinned.module / "go.mod").read_text(encoding="ascii")

    assert pinned.version[0].isdecimal()
    assert f"\t{pinned.package}\n" in text or f"tool {pinned.package}\n" in text
