"""The model of nats-server does what the real one does: the same commands, through our own engine, step by step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.simulation.differential.compare import Comparison
from tests.simulation.differential.search import search
from tests.simulation.search import commit
from tests.support.nats.nats_server import NatsServer

# The draws of one seed, also on a fast machine: `python -m tests.simulation.differential` draws on.
DRAWS = 60
FIXED, COMMIT = "the fixed seed", "a seed that follows from the commit"


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("seed", "seconds"), [(0, 14.0), (None, 14.0)], ids=[FIXED, COMMIT])
def test_the_same_commands_have_the_same_outcome(tmp_path: Path, seed: int | None, seconds: float) -> None:
    number = int(commit()[:7], 16) if seed is None else seed
    server = NatsServer(tmp_path).start()
    try:
        report = search(Comparison(server), seconds, number, most=DRAWS)
    finally:
        server.stop()
    print(number, report)
    assert report.commands > 20
