"""A POST that is read without a parser: it is read as by the parser and the codecs, or it is declined."""

from __future__ import annotations

from dataclasses import dataclass, field

import httptools
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.event import http_codec, nats_codec, whole_post
from headrace.core.event.delivery_claim import CLAIM, Claims
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.whole_post import WholePost, WholePosts
from headrace.core.nats import nats_wire
from tests.support.http import malformed

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


def structured(
    body: bytes,
    *more: tuple[bytes, bytes],
    kind: bytes = b"application/cloudevents+json",
    line: bytes = b"POST / HTTP/1.1",
) -> bytes:
    headers = ((b"Host", b"h"), (b"Content-Type", kind), (b"Content-Length", b"%d" % len(body)), *more)
    return b"%b\r\n%b\r\n%b" % (line, b"".join(b"%b: %b\r\n" % header for header in headers), body)


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


@dataclass(frozen=True)
class Read:
    """A POST as either way reads it: the lines of its block in any order but for the first, the message id's."""

    host: bytes
    url: bytes
    first: tuple[str, str]
    lines: dict[str, str]
    data: bytes
    claim: bytes
    authorization: bytes


def of(found: WholePost) -> Read:
    first, *lines = nats_wire.pairs(found.block)
    assert len(lines) == len(dict(lines)) == found.block.count(b"\n") - 3 == found.block.count(b"\r") - 3
    return Read(found.host, found.url, first, dict(lines), found.data, found.claim, found.authorization)


def by_the_parser(data: bytes) -> Read:
    """What it says, if it is one whole POST of the plain kind with a valid event; raises for anything else."""
    parsed = Parsed()
    parser = httptools.HttpRequestParser(parsed)
    parser.feed_data(data)
    assert (parsed.begun, parsed.complete) == (1, 1)
    assert (parser.get_method(), parser.get_http_version(), parser.should_keep_alive()) == (b"POST", "1.1", True)
    fields = dict(parsed.headers)
    claim = CLAIMS.proven(fields.get(CLAIM))
    event = http_codec.from_http(HttpMessage(tuple(parsed.headers), parsed.body))
    stored = nats_codec.encoded(nats_codec.to_binary(event, "s", http_codec.passthrough(parsed.headers), claim))
    return of(
        WholePost(fields[b"host"], parsed.url, stored.block, stored.data, claim, fields.get(b"authorization", b""))
    )


names = st.sampled_from(
    [
        *(b"ce-time", b"Ce-Subject", b"ce-myext", b"ce-data", b"ce-My_Name", b"content-type", b"Content-Type"),
        *(b"Knative-Headrace-Delivery", b"knative-headrace-delivery", b"headrace-hops"),
        *(b"ce-datacontenttype", b"ce-datacontentencoding", b"ce-", b"knative-x", b"x-request-id", b"knative-\xff"),
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
        *(PROVEN, PROVEN[:-1], b"254", b"0.3", b"2.0", b"%41", b"\x7f", b"Application/CloudEvents"),
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


JSON = b'{"specversion":"1.0","id":"1","source":"/shop","type":"shop.order"%b}'
structured_posts = st.builds(
    lambda kind, more, rest, line: structured(JSON % rest, *more, kind=kind, line=line),
    st.sampled_from(
        [
            *([b"application/cloudevents+json"] * 4),
            *(b"application/cloudevents+json; charset=utf-8", b"application/cloudevents+json;charset=UTF-8"),
            *(b"application/cloudevents+json; charset=latin-1", b"application/cloudevents-batch+json", b"text/plain"),
            *(b"application/cloudevents+jsonx", b"Application/CloudEvents+JSON"),
        ]
    ),
    st.lists(st.tuples(names, values), max_size=3),
    st.sampled_from(
        [
            *(b"", b',"data":{"n" : 1.0}', b',"data":"text"', b',"data_base64":"AAH/"', b',"n":7', b',"id":"2"', b","),
            *(b',"datacontenttype":"text/plain","data":1', b',"time":"noon"', b',"note":""', b',"note":"50%"'),
        ]
    ),
    lines | st.just(b"POST / HTTP/1.1"),
)
damages = st.sampled_from([b"", b"", b"\r", b"\n", b":", b" ", b"\t", b"\x00", b"x", b"9", b"\xff"])


@given(posts | structured_posts, st.integers(0, 300), damages)
@example(post((b"Content-Length ", b"5")), 0, b"")
@example(post((b"x", b"1\ncontent-length: 5")), 0, b"")
@example(post((b"ce-time", b"2026-11-28T10:00:00Z"), (b"connection", b"Keep-Alive")), 0, b"")
@example(structured(JSON % b',"data":[1]', (b"ce-id", b"another")), 0, b"")
def test_what_is_read_is_what_the_parser_reads_or_is_declined(sent: bytes, at: int, damage: bytes) -> None:
    damaged = sent[:at] + damage + sent[at + len(damage) :]
    reader = WholePosts(CLAIMS)
    # As after an event of the same producer, too.
    for known in (False, True):
        found = reader.match(damaged)
        if isinstance(found, WholePost):
            assert of(found) == by_the_parser(damaged), known
        reader.match(sent)


@given(posts | structured_posts, st.lists(st.integers(0, 2000), max_size=4))
@example(post(), [160])
def test_what_comes_in_pieces_is_kept_only_for_its_body_and_then_read_as_if_it_came_at_once(
    sent: bytes, places: list[int]
) -> None:
    whole = WholePosts(CLAIMS).match(sent)
    reader = WholePosts(CLAIMS)
    for at in sorted({place % (len(sent) + 1) for place in places}):
        lacks = reader.match(sent[:at])
        if isinstance(lacks, WholePost):
            # A message of its own, with more behind it.
            assert by_the_parser(sent[:at]) == of(lacks)
        elif lacks is not None:
            # The parser is inside the body, too, and misses as many bytes.
            parsed = Parsed()
            httptools.HttpRequestParser(parsed).feed_data(sent[:at])
            assert (parsed.begun, parsed.complete) == (1, 0)
            assert lacks == int(dict(parsed.headers)[b"content-length"]) - len(parsed.body) > 0
    assert reader.match(sent) == whole


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
    reader = WholePosts(CLAIMS)
    for body in (b"data", b"atad"):
        sent = post(*more, line=b"POST /demo/orders HTTP/1.1", body=body)
        found = reader.match(sent)
        assert isinstance(found, WholePost)
        assert of(found) == by_the_parser(sent)


@pytest.mark.parametrize("kind", [b"application/cloudevents+json", b"application/cloudevents+json; charset=UTF-8"])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="nothing else"),
        pytest.param(((b"Traceparent", b"00-1-2-01"), (b"accept", b"*/*"), (CLAIM, PROVEN)), id="what travels"),
    ],
)
def test_nor_does_it_in_structured_mode(kind: bytes, more: tuple[tuple[bytes, bytes], ...]) -> None:
    reader = WholePosts(CLAIMS)
    for rest in (b"", b',"subject":"7","data":{"n" : 1.0}'):
        sent = structured(JSON % rest, *more, kind=kind)
        found = reader.match(sent)
        assert isinstance(found, WholePost)
        assert of(found) == by_the_parser(sent)


