"""Plants each bug and searches for it: after how many seeds is it found, and which promise does it break?"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Sequence

from tests.simulation import environment, search
from tests.simulation import plan as plans
from tests.simulation.bugs import delivering, leasing, receiving, recording
from tests.simulation.bugs.planting import BUGS

PLANTED = (receiving, delivering, recording, leasing)


def hunt(names: Sequence[str], *, most: int, jobs: int) -> int:
    """1 when one is not found in `most` seeds."""
    found = 0
    chosen = list(names or BUGS)
    print("| bug | seeds until it is found | by | s |\n| --- | ---: | --- | ---: |", flush=True)
    with multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=1) as pool:
        for line, is_found in pool.imap(_hunted, [(name, most) for name in chosen], chunksize=1):
            print(line, flush=True)
            found += is_found
    print(f"{found} of {len(chosen)} found")
    return 0 if found == len(chosen) else 1


def _hunted(asked: tuple[str, int]) -> tuple[str, bool]:
    name, most = asked
    environment.prepare()
    BUGS[name]()
    began = time.monotonic()
    for seed in range(most):
        _, failures = search.played(plans.draw(seed))
        if failures:
            seconds = time.monotonic() - began
            invariant = failures[0].invariant
            words = (BUGS[name].__doc__ or "").strip()
            return f"| `{name}`: {words} | {seed + 1} | {int(invariant)} {invariant.name} | {seconds:.0f} |", True
    return f"| `{name}` | not in {most} | | {time.monotonic() - began:.0f} |", False
