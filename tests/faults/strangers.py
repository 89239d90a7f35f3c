"""`python -m tests.faults.strangers`: each attack of a stranger on each function, in 256 MiB, and what it costs others.

Beside the attack one honest client asks at a steady rate: of `receive` it is a producer, of the others a readiness
probe, which asks NATS. The function has one core, as its pod would have, and the rest are for NATS, the client and the
strangers, a process of their own that is niced: so it is the function that they hold up, and not the client. What they
take of the machine all the same is seen where they attack another process of the same kind, on the function's core.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import aiohttp

from tests.faults import stranger_table
from tests.faults.confined import Confined
from tests.faults.producer import EVENT
from tests.faults.stranger import ATTACKS
from tests.faults.stranger_table import FUNCTIONS
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats

MOST_BYTES = 256 * 2**20
RATE = 100
PATIENCE = 10.0


@dataclass
class Honest:
    """One client that asks at a steady rate on one connection.

    Attributes:
        took: seconds of each answered request, from the moment it was due.
        accepted: the ids of events that were answered with 202.
    """

    url: str
    took: list[float] = field(default_factory=list)
    accepted: set[str] = field(default_factory=set)
    failed: int = 0

    async def ask(self, seconds: float, name: str) -> None:
        began = time.monotonic()
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=PATIENCE)) as session:
            for number in range(int(RATE * seconds)):
                due = began + number / RATE
                if (now := time.monotonic()) < due:
                    await asyncio.sleep(due - now)
                elif now > began + 2 * seconds + PATIENCE:
                    self.failed += int(RATE * seconds) - number
                    return
                asked = time.monotonic()
                try:
                    status = await self._one(session, f"{name}-{number}")
                except (aiohttp.ClientError, OSError, TimeoutError):
                    status = 0
                self.took.append(time.monotonic() - asked)
                self.failed += status not in (200, 202)

    async def _one(self, session: aiohttp.ClientSession, id: str) -> int:
        if self.url.endswith("readiness"):
            async with session.get(self.url) as answer:
                return answer.status
        async with session.post(self.url, data=b"{}", headers={**EVENT, "ce-id": id}) as answer:
            if answer.status == 202:
                self.accepted.add(id)
            return answer.status

    def p99(self) -> float:
        took = sorted(self.took)
        return took[int(len(took) * 0.99)] if took else float("inf")


@dataclass
class Outcome:
    """One row.

    Attributes:
        start, peak, after: MiB of resident memory before the attack, at most, and at its end.
        alone, elsewhere, beside: the honest client's p99 in ms: without strangers, while they attack another process,
            and beside them.
        failed: its requests without a good answer.
        lost: its events that were answered with 202 and are not in the stream.
        seen: what became of the strangers' connections.
    """

    function: str
    attack: str
    start: float = 0.0
    peak: float = 0.0
    after: float = 0.0
    killed: bool = False
    alone: float = 0.0
    elsewhere: float = 0.0
    beside: float = 0.0
    failed: int = 0
    lost: int = 0
    seen: dict[str, int] = field(default_factory=dict)

    def kept(self) -> bool:
        """Does the process live, within its memory, with nothing lost, and was the honest client served?"""
        return not (self.killed or self.failed or self.lost)

    def line(self) -> str:
        return (
            f"{self.function:9} {self.attack:14} {self.start:4.0f} → {self.peak:4.0f} MiB, then {self.after:4.0f}"
            f"{' KILLED' if self.killed else ''}; p99 {self.alone:.1f}, {self.elsewhere:.1f}, {self.beside:.1f} ms, "
            f"{self.failed} failed, {self.lost} lost; {self.seen}"
        )


async def play(function: str, attack: str, seconds: float, directory: Path, count: int | None = None) -> Outcome:
    """One attack on one function."""
    outcome = Outcome(function, attack)
    server = NatsServer(directory / "nats").start()
    (other := directory / "twin").mkdir()
    try:
        async with Nats(server.url) as nats:
            channel = await nats.make_channel()
            settings = ATTACKS[attack].settings
            with (
                Confined(function, server.url, directory, MOST_BYTES, **settings) as confined,
                Confined(function, server.url, other, MOST_BYTES, **settings) as twin,
            ):
                if not confined.confined:
                    print("no cgroup can be made here: memory is measured, and not limited")
                path = channel.path if function == "receive" else "/health/readiness"
                accepted = await _attack(outcome, (confined, twin), confined.url + path, seconds, count)
                outcome.lost = len(accepted - {one.headers["ce-id"] for one in await nats.stored(channel.stream)})
    finally:
        server.kill()
    return outcome


async def _attack(
    outcome: Outcome, pair: tuple[Confined, Confined], url: str, seconds: float, count: int | None
) -> set[str]:
    """The ids that the honest client was told are accepted."""
    confined, twin = pair
    if cores := os.sched_getaffinity(0) - {0}:
        os.sched_setaffinity(0, cores)
        for one in pair:
            os.sched_setaffinity(one.pid, {0})
    await Honest(url).ask(1, "warm")
    alone, elsewhere, beside = Honest(url), Honest(url), Honest(url)
    await alone.ask(seconds, "alone")
    outcome.start = confined.resident()
    await _beside(elsewhere, "elsewhere", outcome.attack, twin.port, seconds, count)
    twin.stop()
    outcome.seen = await _beside(beside, "beside", outcome.attack, confined.port, seconds, count)
    outcome.alone, outcome.elsewhere, outcome.beside = (one.p99() * 1000 for one in (alone, elsewhere, beside))
    outcome.failed = beside.failed
    outcome.killed, outcome.after, outcome.peak = not confined.alive(), confined.resident(), confined.peak()
    return alone.accepted | elsewhere.accepted | beside.accepted


async def _beside(
    honest: Honest, name: str, attack: str, port: int, seconds: float, count: int | None
) -> dict[str, int]:
    """What became of the connections of strangers at this port, beside whom it asks."""
    many = [] if count is None else [str(count)]
    command = ["-m", "tests.faults.stranger", attack, str(port), str(seconds + 1.5), *many]
    strangers = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=subprocess.PIPE)
    # They come within this second, which is not the honest client's.
    await asyncio.sleep(1)
    await honest.ask(seconds, name)
    said, _ = await strangers.communicate()
    return dict(json.loads(said))


def best(rounds: Sequence[Outcome]) -> Outcome:
    """One row of several rounds: the times of one round, the least disturbed, and the worst of all else."""
    quiet = min(rounds, key=lambda row: row.beside)
    return replace(
        max(rounds, key=lambda row: row.peak),
        killed=any(row.killed for row in rounds),
        alone=quiet.alone,
        elsewhere=quiet.elsewhere,
        beside=quiet.beside,
        failed=sum(row.failed for row in rounds),
        lost=sum(row.lost for row in rounds),
    )


def _each(asked: argparse.Namespace) -> Iterator[Outcome]:
    for attack in asked.attack or ATTACKS:
        for function in asked.function or FUNCTIONS:
            rounds = []
            for _ in range(asked.rounds):
                with tempfile.TemporaryDirectory() as directory:
                    rounds.append(asyncio.run(play(function, attack, asked.seconds, Path(directory), asked.count)))
                print(rounds[-1].line(), flush=True)
            yield best(rounds)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.strangers", description=__doc__)
    parser.add_argument("--function", action="append", choices=FUNCTIONS, help="this one only; may repeat")
    parser.add_argument("--attack", action="append", choices=list(ATTACKS), help="this one only; may repeat")
    parser.add_argument("--seconds", type=float, default=5.0, help="of the honest client beside each attack")
    parser.add_argument("--rounds", type=int, default=1, help="of which the best times and the worst of all else count")
    parser.add_argument("--count", type=int, help="so many connections, in place of the attack's own number")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows there")
    parser.add_argument("--before", type=Path, metavar="FILE", help="rows of other code, for the table")
    parser.add_argument("--write", action="store_true", help="write the table into docs/faults.md")
    asked = parser.parse_args()
    with suppress(PermissionError):
        # What else this machine does is not what is measured; the strangers are niced again.
        os.nice(-20)
    rows = list(_each(asked))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    if asked.write:
        before = [Outcome(**row) for row in json.loads(asked.before.read_text("utf-8"))] if asked.before else []
        print(f"written: {stranger_table.write(rows, before)}")
    return 0 if all(row.kept() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
