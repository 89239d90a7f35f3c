"""`python -m tests.faults`: run cells, show the table as it grows, and write `docs/faults.md` if asked to."""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from headrace.io.process import log
from tests.faults import report
from tests.faults.cell import play
from tests.faults.cells import CELLS
from tests.faults.ledger import Row


def main() -> int:
    asked = _arguments()
    log.configure("critical", plain=True)
    logging.getLogger("nats").setLevel(logging.CRITICAL)
    names = asked.cell or _of_this_table(asked.only)
    seed = asked.seed if asked.seed is not None else int(time.time()) % 100_000
    print(f"seed {seed}; again with: python -m tests.faults --seed {seed}", flush=True)
    with ThreadPoolExecutor(asked.beside) as pool:
        futures = [pool.submit(_play, name, seed, asked) for name in names]
        try:
            for number, done in enumerate(as_completed(futures), 1):
                row = done.result()
                print(f"[{number}/{len(names)}] {row.cell}: {report.line(row)}", flush=True)
        finally:
            # After Ctrl-C the cells that are being played end in order, and no others begin.
            pool.shutdown(cancel_futures=True)
    rows = [future.result() for future in futures]
    if asked.write and not asked.cell and not asked.only:
        print(f"written: {report.write(rows, long=asked.long)}")
    failed = [row for row in rows if row.faults()]
    print(f"{len(rows) - len(failed)} of {len(rows)} kept the promise")
    return 1 if failed else 0


def _of_this_table(prefix: str) -> list[str]:
    """The cells that this machine can play; it says which it can't."""
    found = []
    for name in CELLS:
        lacks = CELLS[name].lacks
        if CELLS[name].folder != "tests.faults" or not name.startswith(prefix):
            continue
        if lacks is not None and (why := lacks()):
            print(f"NOT PLAYED, so nothing is known: {name}: {why}", flush=True)
        else:
            found.append(name)
    return found


def _play(name: str, seed: int, asked: argparse.Namespace) -> Row:
    try:
        return asyncio.run(play(CELLS[name], seed, asked.size or (3.0 if asked.long else 1.0), asked.keep))
    except Exception as error:  # noqa: BLE001  # one cell's trouble is a row, and the others still run
        traceback.print_exc()
        return Row(name, seed, notes=[f"FAILED: {error!r}"])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--cell", action="append", choices=list(CELLS), metavar="NAME", help="this one only; may repeat"
    )
    parser.add_argument("--only", default="", metavar="PREFIX", help="those whose names begin so")
    parser.add_argument("--seed", type=int, help="of the schedule; by default from the clock")
    parser.add_argument("--long", action="store_true", help="three times the events, and the times with them")
    parser.add_argument("--size", type=float, metavar="N", help="so many times the events of the short version")
    parser.add_argument("--beside", type=int, default=1, metavar="N", help="so many cells at the same time")
    parser.add_argument("--write", action="store_true", help="write docs/faults.md; with all cells only")
    parser.add_argument("--keep", type=Path, metavar="DIRECTORY", help="keep the processes' logs there")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
