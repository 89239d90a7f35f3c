"""Targets: the answers of hostile subscribers, and the requests of hostile producers, byte by byte."""

from __future__ import annotations

import asyncio
import re

from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.http_codec import HttpMessage
from headrace.core.http import HttpAnswer
from headrace.io.http.answer import LARGEST_HEAD, MOST_HEADERS, AnswerReader, Malformed
from headrace.server import protocol
from tests.fuzz import mutations
from tests.fuzz.codecs import comes_back, written_well
from tests.fuzz.target import SECONDS_PER_BYTE, Target
from tests.support.http.in_memory_http import Exchange, exchange
from tests.support.http.in_memory_receive import Said, both_ways

_Pieces = tuple[bytes, ...]
_loop = asyncio.new_event_loop()
# Of CPU per byte of what is sent again and again.
_ENDLESS_SECONDS = mutations.ENDLESS * SECONDS_PER_BYTE
# Below it, no bound but the number of headers is met, and so none depends on how the bytes are cut.
_SMALL = 16 * 1024

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A:  1 \r\nKeep-Alive: timeout=5\r\n\r\nhello",
    b"HTTP/1.1 201 Created\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;e=1\r\nde\r\n0\r\nx-t: 1\r\n\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 202 OK\r\n"
    b"content-length: 0\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n"
    b"knative-x: 1\r\n\r\nup to the end",
    b"HTTP/1.1 200 OK\r\ncontent-type: application/cloudevents+json\r\ncontent-length: 55\r\n\r\n"
    b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}',
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n",
)
REQUESTS = (
    b"POST /shop/orders HTTP/1.1\r\nHost: h\r\nce-id: 1\r\nContent-Length: 5\r\n\r\nhello",
    b"POST /a/b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n"
    b"0\r\nce-id: 2\r\n\r\n",
    b"POST /a/b HTTP/1.1\r\nhost: h\r\nconnection: upgrade, HTTP2-Settings\r\nupgrade: h2c\r\n"
    b"content-length: 2\r\n\r\nhi",
    b"GET /a%20b?q=1#f HTTP/1.1\r\nhost: h\r\nexpect: 100-continue\r\n\r\n",
    b"HEAD / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n",
    b"CONNECT h:1 HTTP/1.1\r\nhost: h\r\n\r\n",
)
EVENTS = (
    b"POST /shop/orders HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nCe-Specversion: 1.0\r\nCe-Id: 1\r\n"
    b"Ce-Source: /s\r\nCe-Type: t\r\nTraceparent: 00-1-2-01\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nhost: orders-kn-jsm-channel.shop.svc\r\ncontent-type: application/cloudevents+json\r\n"
    b'content-length: 66\r\n\r\n{"specversion":"1.0","id":"2","source":"/s","type":"t","data":[1]}',
)
_CLAIMS = Claims(b"the key of claims")
_WORDS = (
    *(b"content-length: 5\r\n", b"content-length: 18446744073709551616\r\n", b"transfer-encoding: chunked\r\n", b"+5"),
    *(b"transfer-encoding: gzip, chunked\r\n", b"upgrade: h2c\r\nconnection: upgrade\r\n", b"connection: close\r\n"),
    *(
        b"\r\n x: folded",
        b"x\0y: 1\r\n",
        b"a: b\0c\r\n",
        b"a: b\rc\r\n",
        b": v\r\n",
        b"x : y\r\n",
        b"0\r\n\r\n",
        b"ffffffff\r\n",
    ),
    *(
        b"ce-id: 1\r\nce-id: 2\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"GET http://h/ HTTP/1.1\r\n\r\n",
        b"HTTP/0.9",
        b"*",
    ),
)
EXCHANGE = b"".join(REQUESTS[:2])


def _read_answer(given: tuple[int, bool, _Pieces]) -> HttpAnswer | str | None:
    """The answer, the words of the refusal, or None for one that was cut off."""
    limit, reply, pieces = given
    reader = AnswerReader()
    reader.expect(limit, reply=reply)
    try:
        for piece in pieces:
            if (answer := reader.feed(piece)) is not None:
                return answer
        return reader.finish()
    except Malformed as error:
        return str(error)


def _hold_answer(given: tuple[int, bool, _Pieces], result: HttpAnswer | str | None) -> None:
    limit, reply, pieces = given
    text = b"".join(pieces)
    if isinstance(result, HttpAnswer):
        assert result.status is not None
        assert 0 <= result.status <= 999
        assert len(result.body) <= limit
        assert len(result.headers) <= MOST_HEADERS
        assert sum(len(name) + len(value) for name, value in result.headers) <= LARGEST_HEAD
        for name, value in result.headers:
            assert not set(value) & {0, 10, 13}, f"a line break in the value of {name!r}"
        written_well(http_codec.passthrough(result.headers))
        try:
            event = http_codec.from_http(HttpMessage(result.headers, result.body))
        except InvalidEvent:
            pass
        else:
            comes_back(event, http_codec.passthrough(result.headers))
    if len(text) <= _SMALL:
        for cut in ((text,), tuple(text[at : at + 1] for at in range(len(text)))):
            other = _read_answer((limit, reply, cut))
            same = isinstance(other, str) if isinstance(result, str) else other == result
            assert same, f"cut otherwise it is {other!r}, not {result!r}"