def test_a_producer_of_both_modes_is_served_in_both() -> None:
    reader = WholePosts(CLAIMS)
    for sent in (post(), structured(JSON % b""), post(), structured(JSON % b"")):
        assert isinstance(reader.match(sent), WholePost)


@pytest.mark.parametrize("sent", [post(), structured(JSON % b',"data":1')], ids=["binary", "structured"])
def test_of_a_body_that_is_on_its_way_it_is_known_how_much_is_missing(sent: bytes) -> None:
    reader = WholePosts(CLAIMS)
    head = sent.index(b"\r\n\r\n") + 4
    for missing in range(1, len(sent) - head + 1):
        assert reader.match(sent[:-missing]) == missing
    # Of a head that is not all here, nothing.
    assert reader.match(sent[: head - 1]) is None


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(post((b"ce-x\r\ny", b"v")), id="a line end in a name"),
        pytest.param(post((b"content-type", b"application/cloudevents+json")), id="both modes at once"),
        pytest.param(structured(JSON % b',"data":"text"'), id="data that are text in JSON"),
        pytest.param(structured(JSON % b',"type":"again"'), id="a member twice"),
        pytest.param(structured(b"{}"), id="no event in JSON"),
        pytest.param(post(body=b"data" + post()), id="another request behind it"),
        pytest.param(post((b"Transfer-Encoding", b"chunked")), id="chunked"),
        pytest.param(post((b"content-encoding", b"identity")), id="coded"),
        pytest.param(post((b"expect", b"100-continue")), id="it expects something"),
        pytest.param(post((b"connection", b"close")), id="the last on its connection"),
        pytest.param(post((b"connection", b"upgrade"), (b"upgrade", b"h2c")), id="an upgrade is offered"),
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
    reader = WholePosts(CLAIMS)
    assert reader.match(sent) is None
    # As well when its shape was seen with values that are plain.
    reader.match(post())
    assert reader.match(sent) is None


@pytest.mark.parametrize(("sent", "_"), [pytest.param(*one, id=name) for name, one in malformed.requests().items()])
def test_what_can_be_read_in_two_ways_is_left_to_the_parser_which_refuses_it(sent: bytes, _: int) -> None:
    attributes = b"\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t"
    event = sent if b"ontent-" in sent else sent.replace(b"\r\n", b"\r\ncontent-length: 0\r\n", 1)
    assert WholePosts(CLAIMS).match(event.replace(b"\r\n\r\n", attributes + b"\r\n\r\n", 1)) is None


def test_a_header_that_the_story_must_see_is_left_to_it() -> None:
    sent = post((b"K-Original-Host", b"x"))
    assert WholePosts(CLAIMS, (b"k-original-host",)).match(sent) is None
    assert WholePosts(CLAIMS).match(sent) is not None


def test_a_long_head_is_left_to_the_parser_even_where_its_shape_is_known() -> None:
    reader = WholePosts(CLAIMS)
    assert isinstance(reader.match(post((b"x", b"y"))), WholePost)
    assert reader.match(post((b"x", b"y" * whole_post.LONGEST_HEAD))) is None


def test_who_sends_ever_new_shapes_does_not_have_them_remembered_without_end() -> None:
    reader = WholePosts(CLAIMS)
    sent = [post((b"x-%d" % number, b"y")) for number in range(whole_post.MOST_SHAPES + 1)]
    assert [reader.match(one) is not None for one in sent] == [True] * whole_post.MOST_SHAPES + [False]
    assert reader.match(sent[0]) is not None


def test_long_names_are_left_to_the_parser_and_take_no_place() -> None:
    reader = WholePosts(CLAIMS)
    long = [
        post((b"x" * whole_post.MOST_NAME_BYTES + b"-%d" % number, b"y")) for number in range(whole_post.MOST_SHAPES)
    ]
    assert {reader.match(one) for one in long} == {None}
    assert reader.match(post()) is not None
