"""The plan of a read, as far as it needs no server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from headrace.core.errors import Misconfigured
from headrace.core.nats.stored_message import nanoseconds
from pyspark_jetstream.client import BlockingApi, StreamInfo
from pyspark_jetstream.options import ReadOptions, read_options
from pyspark_jetstream.plan import is_older, mode_of, sequence_at, start_of


def info(retention: str, *, direct: bool = True) -> StreamInfo:
    return StreamInfo("EV", "2026-01-31T09:30:00Z", 1, 10, 10, 100, retention, direct)


@pytest.mark.parametrize(
    ("version", "needed", "older"),
    [("2.9.25", "2.10", True), ("2.10.0", "2.10", False), ("2.15.1-dev", "2.11", False), ("3.0", "2.10", False)],
)
def test_versions_are_compared_as_numbers(version: str, needed: str, older: bool) -> None:
    assert is_older(version, needed) == older


@pytest.mark.parametrize(
    ("retention", "wanted", "mode"),
    [("limits", "", "pull"), ("limits", "direct", "direct"), ("workqueue", "", "direct"), ("interest", "", "direct")],
)
def test_a_stream_with_other_readers_is_read_without_a_consumer(retention: str, wanted: str, mode: str) -> None:
    assert mode_of(info(retention), wanted) == mode


@pytest.mark.parametrize(
    ("stream", "wanted", "words"),
    [
        (info("workqueue"), "pull", "option mode is 'pull'.*use direct"),
        # Nobody has said anything of a mode.
        (info("workqueue", direct=False), "", "^stream EV has workqueue.*nats stream edit EV --allow-direct"),
        (info("limits", direct=False), "direct", "option mode is 'direct'.*--allow-direct.*or use pull"),
    ],
)
def test_a_mode_that_can_t_be_is_refused(stream: StreamInfo, wanted: str, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        mode_of(stream, wanted)


class Stored:
    """The times of a stream's messages, by sequence."""

    def __init__(self, times: dict[int, str]) -> None:
        self._times = times

    def message_after(self, _stream: str, sequence: int) -> dict[str, Any] | None:
        found = min((at for at in self._times if at >= sequence), default=None)
        return None if found is None else {"seq": found, "time": self._times[found]}


NINE, LATER, LATEST = (f"2026-01-31T09:30:0{second}Z" for second in range(3))


THREE = {1: NINE, 2: LATER, 3: LATEST}


@pytest.mark.parametrize(
    ("wanted", "stored", "sequence"),
    [
        pytest.param(NINE, THREE, 1, id="the first"),
        pytest.param(LATER, THREE, 2, id="one of that very time"),
        pytest.param("2026-01-31T09:30:00.5Z", THREE, 2, id="the next after that time"),
        pytest.param("2026-01-31T09:30:09Z", THREE, 4, id="none: one behind the last"),
        pytest.param(LATER, {1: NINE, 3: LATEST}, 2, id="one that was deleted: from there on"),
        pytest.param("2026-01-31T09:30:09Z", {1: NINE, 5: LATEST}, 2, id="none, whatever comes in the meantime"),
    ],
)
def test_where_a_time_is_in_a_stream(wanted: str, stored: dict[int, str], sequence: int) -> None:
    known = replace(info("limits"), last=3)
    assert sequence_at(cast(BlockingApi, Stored(stored)), known, nanoseconds(wanted)) == sequence


def starting_at(sequence: str, streaming: bool) -> ReadOptions:
    given = {"servers": "nats://127.0.0.1:4222", "stream": "EV", "startingSequence": sequence}
    return read_options(given, {}, streaming=streaming)


@pytest.mark.parametrize(
    ("streaming", "at", "words"),
    [
        pytest.param(True, "12", "ends at 10: use latest", id="a query waits for nothing that it can't know"),
        pytest.param(False, "12", "ends at 10: start there or before", id="a batch has nothing there"),
    ],
)
def test_a_start_behind_the_end_is_refused(streaming: bool, at: str, words: str) -> None:
    with pytest.raises(Misconfigured, match=words):
        start_of(cast(BlockingApi, Stored({})), info("limits"), starting_at(at, streaming), streaming=streaming)


@pytest.mark.parametrize("streaming", [True, False])
def test_a_start_just_behind_the_last_message_is_that_of_the_next(streaming: bool) -> None:
    start = start_of(cast(BlockingApi, Stored({})), info("limits"), starting_at("11", streaming), streaming=streaming)
    assert start == 11
