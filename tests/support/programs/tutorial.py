"""Walk a tutorial: run its commands one after the other, and compare their output with the document's.

A fence `console` is a screen: `$ ` begins a command, the lines under it are its output. Where the sentence before it
speaks of the first or the second terminal, the command stays there and the lines are waited for; a fence without a
command shows what that terminal says next, and `^C` ends what runs in it. Other commands must end with status 0, and
their output must be the one shown, no more and no less; those that only look are run again for a while, as by a reader.

`...` stands for anything, on a line of its own for any lines; ages, times and hexadecimal names match others of their
kind.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

import psutil

from tests.support.laptop.cli import run
from tests.support.nats.nats_server import free_port

ROOT = Path(__file__).resolve().parents[3]
TUTORIALS = ROOT / "docs" / "tutorials"
SHOWN_SECONDS = 60.0
RUN_SECONDS = 120.0
END_SECONDS = 40.0
LOOK_SECONDS = 20.0

_FENCE = re.compile(r"((?:^[^\n]+\n)*)\n?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Times, ages, and names that are drawn: each matches others of its kind.
_VARYING = (r"\d{4}-\d\d-\d\dT[\d:.]+Z", r"\b\d+[smh]\b", r"\b[0-9a-f]{8}\b")
_PIECES = re.compile("|".join(f"({kind})" for kind in (*_VARYING, r"\.\.\.", r"[ ]+", ".")))
_MEANS = (*_VARYING, ".*", "[ ]+")
_LOOKS = re.compile(r"headrace (doctor|peek|\w+ list)\b|python -m json.tool ")
# These need the shell; everything else of ours runs in this process, which saves its start.
_SHELL = re.compile(r"[|;&<>$`*]")


class Untrue(AssertionError):
    """What happened is not what the document says."""


@dataclass(frozen=True)
class Step:
    """One command, or what a terminal says or is told without one (`command` is empty, or `^C`).

    Attributes:
        terminal: `first`, `second`, or empty for a command that ends.
        shown: the output in the document.
    """

    terminal: str
    command: str
    shown: str


def steps(text: str) -> list[Step]:
    """What a document has its reader do, in order.

    Raises:
        Untrue: a fence is not a screen that can be walked.
    """
    found: list[Step] = []
    for before, language, body in _FENCE.findall(text):
        if language in ("yaml", "python"):
            continue
        if language != "console":
            raise Untrue(f"a fence {language!r} is not walked: write console, or yaml for what is in examples/")
        named = re.findall(r"\b(first|second) terminal", before)
        terminal = named[-1] if named else ""
        found += _of_screen(terminal, body)
    return found


def _of_screen(terminal: str, body: str) -> list[Step]:
    # A command goes on in the next line behind a backslash.
    parts = re.split(r"^(\$ (?:.*\\\n)*.*|\^C)$\n?", body, flags=re.MULTILINE)
    heads = ["", *parts[1::2]]
    made = [Step(terminal, head.removeprefix("$ "), shown) for head, shown in zip(heads, parts[::2], strict=True)]
    made = [step for step in made if step.command or step.shown]
    if not terminal and any(step.command in ("", "^C") for step in made):
        raise Untrue(f"whose output is this? Name the terminal in front of it:\n{body}")
    return made


def pattern(shown: str) -> re.Pattern[str]:
    """Matches output that is as the document shows it."""
    lines = [r"(?:.*\n)*?" if line.strip() == "..." else _line(line) + r"[ ]*\n" for line in shown.splitlines()]
    return re.compile("".join(lines), re.MULTILINE)


def _line(line: str) -> str:
    pieces = _PIECES.finditer(line.rstrip())
    return "".join((*_MEANS, re.escape(piece[0]))[(piece.lastindex or 0) - 1] for piece in pieces)


@dataclass
class Terminal:
    """What runs in one terminal, and how much of its output has been seen already."""

    log: Path
    seen: int = 0
    child: subprocess.Popen[bytes] | None = field(default=None)

    def start(self, command: str, directory: Path, environment: Mapping[str, str]) -> None:
        if self.child is not None:
            raise Untrue(f"{command!r}: something runs in that terminal already; show ^C first")
        with self.log.open("ab") as log:
            self.child = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_for(self, shown: str) -> None:
        """Until it says so, behind what it has said before."""
        wanted, deadline = pattern(shown), time.monotonic() + SHOWN_SECONDS
        while (found := wanted.search(self.log.read_text(), self.seen)) is None:
            ended = self.child is None or self.child.poll() is not None
            if ended or time.monotonic() > deadline:
                raise Untrue(f"shown:\n{shown}\nsaid:\n{self.log.read_text()[self.seen :]}")
            time.sleep(0.02)
        self.seen = found.end()

    def interrupt(self) -> None:
        """Ctrl-C; what runs must end well."""
        if self.child is None:
            raise Untrue("^C, and nothing runs in that terminal")
        os.killpg(self.child.pid, signal.SIGINT)
        status = self.child.wait(END_SECONDS)
        if status != 0:
            raise Untrue(f"ended with {status} after Ctrl-C:\n{self.log.read_text()[self.seen :]}")
        self.child = None

    def kill(self) -> None:
        """Whatever is left of it."""
        if self.child is None:
            return
        if self.child.poll() is None:
            for process in psutil.Process(self.child.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self.child.kill()
        self.child.wait()
        self.child = None


class Walk:
    """One reader of one tutorial, in a directory of its own; a context manager that leaves nothing running.

    Ports of the text and of the examples are replaced by free ones, so that several can walk at a time.

    Args:
        directory: empty, or a clone; it gets a copy of examples/tutorials and becomes the reader's clone.
        environment: for whatever is run, in place of the test's.
        in_process: commands of ours run in this process where they can, not as programs of that environment.
        run_seconds: how long a command may run.

    Attributes:
        took: the steps that are done, and how many seconds each took, until what is shown was said.
    """

    def __init__(
        self,
        name: str,
        directory: Path,
        environment: Mapping[str, str],
        *,
        in_process: bool = True,
        run_seconds: float = RUN_SECONDS,
    ) -> None:
        self.took: list[tuple[Step, float]] = []
        self._in_process, self._run_seconds = in_process, run_seconds
        self._directory = directory
        self._environment = environment
        self._ports = {port: str(free_port()) for port in ("8080", "9090")}
        self._terminals = {name: Terminal(directory / f"{name}.log") for name in ("first", "second")}
        self.steps = steps(self._ported((TUTORIALS / f"{name}.md").read_text()))
        examples = directory / "examples" / "tutorials"
        shutil.copytree(
            ROOT / "examples" / "tutorials", examples, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True
        )
        for file in (path for path in examples.rglob("*") if path.is_file()):
            file.write_text(self._ported(file.read_text()))
        for terminal in self._terminals.values():
            terminal.log.touch()

    def to_the_end(self) -> None:
        """Do all of it, then Ctrl-C wherever something runs.

        Raises:
            Untrue: something is not as the document says.
        """
        for step in self.steps:
            began = time.monotonic()
            if step.terminal:
                self._in_terminal(self._terminals[step.terminal], step)
            else:
                self._to_its_end(step)
            self.took.append((step, time.monotonic() - began))
        for terminal in reversed(self._terminals.values()):
            if terminal.child is not None:
                terminal.interrupt()

    def __enter__(self) -> Walk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for terminal in self._terminals.values():
            terminal.kill()

    def _in_terminal(self, terminal: Terminal, step: Step) -> None:
        if step.command == "^C":
            terminal.interrupt()
        elif step.command:
            terminal.start(self._listening(step.command), self._directory, self._environment)
        if step.shown:
            terminal.wait_for(step.shown)

    def _to_its_end(self, step: Step) -> None:
        wanted, deadline = pattern(step.shown), time.monotonic() + LOOK_SECONDS
        status, said = self._ran(step.command)
        while status != 0 or not wanted.fullmatch(said):
            if not _LOOKS.match(step.command) or time.monotonic() > deadline:
                logs = "\n".join(terminal.log.read_text()[-2000:] for terminal in self._terminals.values())
                told = f"$ {step.command}\nshown:\n{step.shown}\nsaid, with status {status}:\n{said}\nlogs:\n{logs}"
                raise Untrue(told)
            time.sleep(0.1)
            status, said = self._ran(step.command)

    def _ran(self, command: str) -> tuple[int, str]:
        if self._in_process and command.startswith("headrace ") and not _SHELL.search(command):
            ran = run(*shlex.split(command)[1:])
            return ran.status, ran.out + ran.err
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self._directory,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=self._run_seconds,
            check=False,
        )
        return done.returncode, done.stdout.replace("\r\n", "\n")

    def _listening(self, command: str) -> str:
        return command.replace("headrace up", f"headrace up --listen 127.0.0.1:{self._ports['8080']}", 1)

    def _ported(self, text: str) -> str:
        return re.sub(r"\b(8080|9090)\b", lambda found: self._ports[found[0]], text)


def environment_of_a_reader(runtime: Path) -> dict[str, str]:
    """Ours without what would lead to another NATS; the programs of this environment come first.

    Args:
        runtime: where `headrace up` leaves its address for the other verbs.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NATS_", "HEADRACE_"))}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', '')}"
    return {**kept, "PATH": path, "XDG_RUNTIME_DIR": str(runtime)}
