"""How many connections a process takes, by the limits that it has."""

from __future__ import annotations

import math

import pytest

from headrace.core.errors import Misconfigured
from headrace.io.process import limits

MIB = 2**20


@pytest.mark.parametrize(
    ("files", "memory", "most"),
    [
        (math.inf, math.inf, limits.MOST),
        (math.inf, 256 * MIB, 13_107),
        (20_000, math.inf, 15_000),
        (1024, 256 * MIB, 768),
        (256, math.inf, 192),
        (64, math.inf, 16),
    ],
)
def test_unset_it_is_what_files_and_memory_leave_room_for(
    monkeypatch: pytest.MonkeyPatch, files: float, memory: float, most: int
) -> None:
    monkeypatch.setattr(limits, "_files", lambda: files)
    monkeypatch.setattr(limits, "_memory", lambda: memory)
    assert limits.connections() == most


def test_a_number_that_the_files_do_not_allow_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_files", lambda: 1024)
    monkeypatch.setenv("HEADRACE_MAX_CONNECTIONS", "960")
    assert limits.connections() == 960
    monkeypatch.setenv("HEADRACE_MAX_CONNECTIONS", "961")
    with pytest.raises(Misconfigured, match="is 961, but this process may have only 1024 files open: give at most 960"):
        limits.connections()


def test_a_number_too_small_to_serve_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_MAX_CONNECTIONS", "15")
    with pytest.raises(Misconfigured, match="HEADRACE_MAX_CONNECTIONS is '15': give at least 16"):
        limits.connections()
