"""The Pythons that the hosts are tested on: the one that runs the tests, and the other supported ones found here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SUPPORTED = ("3.11", "3.12", "3.13")
RUNNING = f"{sys.version_info.major}.{sys.version_info.minor}"


def found() -> dict[str, Path]:
    """By version, as in `3.12`; the running one comes first, and missing ones are missing."""
    # The base interpreter: a venv made from a venv's Python would hang on to that venv.
    pythons = {RUNNING: Path(sys.base_prefix) / "bin" / f"python{RUNNING}"}
    for version in SUPPORTED:
        if version not in pythons and (python := _of_uv(version) or _of_pyenv(version)):
            pythons[version] = python
    return pythons


def _of_uv(version: str) -> Path | None:
    command = ["uv", "python", "find", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def _of_pyenv(version: str) -> Path | None:
    """Pythons that pyenv has built but not switched on are on no PATH, so uv doesn't see them."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    return next(iter(sorted(versions.glob(f"{version}.*/bin/python{version}"))), None)
