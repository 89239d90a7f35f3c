"""Nothing is lost: the short version of the fault bench, on real processes (see docs/faults.md for the long one).

The cells mostly wait for ack waits and back-offs, so some are played beside each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests.faults.cell import play
from tests.faults.cells import CELLS
from tests.faults.ledger import Row

SEED = 20_261_128
BESIDE = 3
# What is late is for the whole run to say: here a process that was killed may take 20 s until it serves again.
BOUND = 150.0
# What differs most between the two clients: connections that break.
ON_BOTH = ("receive-killed", "forward-killed-after-2xx", "nats-killed", "subscriber-hangs-up")
WANTED = [(name, "engine") for name, cell in CELLS.items() if cell.short] + [(name, "nats-py") for name in ON_BOTH]

Played = dict[tuple[str, str], Future[Row]]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    """All cells that were selected, begun in their order."""
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = [(params["name"], params["client"]) for params in chosen if params.keys() >= {"name", "client"}]
    with ThreadPoolExecutor(BESIDE) as pool:
        yield {(name, client): pool.submit(_play, name, client) for name, client in asked}


def _play(name: str, client: str) -> Row:
    return asyncio.run(play(replace(CELLS[name], bound=BOUND), client, SEED))


@pytest.mark.parametrize(("name", "client"), WANTED)
def test_nothing_is_lost_and_only_what_was_in_hands_comes_twice(name: str, client: str, played: Played) -> None:
    row = played[name, client].result()

    assert row.faults() == []
    assert row.lost == row.discarded
