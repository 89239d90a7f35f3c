"""A new user's way, timed: clone, environment, a delivered event, a Spark count, a dead letter mended and replayed.

The commands are those of the tutorials, run by the walker that tests them, as programs of a fresh clone with a home and
a cache of its own: once with an empty cache of uv, and once more with what the first time has left there.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from infra import document_place
from tests.support.programs.tutorial import TUTORIALS, Step, Walk, steps

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/from-clone.md"
# Spark is 450 MB, and its first start on a busy machine takes minutes.
SYNC_SECONDS = 1800.0
RUN_SECONDS = 600.0
TURNS = ("empty cache", "warm cache")
# In this order, and what one has at the end of each.
WAYS = (
    ("first-channel", "**an event is delivered**", "attempt 1: 200"),
    ("spark-on-the-stream", "**Spark has counted**", "shop.refund 2"),
    ("dead-letter-pile", "**the dead letters are replayed, and taken**", "attempt 1: 200"),
)


@dataclass(frozen=True)
class Row:
    """One thing that is done.

    Attributes:
        done: the command, or what is seen, in Markdown.
        seconds: how long it took.
    """

    done: str
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--cold-only", action="store_true", help="once, with an empty cache")
    options = parser.parse_args()
    about = facts()
    turns = []
    with tempfile.TemporaryDirectory() as scratch:
        for turn in TURNS[: 1 if options.cold_only else None]:
            before = _cpu()
            turns.append(went(Path(scratch), turn))
            about[f"CPU with {turn}"] = f"{_cpu() - before:.0f} s and Spark's JVM"
    text = table(turns, about)
    print(text)
    if options.write:
        write(text)
    return 0


def went(directory: Path, turn: str) -> list[Row]:
    """The whole way once, in a clone of its own."""
    own = directory / turn.replace(" ", "-")
    home, runtime, clone = own / "home", own / "run", own / "clone"
    for made in (home, runtime):
        made.mkdir(parents=True)
    environment = clean(home, directory / "uv-cache", runtime, clone)
    took = _ran(f"git clone {ROOT.as_uri()} {clone}", directory, environment)
    rows = [Row("`git clone …`, from this machine", took)]
    for name, reached, last in WAYS:
        text = (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
        asked = re.search(r"Once, in a clone: `([^`]+)`", text)
        if asked is not None:
            rows.append(Row(f"`{asked[1]}`", _ran(asked[1], clone, environment)))
        with Walk(name, clone, environment, in_process=False, run_seconds=RUN_SECONDS) as walk:
            walk.to_the_end()
        # As they are written: the walker has ports of its own.
        seconds = [each for _, each in walk.took]
        rows += walked(list(zip(steps(text), seconds, strict=True)), reached, last)
    print(f"{turn}: {sum(row.seconds for row in rows):.0f} s", file=sys.stderr, flush=True)
    return rows


def clean(home: Path, cache: Path, runtime: Path, clone: Path) -> dict[str, str]:
    """The environment of somebody who has uv, git and Java, and nothing of ours."""
    ours = str(Path(sys.prefix) / "bin")
    path = [part for part in os.environ["PATH"].split(os.pathsep) if part != ours]
    left = ("NATS_", "HEADRACE_", "XDG_", "VIRTUAL_ENV", "UV_CACHE", "UV_PROJECT", "PYTHON", "PYTEST")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left)}
    own = {"HOME": str(home), "UV_CACHE_DIR": str(cache), "XDG_RUNTIME_DIR": str(runtime)}
    # What `. .venv/bin/activate` does.
    return {**kept, **own, "PATH": os.pathsep.join([str(clone / ".venv/bin"), *path])}


def _cpu() -> float:
    """Seconds of CPU of all that was run so far and has ended, but for Spark's JVM, which outlives its parent."""
    spent = os.times()
    return spent.children_user + spent.children_system


def _ran(command: str, directory: Path, environment: Mapping[str, str]) -> float:
    began = time.monotonic()
    done = subprocess.run(
        command.split(),
        cwd=directory,
        env=dict(environment),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SYNC_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"`{command}` ended with {done.returncode}:\n{done.stdout}")
    return time.monotonic() - began


def walked(took: Sequence[tuple[Step, float]], reached: str, last: str) -> list[Row]:
    """Each step; what is reached stands beside the last that shows it."""
    final = [place for place, (step, _) in enumerate(took) if last in step.shown][-1]
    return [
        Row(worded(step) + (f": {reached}" if place == final else ""), seconds)
        for place, (step, seconds) in enumerate(took)
    ]


def worded(step: Step) -> str:
    if step.command == "^C":
        return f"Ctrl-C in the {step.terminal} terminal"
    if step.command:
        command = re.sub(r" \\\n *", " ", step.command).replace("|", r"\|")
        return f"`{command}`" + (f", in the {step.terminal} terminal" if step.terminal else "")
    return f"the {step.terminal} terminal shows it"


def facts() -> dict[str, str]:
    """Of the machine and the day."""
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    uv = subprocess.run(["uv", "--version"], capture_output=True, text=True, check=True)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True)
    return {
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": commit.stdout.strip(),
        "cores": str(os.cpu_count()),
        "load before": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "uv": uv.stdout.split()[1],
        "java": java.stderr.split('"')[1],
    }


def table(turns: Sequence[Sequence[Row]], about: Mapping[str, str]) -> str:
    """The rows of all turns beside one another, in Markdown."""
    columns = [part for name in TURNS[: len(turns)] for part in (name, "since the start")]
    head = ["what is typed, or seen", *columns]
    lines = [", ".join(f"{name} {value}" for name, value in about.items()), ""]
    lines += [f"| {' | '.join(head)} |", f"|---|{'---:|' * (len(head) - 1)}"]
    since = [0.0 for _ in turns]
    for beside in zip(*turns, strict=True):
        cells = []
        for place, row in enumerate(beside):
            since[place] += row.seconds
            cells += [f"{row.seconds:.1f} s", f"{since[place]:.0f} s"]
        lines.append(f"| {beside[0].done} | {' | '.join(cells)} |")
    return "\n".join(lines)


def write(text: str) -> None:
    """Put the table into its place on the page."""
    PAGE.write_text(document_place.filled(PAGE.read_text(encoding="utf-8"), "steps", text), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
