"""The model of nats-server does what the real one does: the same commands, through our own engine, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.differential.compare import Comparison
from tests.simulation.differential.search import search
from tests.support.nats.nats_server import NatsServer

SECONDS = 20.0
# The draws of one seed, also on a fast machine: `python -m tests.simulation.differential` draws on.
DRAWS = 60
SEED = 0


@pytest.mark.timeout(600)
def test_the_same_commands_have_the_same_outcome(tmp_path: Path) -> None:
    server = NatsServer(tmp_path).start()
    try:
        report = search(Comparison(server), SECONDS, SEED, most=DRAWS)
    finally:
        server.stop()
    print(report)
    assert report.commands > 100
