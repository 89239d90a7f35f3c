"""The short way of `forward` posts what the codecs would post, or declines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.event import delivery_claim, http_codec, nats_codec
from headrace.core.event.delivery_claim import HOPS
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.event.posted_lines import MOST_SHAPES, PostedLines
from headrace.core.nats.nats_wire import Headers

Line = tuple[bytes, bytes]

PLAIN: tuple[Line, ...] = (
    (b"Nats-Msg-Id", b"0123456789abcdef"),
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"order-1"),
    (b"ce-source", b"/shop"),
    (b"ce-type", b"shop.order"),
)

names = st.sampled_from(
    [
        *(b"ce-specversion", b"ce-id", b"ce-source", b"ce-type", b"ce-time", b"ce-subject", b"ce-myext", b"ce-data"),
        *(b"ce-datacontenttype", b"ce-datacontentencoding", b"ce-my-ext", b"ce-", b"content-type", b"Content-Type"),
        *(
            b"knative-x",
            b"x-b3-traceid",
            b"x-request-id",
            b"knative-\xff",
            b"accept",
            b"host",
            b"ce-\xc3\xa9",
            b"CE-id",
        ),
        *(HOPS, b"Headrace-Hops", b"knative-headrace-delivery"),
        *(b"traceparent", b"Headrace-Only", b"Nats-Expected-Stream", b"nats-x", b"", b"user-agent", b"ce-x\r\ny"),
    ]
)
VALUES = (
    *(b"7", b"0255", b"007", b"-1"),
    *(b"1.0", b"0.3", b"", b"x", b"a b", b"a%20b", b"%20", b"50%", b"%41", b"%2f", b'"q"', b" x ", b"x\t", b"\xc3\xa9"),
    *(b"2026-11-28T10:00:00Z", b"2026-02-30T00:00:00Z", b"2024-02-29T00:00:00Z", b"2026-04-31T00:00:00Z", b"a\r\nb: c"),
    *(b"2026-12-31T23:59:60.5+01:00", b"application/json", b"application/cloudevents+json", b"Application/CloudEvents"),
    *(
        b"nonsense",
        b"a\nb",
        b"a\rb",
        b"\x00",
        b"\x7f",
        b"text/plain; charset=utf-8",
        b"text/plain ;x",
        b"a/b; ",
        b"a/b;",
    ),
)
values = st.sampled_from(VALUES) | st.binary(max_size=8)
lines = st.tuples(names, values)
blocks = (
    st.lists(st.sampled_from(PLAIN) | lines, max_size=9)
    .map(lambda more: list(dict.fromkeys((*PLAIN, *more))))
    .flatmap(st.permutations)
    .map(tuple)
)


def block_of(given_: tuple[Line, ...], colon: bytes = b": ") -> bytes:
    return b"NATS/1.0\r\n" + b"".join(b"%b%b%b\r\n" % (name, colon, value) for name, value in given_) + b"\r\n"


def by_the_codecs(block: bytes) -> tuple[bytes, int]:
    """What is posted of the event, and its hops, which are told anew."""
    message = NatsMessage("shop.orders._knative", Headers(block), b'{"n": 1}')
    event = nats_codec.from_nats(message, stream="S", sequence=7)
    sent = http_codec.to_http(event)
    assert sent.body == message.data
    headers = sent.headers + nats_codec.passthrough_of(message)
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return lines, delivery_claim.hops(message.headers)


@given(blocks, st.sampled_from([b": ", b":", b":  "]))
def test_the_short_cut_posts_the_same_lines_in_the_same_order_or_declines(
    given_: tuple[Line, ...], colon: bytes
) -> None:
    block = block_of(given_, colon)
    found = PostedLines().of(block)
    if found is not None:
        assert found == by_the_codecs(block)


@given(st.binary(max_size=60), st.integers(0, 200))
def test_damaged_blocks_are_declined_or_read_as_the_codecs_do(damage: bytes, at: int) -> None:
    whole = block_of(PLAIN)
    block = whole[:at] + damage + whole[at + len(damage) :]
    reader = PostedLines()
    assert reader.of(whole) is not None
    found = reader.of(block)
    if found is not None:
        assert found == by_the_codecs(block)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="the least event"),
        pytest.param(((b"content-type", b"application/json; charset=utf-8"),), id="a content type"),
        pytest.param(((b"ce-time", b"2026-12-31T10:00:00.5+01:00"), (b"ce-myext", b"7")), id="time and extension"),
        pytest.param(((b"traceparent", b"00-1-2-01"), (b"x-b3-flags", b"1, 2")), id="headers that travel"),
        pytest.param(((b"content-type", b"a/b"), (b"ce-subject", b"a%20b"), (b"ce-x", b"y")), id="type in between"),
        pytest.param(((b"tracestate", b"a=b"), (b"content-type", b"a/b"), (b"ce-x", b"y")), id="all kinds, mixed"),
        pytest.param(((HOPS, b"12"), (b"tracestate", b"a=b"), (b"content-type", b"a/b")), id="hops"),
    ],
)
def test_what_receive_stores_takes_the_short_cut(more: tuple[Line, ...]) -> None:
    block = block_of((*PLAIN, *more))
    assert PostedLines().of(block) == by_the_codecs(block)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(((b"ce-subject", b"50%25"),), id="percent-encoding"),
        pytest.param(((b"ce-subject", b"a\nb"),), id="half a line end"),
        pytest.param(((b"ce-id", b"again"),), id="an attribute twice"),
        pytest.param(((b"ce-time", b"2026-02-30T00:00:00Z"),), id="a day that is none"),
        pytest.param(((b"content-type", b"application/cloudevents+json"),), id="an event as data"),
        pytest.param(((b"Headrace-Only", b"KN_SUB_X"),), id="a replay for one consumer"),
        pytest.param(((b"ce-", b"x"),), id="a name that is none"),
        pytest.param(((b"accept", b"x"),), id="a stranger's header"),
    ],
)
def test_anything_unusual_is_left_to_the_codecs(more: tuple[Line, ...]) -> None:
    assert PostedLines().of(block_of((*PLAIN, *more))) is None


@pytest.mark.parametrize("block", [b"", b"NATS/1.0\r\n\r\n", b"NATS/1.0 503\r\n\r\n", b"x", b"NATS/1.0\r\n"])
def test_what_holds_no_event_is_left_to_the_codecs(block: bytes) -> None:
    assert PostedLines().of(block) is None


def test_a_message_without_one_of_the_four_attributes_is_left_to_the_codecs() -> None:
    for missing in range(1, len(PLAIN)):
        block = block_of(tuple(line for at, line in enumerate(PLAIN) if at != missing))
        assert PostedLines().of(block) is None


def test_ever_new_shapes_are_left_to_the_codecs_after_a_while_and_the_old_ones_go_on() -> None:
    reader = PostedLines()
    found = [reader.of(block_of((*PLAIN, (b"ce-x%d" % number, b"v")))) for number in range(MOST_SHAPES + 5)]
    assert [one is None for one in found] == [False] * MOST_SHAPES + [True] * 5
    assert reader.of(block_of((*PLAIN, (b"ce-x0", b"v")))) is not None


def test_a_name_of_any_length_is_not_remembered() -> None:
    assert PostedLines().of(block_of((*PLAIN, (b"ce-" + b"x" * 100, b"v")))) is None


def test_a_long_value_that_proves_wrong_at_its_end_takes_time_in_proportion() -> None:
    reader = PostedLines()
    for value in (b"x%20" * 20_000 + b'"', b"x" * 80_000 + b"%"):
        assert reader.of(block_of((*PLAIN, (b"ce-subject", value)))) is None
