"""What is read without the parser is what the parser reads, or it is declined."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.event import plain_post
from headrace.core.event.delivery_claim import CLAIM, Claims
from headrace.core.event.plain_post import PlainPosts, Posted
from headrace.core.event.stored_block import stored_block

CLAIMS = Claims(b"the key of claims")
PROVEN = CLAIMS.of(b"KN_X/KN_SUB_X/reply/0011223344556677/", 1, 2)

PLAIN = (
    (b"Host", b"orders-kn-jsm-channel.demo.svc:80"),
    (b"User-Agent", b"Go-http-client/1.1"),
    (b"Content-Length", b"4"),
    (b"Ce-Id", b"order-1"),
    (b"Ce-Source", b"/shop"),
    (b"Ce-Specversion", b"1.0"),
    (b"Ce-Type", b"shop.order"),
)


def post(
    *more: tuple[bytes, bytes], line: bytes = b"POST / HTTP/1.1", body: bytes = b"data", without: bytes = b""
) -> bytes:
    lines = [b"%b: %b\r\n" % header for header in (*PLAIN, *more) if header[0] != without]
    return b"%b\r\n%b\r\n%b" % (line, b"".join(lines), body)


@dataclass
class Parsed:
    """What httptools makes of some bytes."""

    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytes = b""
    begun: int = 0
    complete: int = 0

    def on_message_begin(self) -> None:
        self.begun += 1

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


def by_the_parser(data: bytes) -> Posted:
    """What it says, if it is one whole POST of the plain kind; raises for anything else."""
    parsed = Parsed()
    parser = httptools.HttpRequestParser(parsed)
    parser.feed_data(data)
    assert (parsed.begun, parsed.complete) == (1, 1)
    assert (parser.get_method(), parser.get_http_version(), parser.should_keep_alive()) == (b"POST", "1.1", True)
    fields = dict(parsed.headers)
    claim = CLAIMS.proven(fields.get(CLAIM))
    block = stored_block(parsed.headers, claim)
    assert block is not None
    return Posted(fields[b"host"], parsed.url, block, parsed.body, claim)


names = st.sampled_from(
    [
        *(b"ce-time", b"Ce-Subject", b"ce-myext", b"ce-data", b"ce-My_Name", b"content-type", b"Content-Type"),
        *(b"Knative-Headrace-Delivery", b"knative-headrace-delivery", b"headrace-hops"),
        *(b"traceparent", b"X-B3-TraceId", b"accept", b"host", b"content-length", b"Content-Length ", b"connection"),
        *(
            b"Transfer-Encoding",
            b"te",
            b"expect",
            b"Upgrade",
            b"a b",
            b"a\x00",
            b"",
            b" folded",
            b"ce-id",
            b"gr\xc3\xbc",
        ),
    ]
)
values = st.sampled_from(
    [
        *(
            b"1.0",
            b"x",
            b"",
            b"a b",
            b" x",
            b"x ",
            b"\tx",
            b"50%",
            b'"q"',
            b"\xc3\xa9",
            b"\x00",
            b"a\nb: c",
            b"a\r\n b",
        ),
        *(PROVEN, PROVEN[:-1], b"254"),
        *(b"2026-11-28T10:00:00Z", b"2026-02-30T00:00:00Z", b"2024-02-29T00:00:00Z", b"application/json", b"4", b"04"),
        *(b"application/cloudevents+json", b"text/plain; charset=utf-8", b"text/plain ;a", b"nonsense", b"keep-alive"),
        *(b"Keep-Alive", b"close", b"chunked", b"a/" + b"b" * 127, b"a\r\nce-id: two"),
    ]
)
lines = st.sampled_from(
    [
        *(b"POST / HTTP/1.1", b"POST /demo/orders HTTP/1.1", b"POST /demo//x%20?q HTTP/1.1", b"POST  / HTTP/1.1"),
        *(b"POST / HTTP/1.0", b"PUT / HTTP/1.1", b"POST http://x/ HTTP/1.1", b"POST /", b"post / HTTP/1.1"),
    ]
)
bodies = st.sampled_from([b"data"] * 6 + [b"", b"dat", b"datas", b"dataPOST / HTTP/1.1\r\n\r\n", b"\r\n\r\n"])
posts = st.builds(
    lambda more, line, body, without: post(*more, line=line, body=body, without=without),
    st.lists(st.tuples(names, values), max_size=4),
    lines | st.just(b"POST / HTTP/1.1"),
    bodies,
    st.sampled_from([b""] * 9 + [name for name, _ in PLAIN]),
)


@given(
    posts,
    st.integers(0, 300),
    st.sampled_from([b"", b"", b"\r", b"\n", b":", b" ", b"\t", b"\x00", b"x", b"9", b"\xff"]),
)
@example(post((b"Content-Length ", b"5")), 0, b"")
@example(post((b"x", b"1\ncontent-length: 5")), 0, b"")
@example(post((b"ce-time", b"2026-11-28T10:00:00Z"), (b"connection", b"Keep-Alive")), 0, b"")
def test_what_is_read_is_what_the_parser_reads_or_is_declined(sent: bytes, at: int, damage: bytes) -> None:
    damaged = sent[:at] + damage + sent[at + len(damage) :]
    reader = PlainPosts(CLAIMS)
    # As after an event of the same producer, too.
    for known in (False, True):
        found = reader.read(damaged)
        if found is not None:
            assert found == by_the_parser(damaged), known
        reader.read(sent)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="the least event"),
        pytest.param(((b"Content-Type", b"application/json; charset=utf-8"),), id="a content type"),
        pytest.param(((b"ce-time", b"2026-11-28T10:00:00.5+01:00"), (b"ce-myext", b"7")), id="time and extension"),
        pytest.param(((b"Traceparent", b"00-1-2-01"), (b"x-b3-flags", b"1, 2")), id="headers that travel"),
        pytest.param(
            ((CLAIM, PROVEN), (b"headrace-hops", b"1"), (b"kn-namespace", b"shop")), id="what forward delivers"
        ),
        pytest.param(((CLAIM, b"made up"),), id="a claim that is not proven"),
        pytest.param(
            ((b"Accept", b"*/*"), (b"Connection", b"keep-alive"), (b"accept-encoding", b"gzip, br")), id="others"
        ),
    ],
)
def test_what_most_producers_send_needs_no_parser(more: tuple[tuple[bytes, bytes], ...]) -> None:
    reader = PlainPosts(CLAIMS)
    for body in (b"data", b"atad"):
        sent = post(*more, line=b"POST /demo/orders HTTP/1.1", body=body)
        assert reader.read(sent) == by_the_parser(sent)


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(post(body=b""), id="the body is on its way"),
        pytest.param(post(body=b"dat"), id="a part of the body is on its way"),
        pytest.param(post(body=b"data" + post()), id="another request behind it"),
        pytest.param(post((b"Transfer-Encoding", b"chunked")), id="chunked"),
        pytest.param(post((b"content-encoding", b"identity")), id="coded"),
        pytest.param(post((b"expect", b"100-continue")), id="it expects something"),
        pytest.param(post((b"connection", b"close")), id="the last on its connection"),
        pytest.param(post((b"connection", b"upgrade"), (b"upgrade", b"h2c")), id="an upgrade is offered"),
        pytest.param(post((b"forwarded", b"host=x")), id="another host counts"),
        pytest.param(post((b"ce-id", b"two")), id="a header twice"),
        pytest.param(post((b"Content-Length ", b"5")), id="a name with a blank"),
        pytest.param(post((b" x", b"5")), id="a folded line"),
        pytest.param(post((b"ce-note", b"50%25")), id="an escape"),
        pytest.param(post((b"x", b"y" * 9000)), id="a long head"),
        pytest.param(post(line=b"POST / HTTP/1.0"), id="HTTP/1.0"),
        pytest.param(post(line=b"POST /?a HTTP/1.1"), id="a query"),
        pytest.param(post(without=b"Host"), id="no host"),
        pytest.param(post(without=b"Content-Length"), id="no length"),
        pytest.param(post(without=b"Ce-Type"), id="no type"),
    ],
)
def test_anything_else_is_left_to_the_parser(sent: bytes) -> None:
    reader = PlainPosts(CLAIMS)
    assert reader.read(sent) is None
    # As well when its shape was seen with values that are plain.
    reader.read(post())
    assert reader.read(sent) is None


def test_a_long_head_is_left_to_the_parser_even_where_its_shape_is_known() -> None:
    reader = PlainPosts(CLAIMS)
    assert reader.read(post((b"x", b"y"))) is not None
    assert reader.read(post((b"x", b"y" * plain_post.LONGEST_HEAD))) is None


def test_who_sends_ever_new_shapes_does_not_have_them_remembered_without_end() -> None:
    reader = PlainPosts(CLAIMS)
    sent = [post((b"x-%d" % number, b"y")) for number in range(plain_post.MOST_SHAPES + 1)]
    assert [reader.read(one) is not None for one in sent] == [True] * plain_post.MOST_SHAPES + [False]
    assert reader.read(sent[0]) is not None


def test_long_names_are_left_to_the_parser_and_take_no_place() -> None:
    reader = PlainPosts(CLAIMS)
    long = [
        post((b"x" * plain_post.MOST_NAME_BYTES + b"-%d" % number, b"y")) for number in range(plain_post.MOST_SHAPES)
    ]
    assert {reader.read(one) for one in long} == {None}
    assert reader.read(post()) is not None
