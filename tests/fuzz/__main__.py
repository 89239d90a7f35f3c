"""`python -m tests.fuzz`: feed every target hostile inputs for its share of the time, and fail if one does not hold."""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz import runner
from tests.fuzz.targets import TARGETS


def main(arguments: list[str] | None = None) -> int:
    asked = _arguments(arguments)
    names = asked.target or list(TARGETS)
    seed = asked.seed if asked.seed is not None else int(time.time()) % 1_000_000_000
    print(f"seed {seed}; {len(names)} targets, {asked.seconds:.0f} s in all", flush=True)
    faults = 0
    for number, name in enumerate(names, 1):
        report = runner.run(TARGETS[name], seed, runner.until(asked.seconds / len(names)))
        print(f"[{number:>2}/{len(names)}] {report.line()}", flush=True)
        for fault in report.faults:
            print(f"\n{fault}\n", flush=True)
        faults += len(report.faults)
    print(f"{faults} faults found" if faults else "no fault found")
    return 1 if faults else 0


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together (60)")
    parser.add_argument(
        "--target", nargs="+", choices=list(TARGETS), metavar="NAME", help=f"these only: {', '.join(TARGETS)}"
    )
    parser.add_argument("--seed", type=int, help="of the first round of each target; the next rounds count on from it")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
