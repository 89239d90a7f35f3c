"""Many histories: ranges of seeds, in several processes, with what was found so far kept in a file.

The file lies outside the tree, in the cache folder, by commit and range: a search that was stopped goes on where it
was.
"""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from infra.cache import CACHE
from tests.simulation import environment
from tests.simulation import plan as plans
from tests.simulation.history import Outcome, run
from tests.simulation.oracle.failure import Failure, Invariant
from tests.simulation.oracle.judge import judge
from tests.simulation.plan import Plan

FOLDER = CACHE / "simulation"
KEPT = Path(__file__).parent / "kept"
CHUNK = 50
# Of so many seeds one is run twice, and both histories must be the same.
TWICE = 100
TOLD_EVERY = 10.0


@dataclass
class Found:
    """What a search has found.

    Attributes:
        done: the first seeds of the chunks that are done.
        failed: seeds with the words of their first failure.
        counts: sums over all histories.
    """

    histories: int = 0
    done: list[int] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    counts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Search:
    """The seeds from `first` to `last`, both included."""

    first: int
    last: int
    jobs: int = 1

    @property
    def file(self) -> Path:
        return FOLDER / f"{commit()[:12]}-{self.first}-{self.last}.json"

    def run(self, *, seconds: float | None = None, keep: bool = True) -> Found:
        """Run what is not done yet; `seconds`: and stop then."""
        found = self._found() if keep else Found()
        todo = [first for first in range(self.first, self.last + 1, CHUNK) if first not in set(found.done)]
        began = told = time.monotonic()
        ran = 0
        for first, part in _parts(todo, self.last, self.jobs):
            found.done.append(first)
            found.histories += part.histories
            found.failed |= part.failed
            found.counts = dict(Counter(found.counts) + Counter(part.counts))
            for seed, words in part.failed.items():
                print(f"seed {seed}: {words}", flush=True)
            if keep:
                self._keep(found)
            ran += part.histories
            now = time.monotonic()
            if now >= told + TOLD_EVERY:
                told = now
                self._tell(found, ran / (now - began))
            if seconds is not None and now - began >= seconds:
                break
        return found

    def _found(self) -> Found:
        return Found(**json.loads(self.file.read_text())) if self.file.exists() else Found()

    def _keep(self, found: Found) -> None:
        FOLDER.mkdir(parents=True, exist_ok=True)
        fresh = self.file.with_suffix(".new")
        fresh.write_text(json.dumps(asdict(found)))
        fresh.replace(self.file)

    def _tell(self, found: Found, rate: float) -> None:
        whole = self.last - self.first + 1
        left = (whole - found.histories) / rate / 60
        words = f"{found.histories:,} of {whole:,} histories, {rate:.1f}/s, {left:.0f} min left"
        print(f"{words}, {len(found.failed)} failed", flush=True)


def commit() -> str:
    asked = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or "nowhere"


def played(plan: Plan) -> tuple[Outcome, list[Failure]]:
    """One history, and the promises that it broke."""
    outcome = run(plan)
    failures = judge(plan, outcome.ledger)
    if outcome.broken:
        failures.insert(0, Failure(Invariant.ERRORS, f"the history could not be run: {outcome.broken}"))
    return outcome, failures


def played_twice(plan: Plan) -> tuple[Outcome, list[Failure]]:
    """Two histories of one plan; they must be the same."""
    first, failures = played(plan)
    second = run(plan)
    if first.hash != second.hash:
        failures.append(Failure(Invariant.REPLAY, f"two histories of one plan: {first.hash}, {second.hash}"))
    return first, failures


def of_seeds(first: int, last: int) -> Found:
    """The histories of the seeds from `first` to `last`, both included."""
    found, counts = Found(), Counter[str]()
    for seed in range(first, last + 1):
        plan = plans.draw(seed)
        outcome, failures = (played_twice if seed % TWICE == 0 else played)(plan)
        found.histories += 1
        counts += Counter(_counted(outcome))
        if failures:
            found.failed[str(seed)] = str(failures[0])
    found.counts = dict(counts)
    return found


def _counted(outcome: Outcome) -> dict[str, int]:
    """What a history adds to the sums."""
    ledger = outcome.ledger
    struck = Counter(f"struck by {strike.fault.kind}" for strike in ledger.strikes)
    return {
        "events accepted": len({one.event for one in ledger.posted if one.status == 202}),
        "POSTs to subscribers and others": len(ledger.posts),
        "leases": len(ledger.leases),
        "parked": len(ledger.parked),
        "virtual seconds": round(outcome.seconds),
        "callbacks": outcome.callbacks,
        "strikes": len(ledger.strikes),
        **struck,
    }


def _parts(todo: list[int], last: int, jobs: int) -> Iterator[tuple[int, Found]]:
    chunks = [(first, min(last, first + CHUNK - 1)) for first in todo]
    if jobs == 1:
        environment.prepare()
        yield from map(_part, chunks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs, initializer=environment.prepare) as pool:
        yield from pool.imap_unordered(_part, chunks)


def _part(chunk: tuple[int, int]) -> tuple[int, Found]:
    return chunk[0], of_seeds(*chunk)
