"""The short cut of `receive` leads where the codecs lead, or declines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec, nats_codec
from headrace.core.event import stored_block as stored_block_module
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.stored_block import stored_block
from headrace.core.nats import nats_wire

PLAIN = (
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"order-1"),
    (b"ce-source", b"/shop"),
    (b"ce-type", b"shop.order"),
)

names = st.sampled_from(
    [
        *(b"ce-specversion", b"ce-id", b"ce-source", b"ce-type", b"ce-time", b"ce-subject", b"ce-myext", b"ce-data"),
        *(b"ce-datacontenttype", b"ce-datacontentencoding", b"ce-my-ext", b"ce-", b"content-type", b"traceparent"),
        *(b"knative-x", b"x-b3-traceid", b"x-request-id", b"knative-\xff", b"accept", b"host", b"ce-\xc3\xa9"),
    ]
)
values = st.sampled_from(
    [
        *(
            b"1.0",
            b"0.3",
            b"2.0",
            b"",
            b"x",
            b"a b",
            b"50%",
            b"%41",
            b'"q"',
            b"2026-11-28T10:00:00Z",
            b"2026-02-30T00:00:00Z",
        ),
        *(
            b"application/json",
            b"application/cloudevents+json",
            b"Application/CloudEvents",
            b"nonsense",
            b" x ",
            b"\xc3\xa9",
        ),
        *(b"a\r\nb: c", b"\x00", b"\x7f", b"text/plain; charset=utf-8"),
    ]
) | st.binary(max_size=8)
headers = st.lists(st.sampled_from(PLAIN) | st.tuples(names, values), max_size=9).map(
    lambda more: (*PLAIN, *more)
) | st.lists(st.tuples(names, values), max_size=9).map(tuple)


def by_the_codecs(given_: tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    event = http_codec.from_http(HttpMessage(given_, b"data"))
    message = nats_codec.to_binary(event, "s", http_codec.passthrough(given_))
    return dict(nats_wire.pairs(nats_codec.encoded(message).block))


@given(headers)
def test_the_short_cut_stores_the_same_headers_or_declines(given_: tuple[tuple[bytes, bytes], ...]) -> None:
    block = stored_block(given_)
    if block is not None:
        assert dict(nats_wire.pairs(block)) == by_the_codecs(given_)


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="the least event"),
        pytest.param(((b"content-type", b"application/json; charset=utf-8"),), id="a content type"),
        pytest.param(((b"ce-time", b"2026-11-28T10:00:00.5+01:00"), (b"ce-myext", b"7")), id="time and extension"),
        pytest.param(((b"traceparent", b"00-1-2-01"), (b"x-b3-flags", b"1, 2")), id="headers that travel"),
        pytest.param(((b"host", b"h"), (b"accept", b"*/*"), (b"content-length", b"9")), id="headers that don't"),
    ],
)
def test_what_most_producers_send_takes_the_short_cut(more: tuple[tuple[bytes, bytes], ...]) -> None:
    block = stored_block((*PLAIN, *more))
    assert block is not None
    assert dict(nats_wire.pairs(block)) == by_the_codecs((*PLAIN, *more))


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(((b"ce-subject", b"a\r\nNats-Msg-Id: x"),), id="a line break in a value"),
        pytest.param(((b"traceparent", b"a\r\nNats-Msg-Id: x"),), id="a line break in a header that travels"),
        pytest.param(((b"ce-id", b"again"),), id="an attribute twice"),
        pytest.param(((b"ce-x\r\ny", b"v"),), id="a line break in a name"),
        pytest.param(((b"ce-subject", b"50%25"),), id="percent-encoding"),
        pytest.param(((b"content-type", b"application/cloudevents+json"),), id="structured mode"),
    ],
)
def test_anything_unusual_is_left_to_the_codecs(more: tuple[tuple[bytes, bytes], ...]) -> None:
    assert stored_block((*PLAIN, *more)) is None


LONG = b"x" * 200


@pytest.mark.parametrize(
    ("header", "declined"),
    [
        pytest.param((b"ce-" + LONG, b"v"), True, id="a long name"),
        pytest.param((b"content-type", b"a/" + LONG), True, id="a long content type"),
        pytest.param((b"knative-" + LONG, b"v"), False, id="a long header that travels"),
        pytest.param((b"y" + LONG, b"v"), False, id="a long header that doesn't"),
        pytest.param((b"ce-subject", LONG), False, id="a long value"),
    ],
)
def test_what_strangers_make_long_is_not_remembered(header: tuple[bytes, bytes], declined: bool) -> None:
    stored_block((*PLAIN, (b"ce-subject", b"short")))
    before = remembered()
    block = stored_block((*PLAIN, header))
    assert (block is None) is declined
    assert remembered() == before
    if block is not None:
        assert dict(nats_wire.pairs(block)) == by_the_codecs((*PLAIN, header))


def remembered() -> int:
    stored_block((*PLAIN, (b"traceparent", b"0"), (b"content-type", b"a/b")))
    return sum(
        found.cache_info().currsize for found in vars(stored_block_module).values() if hasattr(found, "cache_info")
    )


def test_more_attributes_than_an_event_has_are_not_stored() -> None:
    most = tuple((b"ce-x%d" % number, b"v") for number in range(252))
    assert stored_block((*PLAIN, *most)) is not None
    assert stored_block((*PLAIN, *most, (b"ce-y", b"v"))) is None


def test_a_fault_is_never_stored_by_the_short_cut() -> None:
    for missing in range(len(PLAIN)):
        faulty = tuple(header for at, header in enumerate(PLAIN) if at != missing)
        assert stored_block(faulty) is None
        with pytest.raises(InvalidEvent):
            by_the_codecs(faulty)
