"""An answer that explains itself, as bytes."""

from __future__ import annotations

import json

from headrace.core.http import problem


def test_what_is_not_ascii_is_written_as_utf_8() -> None:
    assert "no such channel: 'größe…'".encode() in problem(404, "unknown channel", "no such channel: 'größe…'").body


def test_half_a_character_is_told_as_an_escape() -> None:
    body = problem(400, "invalid event", "id is '\ud800'").body
    assert json.loads(body)["detail"] == "id is '\ud800'"
