"""The reader of answers: the same answer however its bytes are cut, and nothing but our own error for any bytes."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.http import HttpAnswer
from headrace.io.http.answer import AnswerReader, Malformed

# How long an example takes on a busy machine is not what is tested.
unhurried = settings(deadline=None)


LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  1 \r\n\r\nhello"
CHUNKS = b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nx-t: 1\r\n\r\n"
INTERIM = (
    b"HTTP/1.1 100 Continue\r\nx-i: 1\r\n\r\n"
    b"HTTP/1.1 103 Early Hints\r\n\r\n"
    b"HTTP/1.1 202 OK\r\ncontent-length: 0\r\n\r\n"
)
EMPTY = b"HTTP/1.1 204 No Content\r\nx-b: 2\r\n\r\n"
EXPECTED = {
    LENGTH: HttpAnswer(200, ((b"content-length", b"5"), (b"x-a", b"1")), b"hello"),
    CHUNKS: HttpAnswer(201, ((b"transfer-encoding", b"chunked"),), b"abcde"),
    INTERIM: HttpAnswer(202, ((b"content-length", b"0"),)),
    EMPTY: HttpAnswer(204, ((b"x-b", b"2"),)),
}
LIMIT = 1000


def cut(said: bytes, places: list[int]) -> list[bytes]:
    edges = sorted({0, len(said), *(place % len(said) for place in places)})
    return [said[start:end] for start, end in pairwise(edges)]


def fed(reader: AnswerReader, pieces: list[bytes]) -> HttpAnswer | None:
    answers = [reader.feed(piece) for piece in pieces]
    assert [answer for answer in answers[:-1] if answer is not None] == []
    return answers[-1]


@unhurried
@given(said=st.lists(st.sampled_from(list(EXPECTED)), min_size=1, max_size=5), places=st.lists(st.integers(0, 500)))
def test_answers_that_follow_each_other_are_the_same_however_they_are_cut(said, places):
    reader = AnswerReader()
    for answer in said:
        reader.expect(LIMIT)
        assert fed(reader, cut(answer, places)) == EXPECTED[answer]
        assert reader.keep_alive == 1.5


@unhurried
@given(places=st.lists(st.integers(0, 500)))
def test_an_answer_without_a_length_is_complete_at_the_end_of_the_connection(places):
    said = b"HTTP/1.1 200 OK\r\nx-a: 1\r\n\r\nhello"
    reader = AnswerReader()
    reader.expect(LIMIT)
    assert fed(reader, cut(said, places)) is None
    assert reader.finish() == HttpAnswer(200, ((b"x-a", b"1"),), b"hello")
    assert reader.keep_alive == 0


@pytest.mark.parametrize("framing", [b"", b"transfer-encoding: gzip\r\n"])
def test_a_head_that_does_not_tell_the_length_leaves_it_to_the_end_of_the_connection(framing):
    reader = AnswerReader()
    reader.expect(LIMIT)
    assert reader.feed(b"HTTP/1.1 200 OK\r\n%b\r\nhello" % framing) is None
    answer = reader.finish()
    assert answer is not None
    assert (answer.status, answer.body) == (200, b"hello")


@pytest.mark.parametrize("places", [[], [40, 75, 90], list(range(200))], ids=["at once", "in pieces", "byte by byte"])
def test_chunks_count_where_a_length_stands_beside_them_and_nothing_more_is_read_from_there(places):
    said = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
    reader = AnswerReader()
    reader.expect(LIMIT)
    answer = fed(reader, cut(said, places))
    assert answer is not None
    assert (answer.status, answer.body, reader.keep_alive) == (200, b"hello", 0.0)


def test_a_length_beside_a_coding_that_is_no_chunks_leaves_it_to_the_end_of_the_connection():
    reader = AnswerReader()
    reader.expect(LIMIT)
    assert reader.feed(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ncontent-length: 3\r\n\r\nhello") is None
    answer = reader.finish()
    assert answer is not None
    assert (answer.body, reader.keep_alive) == (b"hello", 0.0)


def test_a_large_head_is_no_padding_of_the_body():
    reader = AnswerReader()
    reader.expect(LIMIT)
    line = b"x-a: %b\r\n" % (b"v" * 16_000)
    # With the status line, more bytes than may pass between two pieces of a body.
    said = b"HTTP/1.1 200 " + b"O" * 2000 + b"\r\n" + line * 4 + b"content-length: 1\r\n\r\n"
    assert reader.feed(said) is None
    answer = reader.feed(b"x")
    assert answer is not None
    assert answer.body == b"x"


def test_interim_answers_count_as_part_of_the_head():
    reader = AnswerReader()
    reader.expect(LIMIT)
    interim = b"HTTP/1.1 103 Early Hints\r\nlink: %b\r\n\r\n" % (b"v" * 30_000)
    assert reader.feed(interim) is None
    assert reader.feed(interim) is None
    with pytest.raises(Malformed, match="larger than 65536 bytes"):
        reader.feed(b"HTTP/1.1 200 OK\r\nx-a: %b\r\ncontent-length: 0\r\n\r\n" % (b"v" * 10_000))


@unhurried
@given(places=st.lists(st.integers(0, 500)), limit=st.integers(0, 4))
def test_an_answer_beyond_the_limit_is_cut_there(places, limit):
    reader = AnswerReader()
    reader.expect(limit)
    answers = [answer for piece in cut(LENGTH, places) if (answer := reader.feed(piece)) is not None]
    assert (answers[0].body, answers[0].truncated) == (b"hello"[:limit], True)


NOISE = st.one_of(st.binary(max_size=200), st.sampled_from([*EXPECTED, b"\r\n", b"HTTP/1.1 ", b"0\r\n\r\n", b": "]))


@unhurried
@given(pieces=st.lists(NOISE, max_size=8))
def test_for_any_bytes_there_is_an_answer_or_our_own_error(pieces):
    reader = AnswerReader()
    reader.expect(LIMIT)
    with suppress(Malformed):
        for piece in pieces:
            answer = reader.feed(piece)
            assert answer is None or (0 <= answer.status <= 999 and len(answer.body) <= LIMIT)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"HTTP/1.1 200 OK\r\n", id="half a head"),
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n", id="an interim answer"),
        pytest.param(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhell", id="less than its length"),
        pytest.param(CHUNKS[:-2], id="less than its last chunk"),
    ],
)
def test_an_answer_that_tells_its_length_is_cut_off_by_the_end_of_the_connection(said):
    reader = AnswerReader()
    reader.expect(LIMIT)
    assert reader.feed(said) is None
    assert reader.finish() is None
    assert reader.begun == (said != b"")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param(b"", 1.5, id="nothing is said"),
        pytest.param(b"keep-alive: timeout=60\r\n", 1.5, id="longer than ours"),
        pytest.param(b"Keep-Alive: timeout=5, max=100\r\n", 1.5, id="what Node says"),
        pytest.param(b"keep-alive: max=100, Timeout=2\r\n", 1.0, id="a second less, for the way"),
        pytest.param(b"keep-alive: timeout=1\r\n", 0.5, id="half of very little"),
        pytest.param(b"keep-alive: timeout=0\r\n", 0.0, id="none"),
        pytest.param(b"keep-alive: timeout=soon\r\n", 1.5, id="no number"),
        pytest.param(b"keep-alive: timeout=" + b"9" * 400 + b"\r\n", 1.5, id="more than a number holds"),
        pytest.param(b"connection: close\r\nkeep-alive: timeout=60\r\n", 0.0, id="a connection that closes"),
    ],
)
def test_how_long_the_connection_may_wait_for_another_request(headers, seconds):
    reader = AnswerReader()
    reader.expect(LIMIT)
    assert reader.feed(b"HTTP/1.1 202 OK\r\n%bcontent-length: 0\r\n\r\n" % headers) is not None
    assert reader.keep_alive == seconds


def test_an_answer_that_was_known_is_cut_where_the_next_one_s_limit_is():
    reader = AnswerReader()
    for limit, body, truncated in ((1000, b"hello", False), (3, b"hel", True)):
        reader.expect(limit)
        assert reader.feed(LENGTH) == HttpAnswer(200, EXPECTED[LENGTH].headers, body, truncated=truncated)
