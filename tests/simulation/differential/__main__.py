"""The long comparison: `python -m tests.simulation.differential --seconds 600 --seed 1`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.simulation.differential.compare import Comparison, Difference
from tests.simulation.differential.search import search
from tests.support.nats.nats_server import NatsServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-shrink", action="store_true", help="stop at the first difference as it is")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        server = NatsServer(Path(directory)).start()
        try:
            print(search(Comparison(server), asked.seconds, asked.seed, shrink=not asked.no_shrink))
        except Difference as difference:
            raise SystemExit(f"the servers part:\n{difference}") from None
        finally:
            server.stop()


if __name__ == "__main__":
    main()
