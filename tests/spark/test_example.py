"""The notebook-style example, run as a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.nats_server import NatsServer

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark" / "orders.py"


def test_the_example_runs_from_its_first_cell_to_its_last(nats_server: NatsServer) -> None:
    environment = {**os.environ, "NATS_URL": nats_server.url, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)], env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "'order.created': 900}, of which 100 are large" in done.stdout
