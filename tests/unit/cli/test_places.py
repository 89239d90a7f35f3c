"""Where the command line looks for NATS, and how `headrace up` tells of itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured
from headrace_cli.access import announcement, place


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "headrace"


def test_it_is_found_while_it_runs_and_not_after() -> None:
    with announcement.announce("nats://me:secret@127.0.0.1:4333", "http://127.0.0.1:8080"):
        found = place.find(None, {})
        assert (found.nats.url, found.receive, found.up) == ("nats://127.0.0.1:4333", "http://127.0.0.1:8080", True)
        assert str(os.getpid()) in found.source

    assert place.find(None, {}).nats.url == "nats://127.0.0.1:4222"


def test_an_option_counts_before_a_variable_before_what_runs() -> None:
    with announcement.announce("nats://up", "http://up"):
        assert place.find("nats://option", {"NATS_URL": "nats://variable"}).nats.url == "nats://option"
        assert place.find(None, {"NATS_URL": "nats://variable"}).nats.url == "nats://variable"
        assert place.find("nats://option", {"NATS_TOKEN": "s"}).nats.token is not None


def test_what_a_killed_one_left_is_passed_over_and_removed(runtime: Path) -> None:
    runtime.mkdir(mode=0o700)
    (runtime / "1.json").write_text('{"pid": 1, "nats": "nats://old", "listen": "http://old"}')

    assert announcement.running() == []
    assert list(runtime.iterdir()) == []


def test_a_directory_that_others_can_write_is_not_believed(runtime: Path) -> None:
    with announcement.announce("nats://up", "http://up"):
        runtime.chmod(0o777)
        assert announcement.running() == []
        runtime.chmod(0o700)
        assert len(announcement.running()) == 1


def test_of_several_one_has_to_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with announcement.announce("nats://one", "http://one"):
        monkeypatch.setattr(os, "getpid", lambda: 1)
        with (
            announcement.announce("nats://two", "http://two"),
            pytest.raises(Misconfigured, match=r"2 headrace up are running: say which, by --nats nats://(one|two)"),
        ):
            place.find(None, {})


def test_a_place_that_cannot_be_written_is_no_reason_to_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/dev/null")
    with announcement.announce("nats://up", "http://up"):
        assert announcement.running() == []
