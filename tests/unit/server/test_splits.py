"""Cut any way, a conversation gets the same answers and leaves the same messages, with the short way and without."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.core.event.delivery_claim import CLAIM, Claims
from headrace.server.protocol import SMALL_BODY
from tests.support.http.in_memory_receive import both_ways

CLAIMS = Claims(b"the key of claims")
PROVEN = CLAIMS.of(b"KN_X/KN_SUB_X/reply/0011223344556677/", 1, 2)
JSON = b'{"specversion":"1.0","id":"%b","source":"/shop","type":"shop.order"%b}'
Header = tuple[bytes, bytes]


def message(headers: Sequence[Header], body: bytes, *, url: bytes = b"/shop/orders", version: bytes = b"1.1") -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"POST %b HTTP/%b\r\nHost: h\r\n%b\r\n%b" % (url, version, lines, body)


def binary(id: bytes = b"1", body: bytes = b"data", *more: Header, url: bytes = b"/shop/orders") -> bytes:
    event = ((b"Ce-Specversion", b"1.0"), (b"Ce-Id", id), (b"Ce-Source", b"/shop"), (b"Ce-Type", b"shop.order"))
    return message(((b"Content-Length", b"%d" % len(body)), *event, *more), body, url=url)


def structured(id: bytes = b"1", more: bytes = b',"data":[1]') -> bytes:
    body = JSON % (id, more)
    kind = (b"content-type", b"application/cloudevents+json")
    return message((kind, (b"content-length", b"%d" % len(body))), body)


ids = st.sampled_from([b"1", b"2", b"3"])
# Behind these a connection goes on as before, whatever is cut where.
lasting = st.one_of(
    st.builds(binary, ids, st.sampled_from([b"", b"data", bytes(300), b"\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"])),
    st.builds(structured, ids, st.sampled_from([b"", b',"data":[1]', b',"data":"text"', b',"n":7', b","])),
    st.sampled_from(
        [
            binary(b"1", b"data", (CLAIM, PROVEN)),
            binary(b"1", b"data", (b"ce-note", b"50%25")),
            binary(b"1", b"data", (b"ce-note", b"\xff")),
            binary(b"1", b"data", (b"expect", b"100-continue")),
            binary(b"1", b"data", (b"connection", b"upgrade"), (b"upgrade", b"h2c")),
            binary(b"1", b"data", (b"content-encoding", b"gzip")),
            binary(b"1", b"data", (b"ce-id", b"2")),
            binary(b"1", b"data", url=b"/nobody"),
            binary(b"1", b"data", url=b"http://orders-kn-jsm-channel.shop.svc/"),
            binary(b"4", b"x" * 3000),
            binary(b"5", b"x" * (SMALL_BODY + 1)),
            binary()
            .replace(b"Content-Length: 4\r\n", b"Transfer-Encoding: chunked\r\n")
            .replace(b"\r\n\r\ndata", b"\r\n\r\n4\r\ndata\r\n0\r\nce-id: 2\r\n\r\n"),
            b"GET /healthz HTTP/1.1\r\nhost: h\r\n\r\n",
            b"OPTIONS / HTTP/1.1\r\nhost: h\r\ncontent-length: 2\r\n\r\nhi",
            b"\r\n",
        ]
    ),
)
# These end it.
ending = st.sampled_from(
    [
        b"",
        binary(b"7", b"data", (b"connection", b"close")),
        binary(b"7").replace(b"HTTP/1.1", b"HTTP/1.0"),
        binary(b"7").replace(b"HTTP/1.1", b"HTTP/2.0"),
        binary(b"7").replace(b"Host: h\r\n", b""),
        binary(b"7").replace(b"Content-Length: 4", b"Content-Length: four"),
        binary(b"7")[:-1],
        binary(b"7")[:60],
        b"garbage\r\n",
    ]
)
conversations = st.tuples(st.lists(lasting, max_size=4), ending).map(lambda said: b"".join([*said[0], said[1]]))


def cut(sent: bytes, places: Sequence[int]) -> tuple[bytes, ...]:
    at = sorted({place % (len(sent) or 1) for place in places} - {0})
    return tuple(sent[begin:end] for begin, end in zip([0, *at], [*at, len(sent)], strict=True))


@settings(max_examples=300, deadline=None)
@given(conversations, st.lists(st.integers(0, 3000), max_size=6))
@example(binary() + b"garbage\r\n", [len(binary())])
@example(binary()[:-1], [len(binary()) - 4])
@example(binary() + binary(b"2") + binary(b"3"), [len(binary()) - 2, 2 * len(binary()) + 3])
@example(b"\r\n" + binary() + b"\r\n" + binary(b"2"), [2, 2 + len(binary()), 3 + len(binary())])
async def test_cut_anywhere(sent: bytes, places: list[int]) -> None:
    await both_ways(cut(sent, places), CLAIMS)


@settings(max_examples=60, deadline=None)
@given(st.lists(lasting, min_size=1, max_size=4), st.lists(st.integers(-3, 20), min_size=1, max_size=3))
@example([b"\r\n", binary(), b"\r\n"], [0])
async def test_cut_around_each_end_of_a_head(said: list[bytes], near: list[int]) -> None:
    pieces: list[bytes] = []
    for one in said:
        head = one.find(b"\r\n\r\n") + 4
        pieces += cut(one, [max(0, head + place) for place in near])
    await both_ways(tuple(pieces), CLAIMS)


@pytest.mark.parametrize("sent", [binary(), structured()], ids=["binary", "structured"])
async def test_cut_in_two_at_each_place(sent: bytes) -> None:
    head = sent.index(b"\r\n\r\n") + 4
    for at in range(1, len(sent)):
        short, long = await both_ways((sent[:at], sent[at:]), CLAIMS)
        assert len(long.stored) == 1
        # And it went the short way from where its head is here.
        assert short.by_short_way == (at >= head), at
    short, _ = await both_ways((sent,), CLAIMS)
    assert short.by_short_way == 1


async def test_byte_by_byte() -> None:
    for sent in (binary() + structured(b"2"), binary(b"3", bytes(1500))):
        short, _ = await both_ways(tuple(sent[at : at + 1] for at in range(len(sent))), CLAIMS)
        assert short.by_short_way == 0


async def test_a_body_that_comes_byte_by_byte_behind_its_head_takes_the_short_way() -> None:
    sent = binary(b"1", bytes(1500))
    head = sent.index(b"\r\n\r\n") + 4
    short, _ = await both_ways((sent[:head], *(sent[at : at + 1] for at in range(head, len(sent)))), CLAIMS)
    assert short.by_short_way == 1


async def test_of_messages_that_come_together_only_one_that_is_alone_takes_the_short_way() -> None:
    short, _ = await both_ways(
        (binary() + binary(b"2"), binary(b"3"), binary(b"4")[:-1], b"a" + binary(b"5"), binary(b"6")), CLAIMS
    )
    assert (len(short.stored), short.by_short_way) == (6, 2)
