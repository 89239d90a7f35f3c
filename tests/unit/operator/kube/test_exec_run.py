"""One run of a program that gives credentials, on either event loop: its end, and what it leaves behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import uvloop

from headrace.core.errors import Unavailable
from headrace_operator.kube import exec_run
from headrace_operator.kube.exec_run import Ended
from tests.support.waiting import until

OnLoop: TypeAlias = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(params=[asyncio.SelectorEventLoop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def on_loop(request: pytest.FixtureRequest) -> OnLoop:
    async def bounded(work: Coroutine[Any, Any, Any]) -> Any:
        async with asyncio.timeout(90):
            return await work

    def on_loop(work: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(bounded(work))

    return on_loop


@pytest.fixture
def child(tmp_path: Path) -> Iterator[Path]:
    """Where a script writes the process id of what it has begun; that is ended with the test."""
    file = tmp_path / "child"
    yield file
    if runs(file):
        os.kill(int(file.read_text()), signal.SIGKILL)


def runs(file: Path) -> bool:
    """One that has ended and that nobody has buried yet does not run."""
    try:
        stat = Path(f"/proc/{int(file.read_text())}/stat").read_text()
    except (OSError, ValueError):
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def run(script: str) -> Ended:
    return await exec_run.run("/bin/sh", ["-c", script], os.environ, title="sh", interactive=False)


def test_its_time_is_over_though_something_that_it_began_holds_its_output(
    on_loop: OnLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec_run, "LONGEST_RUN", 1.0)
    with pytest.raises(Unavailable, match="within 1 s"):
        on_loop(run("sleep 600 & wait"))


def test_what_it_began_ends_with_it_when_nobody_waits_for_it_any_more(on_loop: OnLoop, child: Path) -> None:
    async def left() -> None:
        waiting = asyncio.create_task(run(f"sleep 600 & echo $! > {child}; wait"))
        await until("its child runs", lambda: runs(child), 60.0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until("its child is gone", lambda: not runs(child))

    on_loop(left())


def test_so_it_does_when_that_comes_while_it_is_being_started(
    on_loop: OnLoop, child: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = asyncio.create_subprocess_exec

    async def slowly(*arguments: Any, **named: Any) -> asyncio.subprocess.Process:
        process = await start(*arguments, **named)
        await until("its child runs", lambda: runs(child))
        begun.set()
        await asyncio.sleep(0.1)
        return process

    begun = asyncio.Event()
    monkeypatch.setattr(asyncio, "create_subprocess_exec", slowly)

    async def left() -> None:
        waiting = asyncio.create_task(run(f"sleep 600 & echo $! > {child}; wait"))
        await begun.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until("its child is gone", lambda: not runs(child))

    on_loop(left())


def test_what_it_wrote_counts_once_it_has_ended_and_what_it_leaves_behind_goes_on(on_loop: OnLoop, child: Path) -> None:
    found = on_loop(run(f"sleep 600 & echo $! > {child}; head -c 60000 /dev/zero"))
    assert (found.status, found.output) == (0, bytes(60_000))
    assert runs(child)


def test_output_without_end_is_no_credential(on_loop: OnLoop) -> None:
    with pytest.raises(Unavailable, match="more than 1048576 bytes"):
        on_loop(run("exec cat /dev/zero"))


def test_of_what_it_says_the_last_is_kept(on_loop: OnLoop, capsys: pytest.CaptureFixture[str]) -> None:
    found = on_loop(run("head -c 8000000 /dev/zero | tr '\\0' x >&2; exit 3"))
    assert (found.status, found.said) == (3, "x" * 2048)
    assert len(capsys.readouterr().err) == 8_000_000


def test_a_character_that_comes_in_two_pieces_is_one(on_loop: OnLoop, capsys: pytest.CaptureFixture[str]) -> None:
    # Of three bytes each: chunks end within one.
    found = on_loop(run("yes € | tr -d '\\n' | head -c 600000 >&2"))
    assert found.said == "€" * 2048
    assert capsys.readouterr().err == "€" * 200_000


def test_a_program_that_can_not_be_run_is_told(on_loop: OnLoop, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="'x' can't be run: "):
        on_loop(exec_run.run(str(tmp_path), [], {}, title="x", interactive=False))
