"""Plants each bug and searches for it: after how many seeds is it found, and which promise does it break?"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation import environment, search
from tests.simulation import plan as plans
from tests.simulation.bugs import delivering, leasing, receiving, recording
from tests.simulation.bugs.planting import BUGS
from tests.simulation.oracle.failure import Failure

PLANTED = (receiving, delivering, recording, leasing)


def hunt(names: Sequence[str], *, most: int, jobs: int) -> int:
    """1 when one is not found in `most` seeds."""
    chosen = list(names or BUGS)
    print("| bug | seeds until it is found | by | s |\n| --- | ---: | --- | ---: |", flush=True)
    missed = 0
    spawn = multiprocessing.get_context("spawn")
    # A process for each: a bug stays where it was planted.
    with spawn.Pool(jobs, maxtasksperchild=1) as pool, spawn.Pool(1) as clean:
        for found in pool.imap(_search, [(name, most) for name in chosen], chunksize=1):
            if found.seed is not None and not clean.apply(_is_clean, (found.seed,)):
                print(f"seed {found.seed} fails without a bug, too: mend that first", flush=True)
            missed += found.seed is None
            print(found, flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return 1 if missed else 0


@dataclass(frozen=True, slots=True)
class _Hunted:
    """The end of the search for one bug; `seed` is the first that fails, None for none."""

    name: str
    seed: int | None
    seconds: float
    failure: Failure | None = None

    def __str__(self) -> str:
        words = (BUGS[self.name].__doc__ or "").strip()
        if self.seed is None or self.failure is None:
            return f"| `{self.name}`: {words} | **not found** | | {self.seconds:.0f} |"
        invariant = self.failure.invariant
        return f"| `{self.name}`: {words} | {self.seed + 1} | {int(invariant)} {invariant.name} | {self.seconds:.0f} |"


def _search(asked: tuple[str, int]) -> _Hunted:
    name, most = asked
    environment.prepare()
    BUGS[name]()
    began = time.monotonic()
    for seed in range(most):
        _, failures = search.played(plans.draw(seed))
        if failures:
            return _Hunted(name, seed, time.monotonic() - began, failures[0])
    return _Hunted(name, None, time.monotonic() - began)


def _is_clean(seed: int) -> bool:
    """Does this seed's history break no promise where no bug is planted?"""
    environment.prepare()
    return not search.played(plans.draw(seed))[1]
