"""A release from a clone, with the base pulled by its digest from a registry, and read there by another program."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.image import base, machine, release
from infra.image.store import Store
from infra.programs import tool_binaries
from tests.support.kube.install import ROOT
from tests.support.programs.image_registry import Registry

BASE = "library/python:3.13-slim"
pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    """In it there is the base, as if it came from where the world has it."""
    if reason := machine.why_not():
        pytest.skip(reason)
    with Registry(tmp_path / "registry.log") as found:
        yield found


def oras(*words: str) -> Any:
    program = tool_binaries.found(tool_binaries.ORAS)["oras"]
    done = subprocess.run([program, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def pushed_base(registry: Registry) -> str:
    """Its digest."""
    with Store() as store:
        name = base.have(store)
        store.said("push", "--quiet", "--tls-verify=false", name, f"docker://{registry.place}/{BASE}")
    found = oras("manifest", "fetch", "--descriptor", f"{registry.place}/{BASE}")
    return str(found["digest"])


def test_a_release_has_one_digest_and_carries_what_is_in_it_and_how_it_was_made(
    registry: Registry, tmp_path: Path
) -> None:
    pinned = pushed_base(registry)
    mirror = tmp_path / "registries.conf"
    mirror.write_text(
        f'unqualified-search-registries = ["docker.io"]\n[[registry]]\nprefix = "docker.io"\n'
        f'location = "{registry.place}"\ninsecure = true\n'
    )
    clone, out, place = tmp_path / "clone", tmp_path / "out", f"{registry.place}/headrace"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    command = [sys.executable, "-m", "infra.image", "release", "--base", pinned, "--out", out, "--push", place]
    said = subprocess.run(
        [*command, "--source", "git+https://git.example/headrace"],
        cwd=clone, env={**os.environ, "CONTAINERS_REGISTRIES_CONF": str(mirror)}, capture_output=True, text=True,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr[-4000:]
    digest = said.stdout.strip()

    assert oras("manifest", "fetch", "--descriptor", f"{place}:0.1.0")["digest"] == digest
    attached = oras("discover", "--format", "json", f"{place}@{digest}")
    kinds = {one["artifactType"] for one in attached.get("referrers") or attached["manifests"]}
    assert kinds == {release.BILL_KIND, release.STATEMENT_KIND}

    statement = json.loads((out / "provenance.json").read_text())
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=clone, capture_output=True, text=True).stdout.strip()
    assert statement["subject"] == [{"name": place, "digest": {"sha256": digest.removeprefix("sha256:")}}]
    assert statement["predicate"]["runDetails"]["builder"]["version"]["buildah"][0].isdigit()
    source, foundation, *files = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    assert source["digest"] == {"gitCommit": head}
    assert foundation == {"name": "python:3.13-slim", "digest": {"sha256": pinned.removeprefix("sha256:")}}
    for one in files:
        assert one["digest"]["sha256"] == hashlib.sha256((clone / one["name"]).read_bytes()).hexdigest()
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=out, check=True)


def test_what_is_not_committed_is_not_released(tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
    (clone / "functions/headrace/mine.py").write_text("x = 1\n")
    command = [sys.executable, "-m", "infra.image", "release", "--stand-in"]
    done = subprocess.run(command, cwd=clone, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert "not committed" in done.stderr


def test_nothing_is_pushed_that_stands_on_a_base_made_here() -> None:
    command = [sys.executable, "-m", "infra.image", "release", "--stand-in", "--push", "registry.example/headrace"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert "--base" in done.stderr


@pytest.mark.parametrize("words", [(), ("--base", "latest"), ("--base", "sha256:abc"), ("--base", "", "--stand-in")])
def test_a_release_names_its_base_by_digest(words: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "infra.image", "release", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--base" in done.stderr.splitlines()[-1]
