"""The words of the command line: every verb teaches, in little time, and mistakes are told in one sentence."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from headrace_cli.access import session
from headrace_cli.commands import root
from tests.support.laptop.cli import run


def verbs(group: click.Group, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from verbs(command, (*above, name))
        else:
            yield (*above, name), command


VERBS = dict(verbs(root.tree()))


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_the_help_of_every_verb_has_a_sentence_and_an_example_of_itself(words: tuple[str, ...]) -> None:
    command = VERBS[words]
    shown = run(*words, "--help").ok().out

    assert (command.help or "").strip().splitlines()[0] in shown.replace("\n ", "\n") or "Usage" in shown
    assert f"{'headrace' if words == ('up',) else 'kn jetstream'} {' '.join(words)}" in (command.epilog or "")
    assert all(option.help for option in command.params if isinstance(option, click.Option)), "an option without a word"


def test_no_help_imports_what_speaks_nats_or_validates() -> None:
    code = (
        "import sys; from headrace_cli.__main__ import main\n"
        "try: main(['tail', '--help'])\n"
        "finally: print(*sorted(sys.modules), sep='\\n', file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)

    loaded = set(done.stderr.split())
    assert "Usage: headrace tail" in done.stdout
    assert not loaded & {"asyncio", "pydantic", "structlog", "nats", "aiohttp", "yaml", "headrace.io.nats.client"}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["send", "orders"], "give an event with --type, or events with -f"),
        (["send", "Orders!", "--type", "t"], "'Orders!' is no name, or namespace/name"),
        (["send", "orders", "--type", "t", "-e", "Bad=1"], "--extension is 'Bad=1': give name=value"),
        (["send", "orders", "-f", "nowhere.json", "--url", "http://127.0.0.1:1/"], "-f nowhere.json can't be read"),
        (["send", "orders", "--type", "t", "--id", "1", "--count", "2"], "--id makes all events the same"),
        (["tail"], "Missing argument 'CHANNEL'"),
        (["peek", "orders", "--limit", "0"], "0 is not in the range x>=1"),
        (["nothing"], "No such command 'nothing'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_ends_with_status_2_and_says_what_is_wrong(arguments: list[str], told: str) -> None:
    ran = run(*arguments)

    assert (ran.status, ran.out) == (2, "")
    assert told in ran.err


def test_an_absent_server_is_told_with_where_it_was_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "CONNECT_SECONDS", 0.2)
    ran = run("channel", "list", "--nats", "nats://me:secret@127.0.0.1:1")

    assert ran.status == 1
    assert ran.err.startswith("headrace: no NATS at nats://127.0.0.1:1, which is from --nats")
    assert "secret" not in ran.err


def test_a_full_disk_behind_the_output_is_told_in_one_sentence() -> None:
    for words in (["channel", "create", "x", "--dry-run"], ["--help"], ["completion", "bash"]):
        with Path("/dev/full").open("w") as full:
            ran = subprocess.run(
                [sys.executable, "-m", "headrace_cli", *words],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                timeout=60,
            )
        assert (ran.returncode, ran.stderr) == (1, "headrace: the output can't be written: No space left on device\n")


def test_a_reader_that_has_gone_is_no_error_to_be_shown() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        ran = subprocess.run(
            [sys.executable, "-m", "headrace_cli", "--help"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=60,
        )
    finally:
        os.close(write)
    assert ran.stderr == ""


def test_ctrl_c_while_it_is_imported_shows_no_place_in_python(tmp_path: Path) -> None:
    """An import that interrupts itself stands for the half second that they take."""
    (tmp_path / "click.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "headrace_cli", "--help"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (-signal.SIGINT, "", "")
