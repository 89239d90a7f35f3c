"""The fuzzer at work, under one seed and without a clock: every target holds, and what does not hold is found."""

from __future__ import annotations

import time

import pytest
from hypothesis import strategies as st

from headrace.server import heads
from tests.fuzz import __main__ as fuzz
from tests.fuzz import readings, runner
from tests.fuzz.target import Target, TooSlow, check
from tests.fuzz.targets import TARGETS

SEED = 1


@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run_finds_nothing(name):
    report = runner.run(TARGETS[name], SEED, lambda report: report.inputs < 200, timed=False)
    assert report.faults == []
    assert report.inputs == 200
    assert report.accepted > 0


def test_three_readers_of_the_same_bytes_agree():
    tally = readings.run(1000, SEED)
    assert tally.cases == 1000
    assert tally.taken > 100
    assert tally.short > 50


@pytest.mark.parametrize(
    ("loosened", "found"),
    [
        pytest.param("good_line", lambda _: True, id="request lines are not looked at"),
        pytest.param("fault", lambda *_: None, id="heads are not looked at"),
    ],
)
def test_a_server_that_is_less_strict_is_found(monkeypatch, loosened, found):
    monkeypatch.setattr(heads, loosened, found)
    with pytest.raises(AssertionError):
        readings.run(20_000, SEED)


def refuse_b(text: bytes) -> bytes:
    if b"b" in text:
        raise KeyError("b")
    return text


def spin(text: bytes) -> None:
    """More CPU than any input of a few bytes is granted."""
    end = time.thread_time() + 0.6
    while time.thread_time() < end:
        pass


def planted(**changed):
    parts = {
        "name": "planted",
        "inputs": st.binary(max_size=20),
        "good": (b"a",),
        "read": bytes,
        "hold": lambda *_: None,
        "errors": (),
    }
    return Target(**{**parts, **changed})


def test_an_error_that_is_not_documented_is_found_shrunk_and_told(monkeypatch, capsys):
    monkeypatch.setitem(TARGETS, "planted", planted(read=refuse_b))
    assert fuzz.main(["--target", "planted", "--seed", "1", "--seconds", "600"]) == 1
    told = capsys.readouterr().out
    assert "a test: check(TARGETS['planted'], b'b')" in told
    assert "again:  python -m tests.fuzz --target planted --seed" in told
    assert "1 faults found" in told


def test_the_same_seed_finds_the_same(monkeypatch, capsys):
    monkeypatch.setitem(TARGETS, "planted", planted(read=refuse_b))
    told = []
    for _ in range(2):
        report = runner.run(TARGETS["planted"], 7, runner.until(600), timed=False)
        told.append((report.inputs, report.faults))
    assert told[0] == told[1]


def test_a_documented_error_is_none_of_them(capsys, monkeypatch):
    monkeypatch.setitem(TARGETS, "planted", planted(read=refuse_b, errors=(KeyError,)))
    assert fuzz.main(["--target", "planted", "--seed", "1", "--seconds", "0"]) == 0
    assert "no fault found" in capsys.readouterr().out


def test_what_takes_memory_or_time_beyond_its_size_is_found():
    with pytest.raises(AssertionError, match="bytes held for an input of 3"):
        check(planted(read=lambda _: bytes(10_000_000)), b"abc", timed=False)
    with pytest.raises(TooSlow, match="of CPU for an input of 3"):
        check(planted(read=spin), b"abc")


def test_a_good_input_that_is_refused_is_a_fault():
    report = runner.run(planted(read=refuse_b, good=(b"b",), errors=(KeyError,)), SEED, lambda _: False)
    assert "a good input is refused" in report.faults[0]
