"""The notebook-style example, run as a program."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.nats.nats_server import NatsServer
from tests.support.spark.spark_programs import run

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "spark" / "orders.py"


def test_the_example_runs_from_its_first_cell_to_its_last(nats_server: NatsServer) -> None:
    environment = {"NATS_URL": nats_server.url, "PYSPARK_PYTHON": sys.executable}
    said = run([sys.executable, EXAMPLE], environment)
    assert "'order.created': 900}, of which 100 are large" in said
