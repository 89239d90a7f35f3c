"""A message as the API tells of it, and the server's times."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from headrace.core.nats.nats_wire import header_block
from headrace.core.nats.stored_message import nanoseconds, read_stored


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


def test_a_message_has_its_headers_data_and_time() -> None:
    told = {"subject": "a.b", "seq": 7, "time": "2026-01-31T09:30:00.1234567Z"}
    headers, data = base64.b64encode(header_block({"Ce-Id": "1"})), base64.b64encode(b"x")
    found = read_stored({**told, "hdrs": headers.decode(), "data": data.decode()})
    assert (found.subject, found.sequence, dict(found.headers), found.data) == ("a.b", 7, {"ce-id": "1"}, b"x")
    assert found.time == datetime(2026, 1, 31, 9, 30, 0, 123456, UTC)
    assert (dict(read_stored(told).headers), read_stored(told).data) == ({}, b"")
