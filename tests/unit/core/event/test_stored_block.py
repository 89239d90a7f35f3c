"""The block of an event on the short way is the codecs' block, with the data to the byte, or it is declined."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec, nats_codec
from headrace.core.event import stored_block as stored_block_module
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.stored_block import layout, of_structured
from headrace.core.nats import nats_wire

LEAST = '"specversion":"1.0","id":"1","source":"/shop","type":"order"'
CONTENT_TYPE = (b"content-type", b"application/cloudevents+json")

blanks = st.sampled_from(["", " ", "\n", "\t\r\n "])
names = st.sampled_from(
    [
        *("specversion", "id", "source", "type", "time", "subject", "datacontenttype", "datacontentencoding", "note"),
        *("data", "data_base64", "Note", "my-ext", "", "é", "data\\u0061"),
    ]
)
values = st.sampled_from(
    [
        *('"1.0"', '"0.3"', '"x"', '""', '"a b"', '"50%"', '"%41"', '"q\\"q"', '"\\u0041"', '"é"', "null", "7", "-0"),
        *("1.50", "1e400", "true", "NaN", "Infinity", "-Infinity", "01", '{"a" : 1.0}', "[ ]", '[1,{"b":null}]', "{,}"),
        *('"2026-11-28T10:00:00Z"', '"2026-02-30T00:00:00Z"', '"application/json"', '"application/cloudevents+json"'),
        *('"text/plain"', '"application/json; charset=utf-8"', '"\x7f"', '"a\tb"', "[" * 100_000, '{"a":1}{'),
    ]
)
members = st.builds('{}{}"{}"{}:{}{}{}'.format, blanks, blanks, names, blanks, blanks, values, blanks)
bodies = st.lists(members | st.just(LEAST), max_size=6).map(lambda found: f"{{{','.join([LEAST, *found])}}}".encode())
headers = st.lists(
    st.sampled_from([(b"traceparent", b"00-1-2-01"), (b"knative-x", b"1, 2")]),
    max_size=3,
    unique=True,
)


def by_the_codecs(body: bytes, others: list[tuple[bytes, bytes]]) -> tuple[dict[str, str], bytes]:
    given_ = (CONTENT_TYPE, *others)
    event = http_codec.from_http(HttpMessage(given_, body))
    message = nats_codec.encoded(nats_codec.to_binary(event, "s", http_codec.passthrough(given_)))
    return dict(nats_wire.pairs(message.block)), message.data


@given(bodies | st.binary(max_size=20), headers)
@example(f"{{{LEAST}}} x".encode(), [])
@example(f"{{{LEAST},}}".encode(), [])
@example(f'{{{LEAST},"data":1,"data":2}}'.encode(), [])
@example(f'{{{LEAST},"data":1,"data_base64":"AA=="}}'.encode(), [])
@example(f'{{{LEAST},"id":"2"}}'.encode(), [])
@example(f'{{{LEAST},"data":null}}'.encode(), [])
@example(f'{{{LEAST},"datacontenttype":"text/plain","data":"a\\"b"}}'.encode(), [])
@example(f"\ufeff{{{LEAST}}}".encode(), [])
def test_the_short_way_stores_the_same_or_declines(body: bytes, others: list[tuple[bytes, bytes]]) -> None:
    found = of_structured(body, others)
    if found is not None:
        assert (dict(nats_wire.pairs(found[0])), found[1]) == by_the_codecs(body, others)


@pytest.mark.parametrize(
    ("members", "data"),
    [
        pytest.param("", b"", id="the least event"),
        pytest.param(', "data" : { "n" : 1.0,\t"big":1e400 }\n', b'{ "n" : 1.0,\t"big":1e400 }', id="odd numbers"),
        pytest.param(',"datacontenttype":"application/json","data":[1]', b"[1]", id="a content type"),
        pytest.param(',"time":"2026-11-28T10:00:00Z","data":false', b"false", id="a time"),
        pytest.param(
            ',"data":{"text":"gr\u00fc\\u00dfe"}', '{"text":"gr\u00fc\\u00dfe"}'.encode(), id="other alphabets"
        ),
    ],
)
def test_what_most_producers_send_takes_the_short_way(members: str, data: bytes) -> None:
    body = f"{{{LEAST}{members}}}".encode()
    found = of_structured(body, [])
    assert found is not None
    assert found[1] == data
    assert dict(nats_wire.pairs(found[0])) == by_the_codecs(body, [])[0]


@pytest.mark.parametrize("left_out", ["specversion", "id", "source", "type"])
def test_a_fault_is_never_stored_by_the_short_way(left_out: str) -> None:
    members = {name: value for name, value in json.loads(f"{{{LEAST}}}").items() if name != left_out}
    body = json.dumps(members).encode()
    assert of_structured(body, []) is None
    with pytest.raises(InvalidEvent):
        by_the_codecs(body, [])


def test_names_that_a_stranger_makes_up_are_not_remembered_when_they_are_long() -> None:
    body = f'{{{LEAST},"{"x" * 101}":"1"}}'.encode()
    assert of_structured(body, []) is None
    assert by_the_codecs(body, [])[0][f"ce-{'x' * 101}"] == "1"


LEAST_NAMES = (b"ce-specversion", b"ce-id", b"ce-source", b"ce-type")


def test_a_layout_has_a_place_for_the_message_id_and_for_each_value_that_is_stored() -> None:
    names = (b"host", *LEAST_NAMES, b"content-type", b"accept", b"x-b3-100%")
    assert layout(names) == (
        b"NATS/1.0\r\nNats-Msg-Id: %b\r\nce-specversion: %b\r\nce-id: %b\r\nce-source: %b\r\nce-type: %b\r\n"
        b"content-type: %b\r\nx-b3-100%%: %b\r\n\r\n"
    )


@pytest.mark.parametrize("missing", LEAST_NAMES)
def test_there_is_none_without_what_every_event_has(missing: bytes) -> None:
    assert layout(name for name in LEAST_NAMES if name != missing) is None


@pytest.mark.parametrize(
    "name", [b"ce-datacontenttype", b"ce-datacontentencoding", b"ce-data", b"ce-my-ext", b"ce-", b"ce-" + b"x" * 200]
)
def test_nor_with_a_name_that_needs_a_closer_look(name: bytes) -> None:
    assert layout((*LEAST_NAMES, name)) is None


def test_nor_with_more_attributes_than_an_event_has() -> None:
    most = [b"ce-x%d" % number for number in range(252)]
    assert layout((*LEAST_NAMES, *most)) is not None
    assert layout((*LEAST_NAMES, *most, b"ce-y")) is None


def test_what_strangers_make_long_is_not_remembered() -> None:
    long = [(b"knative-" + b"x" * 200, b"v")]
    body = f"{{{LEAST}}}".encode()
    assert of_structured(body, []) is not None
    before = remembered()
    found = of_structured(body, long)
    assert found is not None
    assert dict(nats_wire.pairs(found[0])) == by_the_codecs(body, long)[0]
    assert of_structured(f'{{{LEAST},"datacontenttype":"a/{"x" * 200}"}}'.encode(), []) is None
    assert remembered() == before


def remembered() -> int:
    of_structured(f'{{{LEAST},"datacontenttype":"a/b"}}'.encode(), [])
    return sum(
        found.cache_info().currsize for found in vars(stored_block_module).values() if hasattr(found, "cache_info")
    )
