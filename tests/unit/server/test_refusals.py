"""What a client gets for a request that the server refuses by itself: a sentence, and nothing that grows."""

from __future__ import annotations

import json

import pytest

from headrace.server.refusals import ANSWERS


def test_it_is_told_why_and_what_to_do():
    assert ANSWERS[503] == (
        b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/problem+json\r\nretry-after: 1\r\n"
        b"content-length: 122\r\nconnection: close\r\n\r\n"
        b'{"title": "Not available", "status": 503, "detail": "too much is on its way in, or the process is ending: '
        b'send it again"}\n'
    )


@pytest.mark.parametrize("status", ANSWERS)
def test_each_answer_is_whole_and_short(status: int):
    head, _, body = ANSWERS[status].partition(b"\r\n\r\n")

    assert head.startswith(b"HTTP/1.1 %d " % status)
    assert b"content-length: %d\r\nconnection: close" % len(body) in head
    assert json.loads(body)["status"] == status
    assert len(ANSWERS[status]) < 512


def test_whatever_is_refused_has_an_answer():
    assert ANSWERS.keys() == {400, 405, 408, 414, 431, 501, 503, 505}
