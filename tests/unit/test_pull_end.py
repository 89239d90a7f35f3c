"""What the server's statuses on a pull's inbox mean, in its own words (nats-server 2.10 to 2.15)."""

from __future__ import annotations

import pytest

from headrace.core.jetstream import PullEnd, pull_end


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
        ("423", "Nats-Wrong-Pin-Id", PullEnd.OUSTED),
        ("503", "", PullEnd.BROKEN),
    ],
)
def test_how_a_pull_ends(status: str, description: str, end: PullEnd | None) -> None:
    assert pull_end(status, description) is end
