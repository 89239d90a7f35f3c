"""The two hosts' environments: each in a venv of its own, since no venv can hold both.

Kept outside the repository and made again when anything that goes into them changes: lock file, sources, Python.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.hosts import pythons

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "hosts"
STALE_SECONDS = 24 * 3600

SCAFFOLD_PROJECT = f"""\
[project]
name = "service"
description = "what kn func writes around a function when it builds one"
version = "0.1.0"
requires-python = ">=3.10"
dependencies = ["func-python==0.8.1", "function @ {ROOT.as_uri()}"]

[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[tool.hatch.metadata]
allow-direct-references = true
"""
SCAFFOLD_MAIN = """\
import logging

from func_python.http import serve

try:
    from function import new as handler
except ImportError:
    from function import handle as handler

logging.basicConfig(level=logging.INFO)
serve(handler)
"""


class Kind(StrEnum):
    FRAMEWORK = "functions-framework"
    SCAFFOLD = "kn-func"


PYTHONS = pythons.found()
COMBINATIONS = [(kind, version) for version in PYTHONS for kind in Kind]


@dataclass(frozen=True, slots=True)
class Environment:
    """A venv that holds one host and our distribution; `service` is the scaffold's project, if it is one."""

    kind: Kind
    version: str
    directory: Path

    @property
    def python(self) -> Path:
        return self.directory / "venv" / "bin" / "python"

    @property
    def service(self) -> Path:
        return self.directory / "service-project"

    def has(self, module: str) -> bool:
        return subprocess.run([self.python, "-c", f"import {module}"], capture_output=True).returncode == 0


def prepared(kind: Kind, version: str) -> Environment:
    """The environment, made now if it isn't there; several test runs at once wait for one another."""
    environment = Environment(kind, version, CACHE / f"{kind}-{version}-{_fingerprint()}")
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / f"{kind}-{version}.lock"):
        complete = environment.directory / "complete"
        if not complete.exists():
            shutil.rmtree(environment.directory, ignore_errors=True)
            began = time.monotonic()
            _say(f"making the environment of {kind} on Python {version} …")
            _make(environment, PYTHONS[version])
            _say(f"… took {time.monotonic() - began:.0f} s")
        complete.touch()
    _forget_stale()
    return environment


def _make(environment: Environment, python: Path) -> None:
    venv = environment.directory / "venv"
    if environment.kind is Kind.FRAMEWORK:
        _run("uv", "venv", "--quiet", "--no-project", "--python", python, venv)
        _run("uv", "pip", "install", "--quiet", "--python", environment.python, f"{ROOT}[framework]")
        return
    package = environment.service / "service"
    package.mkdir(parents=True)
    (environment.service / "pyproject.toml").write_text(SCAFFOLD_PROJECT, encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "main.py").write_text(SCAFFOLD_MAIN, encoding="utf-8")
    if python.resolve() == Path(sys.executable).resolve():
        # As func builds it, with pip; on the other Pythons with uv, which resolves the same in a tenth of the time.
        _run(python, "-m", "venv", venv)
        _run(environment.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", environment.service)
    else:
        _run("uv", "venv", "--quiet", "--no-project", "--python", python, venv)
        _run("uv", "pip", "install", "--quiet", "--python", environment.python, environment.service)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, cwd=ROOT)


def _fingerprint() -> str:
    """Of everything that the environments are made from, this file included."""
    names = ["uv.lock", "pyproject.toml", "README.md", "tests/hosts/environments.py"]
    sources = [path for folder in ("functions", "operator") for path in (ROOT / folder).rglob("*.py")]
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted([*(ROOT / name for name in names), *sources]):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    # The scaffold's project names the checkout.
    digest.update(str(ROOT).encode())
    return digest.hexdigest()


def _forget_stale() -> None:
    """Remove what no test run has used for a day."""
    for complete in CACHE.glob("*/complete"):
        if time.time() - complete.stat().st_mtime > STALE_SECONDS:
            shutil.rmtree(complete.parent, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(words: str) -> None:
    # Past pytest's capture, which would hide it until the end.
    print(words, file=sys.__stderr__, flush=True)
