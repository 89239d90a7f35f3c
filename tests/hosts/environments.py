"""The two hosts' environments: each in a venv of its own, since no venv can hold both.

Kept outside the repository, since making them takes half a minute; made again when the lock file changes.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from tests.hosts import pythons

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace" / "hosts"
# What decides which packages an environment holds; the sources are installed anew whenever they change.
DEPENDENCIES = [ROOT / "uv.lock", ROOT / "pyproject.toml", Path(__file__).resolve()]
SOURCES = ("functions", "operator")

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


@contextmanager
def prepared(kind: Kind, version: str, say: Callable[[str], None]) -> Iterator[Environment]:
    """The environment with the sources as they are now; no other test run can change it meanwhile.

    Args:
        say: told what takes a while.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    family = f"{kind}-{version}"
    environment = Environment(kind, version, CACHE / f"{family}-{_fingerprint(DEPENDENCIES)}")
    installed = environment.directory / "installed"
    sources = _fingerprint(sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")))
    with _locked(CACHE / f"{family}.lock", say):
        for stale in CACHE.glob(f"{family}-*"):
            if stale != environment.directory or not installed.exists():
                shutil.rmtree(stale)
        if not installed.exists():
            began = time.monotonic()
            say(f"making the environment of {kind} on Python {version} …")
            _make(environment, PYTHONS[version])
            say(f"… took {time.monotonic() - began:.0f} s")
        elif installed.read_text(encoding="ascii") != sources:
            _install(environment, "--no-deps", "--reinstall-package", "function", str(ROOT))
        installed.write_text(sources, encoding="ascii")
        yield environment


def _make(environment: Environment, python: Path) -> None:
    # Seeded with pip, which not every system's own Python brings along.
    _run("uv", "venv", "--quiet", "--no-project", "--seed", "--python", python, environment.directory / "venv")
    if environment.kind is Kind.FRAMEWORK:
        _install(environment, f"{ROOT}[framework]")
        return
    package = environment.service / "service"
    package.mkdir(parents=True)
    (environment.service / "pyproject.toml").write_text(SCAFFOLD_PROJECT, encoding="utf-8")
    (package / "__init__.py").touch()
    (package / "main.py").write_text(SCAFFOLD_MAIN, encoding="utf-8")
    if environment.version == pythons.RUNNING:
        # As func builds it, with pip; on the other Pythons with uv, which resolves the same in a tenth of the time.
        _run(environment.python, "-m", "pip", "install", "--quiet", environment.service)
    else:
        _install(environment, environment.service)


def _install(environment: Environment, *arguments: str | Path) -> None:
    _run("uv", "pip", "install", "--quiet", "--python", environment.python, *arguments)


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, cwd=ROOT)


def _fingerprint(paths: list[Path]) -> str:
    # The checkout is part of it: the scaffold's project names it.
    digest = hashlib.blake2b(str(ROOT).encode(), digest_size=8)
    for path in paths:
        digest.update(str(path).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@contextmanager
def _locked(path: Path, say: Callable[[str], None]) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another test run, which uses {path.stem} …")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
