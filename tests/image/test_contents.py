"""The contents of the image: layers and history as they are pushed, and programs run in it as in a pod."""

from __future__ import annotations

import json
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from infra.image import build
from infra.image.outside import arguments
from tests.support.programs.built_image import RECONCILE, Built, Pods, installed, pod_of
from tests.support.programs.containers import with_command

# Byte code of what is imported, flagged as never to be compared with its source (PEP 552).
_COMPILED = """
import sys, pathlib
import headrace.host.serving, headrace.receive.story, headrace.forward, headrace.reconcile, headrace_operator.program
import headrace_cli.commands.root, opentelemetry.sdk.trace
for name, module in sorted(sys.modules.items()):
    source, compiled = getattr(module, '__file__', None), getattr(module, '__cached__', None)
    if source and source.endswith('.py') and compiled:
        head = pathlib.Path(compiled).read_bytes()[4:8] if pathlib.Path(compiled).exists() else b''
        print(name, source, head.hex())
"""


@dataclass(frozen=True)
class Layers:
    """An OCI archive: its configuration, and the files of the layers over the base."""

    config: dict[str, Any]
    files: list[tarfile.TarInfo]
    size: int


@pytest.fixture(scope="module")
def layers(built_image: Built) -> Layers:
    with tarfile.open(built_image.archive) as whole:

        def blob(digest: str) -> Any:
            return json.load(whole.extractfile(f"blobs/sha256/{digest.removeprefix('sha256:')}") or b"")

        (found,) = json.load(whole.extractfile("index.json") or b"")["manifests"]
        assert found["annotations"]["org.opencontainers.image.ref.name"] == build.NAME
        manifest = blob(found["digest"])
        _, *ours = manifest["layers"]
        files = []
        for layer in ours:
            with tarfile.open(fileobj=whole.extractfile(f"blobs/sha256/{layer['digest'][7:]}"), mode="r:*") as inner:
                files += inner.getmembers()
        return Layers(blob(manifest["config"]["digest"]), files, built_image.archive.stat().st_size)


def test_over_its_base_there_are_the_environment_and_byte_code_of_the_standard_library_only(layers: Layers) -> None:
    others = [one.name for one in layers.files if not one.isdir() and not one.name.startswith("app/.venv/")]
    assert len(others) > 500
    assert [name for name in others if "/python3.13/" not in name or "/__pycache__/" not in name] == []
    names = {Path(one.name).name for one in layers.files}
    assert names.isdisjoint({"uv", "uvx", "pip", "pip3", "uv.toml", "pip.conf", "uv_cache.json", "ca-certificates.crt"})


def test_everything_in_it_is_roots_and_only_root_may_write_it(layers: Layers) -> None:
    assert {(one.uid, one.gid) for one in layers.files} == {(0, 0)}
    assert [one.name for one in layers.files if not one.issym() and one.mode & 0o022] == []


def test_nothing_of_the_machine_that_built_it_is_told_in_it(layers: Layers) -> None:
    assert set(layers.config["config"]) <= {"User", "ExposedPorts", "Env", "Cmd", "Labels"}
    assert {one.split("=")[0] for one in layers.config["config"]["Env"]} == {
        "PATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "HOST", "PORT", "METRICS_PORT"
    }  # fmt: skip
    told = json.dumps(layers.config)
    assert [one for one in (*arguments(), *_proxies()) if one.split("=", 1)[1] in told] == []


def _proxies() -> Iterator[str]:
    for name, value in os.environ.items():
        if name.upper().endswith("_PROXY") and value:
            yield f"{name}={value}"


def test_its_user_is_a_number_without_a_name_and_is_not_root(built_image: Built) -> None:
    assert built_image.image.config["User"] == "65532:65532"
    assert "65532" not in (built_image.image.folder / "etc" / "passwd").read_text()


@pytest.fixture
def pod() -> dict[str, Any]:
    """Any of ours."""
    return pod_of(installed(RECONCILE["deployment"]))


def test_all_that_is_imported_is_byte_code_that_is_never_compared_with_its_source(
    pods: Pods, pod: dict[str, Any]
) -> None:
    with pods.container(with_command(pod, "python", "-c", _COMPILED)) as container:
        lines = container.ran().splitlines()
    compiled = {line.split()[0]: line.split()[-1] for line in lines}
    assert {"asyncio.base_events", "pydantic.main", "headrace.core.names", "headrace_operator.scaling.scaler"} <= set(
        compiled
    )
    assert {name: head for name, head in compiled.items() if head != "01000000"} == {}


@pytest.mark.parametrize(
    ("command", "says"),
    [
        pytest.param(("headrace", "--help"), "Usage: headrace", id="headrace"),
        pytest.param(("kn-jetstream", "--help"), "Usage: ", id="kn-jetstream"),
        pytest.param(("python", "-m", "headrace_operator"), "HOOK_URL: set it", id="operator"),
    ],
)
def test_its_programs_start_and_write_nothing(
    pods: Pods, pod: dict[str, Any], command: tuple[str, ...], says: str
) -> None:
    with pods.container(with_command(pod, *command)) as container:
        log = container.ran()
        assert says in log
        assert "Traceback" not in log
        assert container.written() == []


def test_nothing_can_be_written_and_nothing_be_gained_in_its_pods(pods: Pods, pod: dict[str, Any]) -> None:
    script = "cat /proc/self/status; for place in / /tmp /app/.venv /var/tmp; do touch $place/x; done"
    with pods.container(with_command(pod, "sh", "-c", script)) as container:
        log = container.ran()
    status = dict(line.split(":\t", 1) for line in log.splitlines() if ":\t" in line)
    assert status["Uid"].split() == ["65532"] * 4
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert log.count("Read-only file system") == 4
