"""The meaning of the server's statuses on a pull's inbox, in its own words (nats-server 2.10 to 2.15)."""

from __future__ import annotations

from datetime import timedelta

import pytest

from headrace.core.nats.pull_status import PullEnd, PullLimits, pull_end, told_limits


@pytest.mark.parametrize(
    ("status", "description", "end"),
    [
        ("100", "Idle Heartbeat", None),
        ("404", "No Messages", PullEnd.EXPIRED),
        ("408", "Request Timeout", PullEnd.EXPIRED),
        ("409", "Consumer Deleted", PullEnd.GONE),
        ("409", "Message Size Exceeds MaxBytes", PullEnd.FILLED),
        pytest.param("409", "Batch Completed", PullEnd.FILLED, id="2.15, of a filled pull that had max_bytes"),
        ("409", "Leadership Change", PullEnd.BROKEN),
        ("409", "Server Shutdown", PullEnd.BROKEN),
        ("409", "Exceeded MaxRequestBatch of 10", PullEnd.LIMITED),
        ("409", "Exceeded MaxRequestExpires of 1m30s", PullEnd.LIMITED),
        pytest.param("409", "Exceeded MaxRequestBatch of many", PullEnd.REFUSED, id="no limit that could be obeyed"),
        pytest.param("409", "Exceeded MaxWaiting", PullEnd.BROKEN, id="others' pulls end some time"),
        ("409", "Consumer is push based", PullEnd.REFUSED),
        ("400", "Bad Request - Priority Group missing", PullEnd.REFUSED),
        ("423", "Nats-Wrong-Pin-Id", PullEnd.OUSTED),
        ("503", "", PullEnd.BROKEN),
    ],
)
def test_how_a_pull_ends(status: str, description: str, end: PullEnd | None) -> None:
    assert pull_end(status, description) is end


@pytest.mark.parametrize(
    ("description", "limits"),
    [
        ("Exceeded MaxRequestBatch of 10", PullLimits(batch=10)),
        ("Exceeded MaxRequestMaxBytes of 65536", PullLimits(max_bytes=65536)),
        ("Exceeded MaxRequestExpires of 1m30s", PullLimits(expires=timedelta(seconds=90, microseconds=-1))),
        ("Exceeded MaxRequestExpires of 1.0000007s", PullLimits(expires=timedelta(seconds=1))),
        pytest.param("Exceeded MaxRequestExpires of 5ns", PullLimits(expires=timedelta(milliseconds=1)), id="short"),
        ("Exceeded MaxRequestExpires of a while", PullLimits()),
        ("Exceeded MaxRequestBatch of -1", PullLimits()),
        ("Exceeded MaxWaiting", PullLimits()),
    ],
)
def test_which_limit_the_words_of_a_status_name(description: str, limits: PullLimits) -> None:
    assert told_limits(description) == limits


def test_a_pull_is_within_all_the_limits_that_were_told() -> None:
    limits = PullLimits(batch=10).and_also(PullLimits(batch=3)).and_also(PullLimits(max_bytes=100))
    assert limits == PullLimits(batch=3, max_bytes=100)
    second = timedelta(seconds=1)
    assert limits.within(20, second, 5000) == (3, second, 100)
    assert limits.within(2, second, 0) == (2, second, 0)
