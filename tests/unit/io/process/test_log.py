"""Every line of a log is one write: processes that share stderr can't tear each other's.

Stderr is a socket that keeps the bounds of writes, so that each comes out as it went in.
"""

from __future__ import annotations

import ast
import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.io.process import log
from tests.support.stopped_clock import StoppedClock

LOGGING = """
from headrace.io.process import log
log.configure("info")
log.get("test").info("said", words="x" * 20000)
log.get("test").info("said again")
"""
REFUSING = """
import os
os.environ["PORT"] = "eighty"
from headrace.host import serving
serving.main()
"""


def writes(program: str, *options: str) -> list[str]:
    """What a Python program writes to stderr, each write on its own."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    # Nothing of the writes may be lost to the reader's being late.
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    with ours, theirs:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        subprocess.run([sys.executable, *options, "-c", program], stderr=theirs, env=environment, timeout=60)
        theirs.close()
        return [piece.decode() for piece in iter(lambda: ours.recv(1 << 20), b"")]


@pytest.mark.parametrize("plain", [True, False], ids=["plain", "JSON"])
def test_a_terminal_obeys_nothing_that_stands_in_a_line(plain: bool) -> None:
    program = LOGGING.replace('"info")\nlog.get("test").info("said", words="x" * 20000)', f'"info", plain={plain})')
    program += "log.get('test').info('kind \\x1b]0;owned\\x07', channel='shop/\\x9b2J', error=ValueError('\\x1b[2J'))\n"
    program += "log.get('test').info('kind', why='\\x7f\\u202e')\n"
    *_, line, other = writes(program)
    assert "kind \\" in line
    assert not {"\x1b", "\x07", "\x9b", "\x7f", "\u202e"} & set(line + other)


@pytest.mark.parametrize("options", [(), ("-u",)], ids=["buffered", "unbuffered"])
def test_a_line_is_one_write_however_long_it_is(options: tuple[str, ...]) -> None:
    said = writes(LOGGING, *options)
    assert [line[-1] for line in said] == ["\n", "\n"]
    assert [json.loads(line)["event"] for line in said] == ["said", "said again"]


def test_what_ends_a_process_is_one_write() -> None:
    assert writes(REFUSING, "-u") == ["headrace: PORT is 'eighty': give a number of at most 65535\n"]


def test_of_each_kind_some_lines_are_admitted_in_a_while_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock, sparing = StoppedClock(monkeypatch), log.Sparing()
    assert [sparing.admit("a") for _ in range(log.BURST + 3)] == [0] * log.BURST + [None] * 3
    assert sparing.admit("b") == 0
    clock.now += log.PERIOD_SECONDS
    assert (sparing.admit("a"), sparing.admit("a")) == (3, 0)
    assert (sparing.take("a"), sparing.take("never seen")) == (0, 0)


def test_at_the_end_it_is_told_how_many_lines_are_missing() -> None:
    sparing = log.Sparing()
    for _ in range(log.BURST + 2):
        sparing.admit("a")
    assert (log.more(sparing.take("a")), log.more(sparing.take("a"))) == ({"left_out": 2}, {})


def test_kinds_are_not_remembered_without_end() -> None:
    sparing = log.Sparing()
    for kind in range(log.MOST_KINDS + 10):
        sparing.admit(kind)
    assert len(sparing._kinds) == log.MOST_KINDS


def test_every_key_of_a_line_of_the_functions_is_documented() -> None:
    levels = ("debug", "info", "warning", "error", "exception")
    named: dict[str, str] = {}
    for file in (Path(__file__).parents[4] / "functions/headrace").rglob("*.py"):
        for call in (node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)):
            called = ast.unparse(call.func)
            if called in ("write", "writers.get(outcome, _log.warning)") or called in [
                f"_log.{each}" for each in levels
            ]:
                named |= {keyword.arg: file.name for keyword in call.keywords if keyword.arg is not None}
    assert named, "nothing is logged"
    assert named.keys() <= log.KEYS.keys()


def test_a_logger_that_was_used_before_goes_by_what_is_configured_last() -> None:
    program = """
from structlog.testing import capture_logs
from headrace.io.process import log
log.configure("error")
told = log.get("test")
told.error("before")
log.configure()
with capture_logs() as lines:
    told.info("said")
assert [line["event"] for line in lines] == ["said"], lines
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
