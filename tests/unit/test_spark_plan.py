"""What is planned of a stream, where no server is needed to tell."""

from __future__ import annotations

import pytest

from headrace.core.errors import Misconfigured
from pyspark_jetstream.client import StreamInfo
from pyspark_jetstream.client.messages import nanoseconds
from pyspark_jetstream.plan import is_older, mode_of


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T09:30:00Z", 1_769_851_800_000_000_000),
        ("2026-01-31T09:30:00.5Z", 1_769_851_800_500_000_000),
        ("2026-01-31T09:30:00.123456789Z", 1_769_851_800_123_456_789),
    ],
)
def test_server_times_keep_their_nanoseconds(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected
