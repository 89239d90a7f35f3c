"""`python -m tests.simulation`: run many histories, replay one, or see which planted bugs are found.

--seeds 0-999999 --jobs 2    a range, with progress; a search that was stopped goes on where it was
--seed 17                    that history, twice; if it fails, the smallest plan that does, as a time line
--plan FILE                  the same with a plan that was kept
--bugs                       plant one bug after the other, and say after how many seeds each is found
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.simulation import environment, search
from tests.simulation import plan as plans
from tests.simulation.bugs.hunt import BUGS, hunt
from tests.simulation.history import Outcome
from tests.simulation.oracle.failure import Failure
from tests.simulation.plan import Plan
from tests.simulation.search import Search
from tests.simulation.shrink import shrunk


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _arguments(arguments)
    if asked.bugs is not None:
        return hunt(asked.bugs, most=asked.most, jobs=asked.jobs)
    if asked.seeds is not None:
        return _search(asked)
    environment.prepare()
    plan = plans.from_json(Path(asked.plan).read_text()) if asked.plan else plans.draw(asked.seed)
    return _replay(plan, asked.keep, small=not asked.whole)


def _search(asked: argparse.Namespace) -> int:
    first, _, last = asked.seeds.partition("-")
    found = Search(int(first), int(last or first), asked.jobs).run(seconds=asked.seconds)
    for name, count in sorted(found.counts.items()):
        print(f"  {name}: {count:,}")
    print(f"{found.histories:,} histories at {search.commit()[:12]}, {len(found.failed)} failed")
    for seed, words in sorted(found.failed.items(), key=lambda one: int(one[0])):
        print(f"  --seed {seed}: {words}")
    return 1 if found.failed else 0


def _replay(plan: Plan, keep: str, *, small: bool) -> int:
    outcome, failures = search.played_twice(plan)
    _tell(plan, outcome, failures)
    if not failures:
        return 0
    if small:
        broken = failures[0].invariant

        def fails(smaller: Plan) -> bool:
            return any(failure.invariant is broken for failure in search.played(smaller)[1])

        plan = shrunk(plan, fails)
        outcome, failures = search.played(plan)
        print("\nthe smallest plan that breaks the same promise:\n")
        _tell(plan, outcome, failures)
    if keep:
        (search.KEPT / f"{keep}.json").write_text(plan.to_json() + "\n")
    return 1


def _tell(plan: Plan, outcome: Outcome, failures: list[Failure]) -> None:
    shuffled = "any ready callback next" if plan.shuffle else "the first ready callback next"
    low, high = plan.latency
    print(f"seed {plan.seed}: {len(plan.events)} events, {shuffled}, passages of {low:g} to {high:g} s")
    for name, terms in plan.subscriptions().items():
        print(f"  {name}: {terms}")
    for event in plan.events:
        for script in event.scripts:
            steps = ", ".join(_step(step) for step in script.steps)
            print(f"  {event.id} at {script.subscription} {script.role}: {steps}{', then replies' * script.replies}")
    for fault in plan.faults:
        print(f"  fault: {fault}")
    print("\n".join(["", *outcome.ledger.lines(), ""]))
    for failure in failures:
        print(f"BROKEN {failure}")
    print(f"{outcome.callbacks:,} callbacks in {outcome.seconds:.1f} s, hash {outcome.hash}")


def _step(step: plans.Step) -> str:
    words = f"{step.deed} {step.status}" if step.deed in ("answer", "reply", "trickle") else str(step.deed)
    asked = f", Retry-After {step.retry_after}" if step.retry_after is not None else ""
    return f"{words} after {step.seconds:g} s{asked}"


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--seeds", metavar="FIRST-LAST", help="run the histories of these seeds")
    what.add_argument("--seed", type=int, help="replay one history, and make it small if it fails")
    what.add_argument("--plan", metavar="FILE", help="replay a plan that was kept")
    what.add_argument("--bugs", nargs="*", metavar="BUG", help=f"plant these bugs, or all: {', '.join(BUGS)}")
    parser.add_argument("--jobs", type=int, default=1, help="processes (1)")
    parser.add_argument("--seconds", type=float, help="end a search after so long")
    parser.add_argument("--most", type=int, default=2000, help="seeds to try for each bug (2000)")
    parser.add_argument("--keep", default="", metavar="NAME", help="write the failing plan to tests/simulation/kept")
    parser.add_argument("--whole", action="store_true", help="do not make a failing plan small")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