def _read_requests(pieces: _Pieces) -> Exchange:
    return _loop.run_until_complete(exchange(pieces))


def _hold_requests(pieces: _Pieces, result: Exchange) -> None:
    """No more requests than were sent, none with a smuggled header, and the same ones however they are cut."""
    seen, written = result.requests, result.written
    text = b"".join(pieces)
    assert len(seen) <= text.count(b"\n")
    assert sum(len(request.body) for request in seen) <= len(text)
    for request in seen:
        assert len(request.headers) <= protocol.MOST_HEADERS
        for name, value in request.headers:
            assert not set(name + value) & {0, 10, 13}, f"a line break in {name!r}"
    statuses = [status for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", written) if status != b"100"]
    accepted = statuses.count(b"202")
    assert statuses[:accepted] == [b"202"] * accepted, f"another answer comes before one that is due: {statuses}"
    # A connection that is closed without a word may cost the answer to the one request that was being served.
    assert accepted == len(seen) or (len(statuses) == accepted == len(seen) - 1), f"{len(seen)} requests, {statuses}"
    if len(text) <= _SMALL:
        for cut in ((text,), tuple(text[at : at + 1] for at in range(len(text)))):
            others = _read_requests(cut).requests
            # One that comes in one piece with garbage behind it may be refused together with it.
            fewer = min(len(others), len(seen))
            assert others[:fewer] == seen[:fewer], "other requests from other pieces"


def _read_both_ways(pieces: _Pieces) -> tuple[Said, Said]:
    return _loop.run_until_complete(both_ways(pieces, _CLAIMS))


def _hold_both_ways(pieces: _Pieces, result: tuple[Said, Said]) -> None:
    """That they are the same, `both_ways` has seen."""
    assert len(result[0].stored) <= b"".join(pieces).count(b"\n")


def _read_endless_answer(given: tuple[bytes, bytes]) -> HttpAnswer | str | None:
    start, more = given
    return _read_answer((1000, True, (start, *[more] * mutations.ENDLESS)))


def _hold_endless_answer(given: tuple[bytes, bytes], result: HttpAnswer | str | None) -> None:
    assert not isinstance(result, HttpAnswer) or len(result.body) <= 1000


def _read_endless_request(given: tuple[bytes, bytes]) -> Exchange:
    start, more = given
    return _read_requests((start, *[more] * mutations.ENDLESS))


def _hold_endless_request(given: tuple[bytes, bytes], result: Exchange) -> None:
    sent = sum(map(len, given)) * mutations.ENDLESS
    assert sum(len(request.body) for request in result.requests) <= sent
    for request in result.requests:
        assert sum(map(len, (name + value for name, value in request.headers))) <= protocol.LONGEST_HEAD


TARGETS = (
    Target(
        "answer",
        st.tuples(
            st.sampled_from((0, 4, 1000, 2**20)), st.booleans(), mutations.pieces(mutations.mutated(ANSWERS, _WORDS))
        ),
        tuple((1000, True, (answer,)) for answer in ANSWERS[:5]),
        _read_answer,
        _hold_answer,
        (),
        memory=100,
    ),
    Target(
        "request",
        mutations.pieces(mutations.mutated((*REQUESTS, EXCHANGE), _WORDS)),
        ((EXCHANGE,), *((request,) for request in REQUESTS)),
        _read_requests,
        _hold_requests,
        (),
        memory=200,
    ),
    Target(
        "both_ways",
        mutations.pieces(mutations.mutated((*EVENTS, *REQUESTS, EVENTS[0] + EVENTS[1] + REQUESTS[1]), _WORDS)),
        ((b"".join(EVENTS),), *((event[:-3], event[-3:]) for event in EVENTS)),
        _read_both_ways,
        _hold_both_ways,
        (),
        memory=300,
    ),
    Target(
        "answer_endless",
        mutations.endless(mutations.mutated(ANSWERS, _WORDS), _WORDS),
        ((ANSWERS[3], b"x"),),
        _read_endless_answer,
        _hold_endless_answer,
        (),
        memory=2000,
        seconds=_ENDLESS_SECONDS,
    ),
    Target(
        "request_endless",
        mutations.endless(mutations.mutated(REQUESTS, _WORDS), _WORDS),
        ((REQUESTS[0], b"\r\n"),),
        _read_endless_request,
        _hold_endless_request,
        (),
        memory=4000,
        seconds=_ENDLESS_SECONDS,
    ),
)
