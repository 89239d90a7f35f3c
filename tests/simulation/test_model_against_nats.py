"""The model of nats-server does what the real one does: the same commands, through our own engine, step by step."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.simulation.differential.compare import Comparison
from tests.simulation.differential.search import search
from tests.support.nats.nats_server import NatsServer

SECONDS = 20.0


@pytest.mark.timeout(600)
def test_the_same_commands_have_the_same_outcome(tmp_path: Path) -> None:
    server = NatsServer(tmp_path).start()
    try:
        # Another seed for each commit: what one run does not draw, a later one does.
        report = search(Comparison(server), SECONDS, int(os.environ.get("SIMULATION_SEED", "0"), 16))
    finally:
        server.stop()
    print(report)
    assert report.commands > 100
