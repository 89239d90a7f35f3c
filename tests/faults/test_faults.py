"""Nothing is lost: the short version of the fault bench, on real processes (see docs/faults.md for the long one).

The cells mostly wait for ack waits and back-offs, so some are played beside each other.
"""

from __future__ import annotations

import asyncio
import os
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
WANTED = [name for name, cell in CELLS.items() if cell.short]

Played = dict[str, Future[Row]]


@pytest.fixture(scope="module")
def played(request: pytest.FixtureRequest) -> Iterator[Played]:
    """All cells that were selected, begun in their order."""
    chosen = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    asked = [params["name"] for params in chosen if "name" in params and not lacking(params["name"])]
    with ThreadPoolExecutor(BESIDE) as pool:
        yield {name: pool.submit(_play, name) for name in asked}


def _play(name: str) -> Row:
    return asyncio.run(play(replace(CELLS[name], bound=BOUND), SEED))


def lacking(name: str) -> str:
    """Why this machine can't play it."""
    lacks = CELLS[name].lacks
    return lacks() if lacks is not None else ""


@pytest.mark.parametrize("name", WANTED)
def test_nothing_is_lost_and_only_what_was_in_hands_comes_twice(name: str, played: Played) -> None:
    if why := lacking(name):
        # In CI each cell is played: what the machine lacks is a failure there, and no pass anywhere.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"NOT PLAYED, so nothing is known: {why}")
    row = played[name].result()

    assert row.faults() == []
    assert row.lost == row.discarded
