"""The kinds of events that a process remembers, and what it tells of them: bounded, whatever producers choose."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.event import event_kinds
from headrace.core.event.event import make_event
from headrace.core.event.event_kinds import (
    LONGEST_SOURCE,
    LONGEST_TYPE,
    MOST_BYTES,
    MOST_KINDS,
    MOST_TOLD,
    MOST_TOLD_EACH,
    EventKind,
    EventKinds,
    KindNews,
)
from headrace.core.event.nats_codec import Encoded, encoded, to_binary

ORDERS, BILLS = "shop.orders._knative", "shop.bills._knative"
KEY = b"the key of this place"


def event(type_: str = "order.created", source: str = "/shop", subject: str = ORDERS, **more: str) -> Encoded:
    attributes = {"specversion": "1.0", "id": "1", "source": source, "type": type_} | more
    return encoded(to_binary(make_event(attributes, b"data"), subject))


def kinds_of(*messages: Encoded) -> dict[str, list[EventKind]]:
    kinds = EventKinds()
    for message in messages:
        kinds.note(message)
    return {subject: list(told) for subject, told in kinds.take().kinds.items()}


def test_a_kind_is_told_once_for_each_channel_type_and_source() -> None:
    created, paid = EventKind("order.created", "/shop", "", "1.0"), EventKind("order.paid", "/shop", "", "1.0")
    found = kinds_of(
        *(event(), event(), event("order.paid"), event(), event(source="/web"), event(subject=BILLS)),
    )
    assert found == {ORDERS: [created, paid, EventKind("order.created", "/web", "", "1.0")], BILLS: [created]}


def test_what_was_taken_is_told_again_only_when_it_was_forgotten() -> None:
    kinds = EventKinds()
    kinds.note(event())
    assert kinds.take().kinds
    kinds.note(event())
    assert kinds.take() == KindNews({}, {})
    kinds.forget()
    kinds.note(event())
    assert kinds.take().kinds


@pytest.mark.parametrize(
    ("more", "kind"),
    [
        pytest.param({"dataschema": "http://schemas/order"}, ("http://schemas/order", "1.0"), id="of version 1.0"),
        pytest.param(
            {"schemaurl": "http://schemas/order", "specversion": "0.3"}, ("http://schemas/order", "0.3"), id="of 0.3"
        ),
        pytest.param({"dataschema": "http://" + "x" * LONGEST_SOURCE}, ("", "1.0"), id="too long for a catalogue"),
        pytest.param({"comexampletype": "other", "typeface": "serif"}, ("", "1.0"), id="names that are alike"),
    ],
)
def test_with_a_kind_its_schema_and_version_are_told(more: dict[str, str], kind: tuple[str, str]) -> None:
    assert kinds_of(event(**more)) == {ORDERS: [EventKind("order.created", "/shop", *kind)]}


def test_the_texts_are_those_of_the_event_and_not_of_its_headers() -> None:
    assert kinds_of(event("Auftrag “neu” 100%")) == {ORDERS: [EventKind("Auftrag “neu” 100%", "/shop", "", "1.0")]}


def test_somebody_is_told_of_the_first_news_and_not_of_more() -> None:
    kinds, told = EventKinds(), []
    kinds.on_news = lambda: told.append(1)
    for type_ in ("a", "b", "a", "x" * 1000):
        kinds.note(event(type_))
    assert told == [1]
    kinds.take()
    kinds.note(event("x" * 1000))
    assert told == [1, 1]


def test_a_channel_that_floods_leaves_the_others_their_place() -> None:
    kinds = EventKinds()
    for number in range(1000):
        kinds.note(event(f"random.{number}"))
    kinds.note(event(subject=BILLS))
    news = kinds.take()
    assert {subject: len(told) for subject, told in news.kinds.items()} == {ORDERS: MOST_TOLD_EACH, BILLS: 1}
    assert news.left_out == {ORDERS: 1000 - MOST_TOLD_EACH}
    # One that was left out is new with its next event.
    kinds.note(event("random.999"))
    assert kinds.take().kinds == {ORDERS: [EventKind("random.999", "/shop", "", "1.0")]}


def test_one_message_tells_of_so_many_kinds_and_channels() -> None:
    kinds = EventKinds()
    for number in range(3 * MOST_TOLD):
        kinds.note(event(subject=f"shop.c{number}._knative"))
    news = kinds.take()
    assert (len(news.kinds), len(news.left_out)) == (MOST_TOLD, MOST_TOLD)


@pytest.mark.parametrize(
    "kind", [("x" * (LONGEST_TYPE + 1), "/s"), ("t", "/" * (LONGEST_SOURCE + 1)), ("é" * 50, "/s")]
)
def test_a_kind_that_no_catalogue_would_show_is_left_out(kind: tuple[str, str]) -> None:
    kinds = EventKinds()
    kinds.note(event(*kind))
    assert kinds.take() == KindNews({}, {ORDERS: 1})


def test_the_longest_news_go_into_one_message() -> None:
    kinds, number = EventKinds(), 0
    for number in range(2 * MOST_TOLD):
        end = f"{number:04d}"
        # Each quote is two bytes of JSON.
        message = event(f'"{end}', f"/{end}", f"shop.{'c' * 60}{number % 9}._knative")
        block = message.block.replace(b"%22", b'"' * (LONGEST_TYPE - 4)).replace(
            b"ce-source: /", b"ce-source: /" + b'"' * (LONGEST_SOURCE - 5)
        )
        kinds.note(message._replace(block=block.replace(b"\r\n\r\n", b"\r\nce-dataschema: %b\r\n\r\n" % (b'"' * 512))))
    news = kinds.take()
    assert sum(map(len, news.kinds.values())) == MOST_TOLD
    assert 400_000 < len(event_kinds.write(news, "shop", KEY)) < MOST_BYTES


def test_ten_thousand_kinds_take_a_fixed_room_however_long_their_names_are() -> None:
    kinds, message = EventKinds(), event("TYPE", "/" * LONGEST_SOURCE)

    def note(kind: int) -> None:
        kinds.note(message._replace(block=message.block.replace(b"TYPE", b"%0256d" % kind)))
        if not kind % MOST_TOLD_EACH:
            kinds.take()

    tracemalloc.start()
    try:
        for kind in range(MOST_KINDS):
            note(kind)
        kinds.take()
        full, _ = tracemalloc.get_traced_memory()
        for kind in range(MOST_KINDS, 3 * MOST_KINDS):
            note(kind)
        kinds.take()
        fuller, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert full < 1_500_000
    assert fuller < 1_500_000
    assert most < 2_500_000


# ── the message ─────────────────────────────────────────────────────────────────────────────────────────────────────

NEWS = KindNews({ORDERS: [EventKind("t", "/s", "", "1.0"), EventKind("ü", "/s", "http://x", "1.0")]}, {BILLS: 7})


def test_a_message_is_read_back_with_the_key_that_proves_it() -> None:
    assert event_kinds.read(event_kinds.write(NEWS, "shop", KEY), "shop", KEY) == NEWS


@pytest.mark.parametrize(
    ("message", "place", "key"),
    [
        pytest.param(event_kinds.write(NEWS, "shop", b"another"), "shop", KEY, id="another key"),
        pytest.param(event_kinds.write(NEWS, "shop", b""), "shop", KEY, id="no key"),
        pytest.param(event_kinds.write(NEWS, "shop", KEY), "bank", KEY, id="another place"),
        pytest.param(event_kinds.write(NEWS, "shop", KEY)[:-1], "shop", KEY, id="cut"),
        pytest.param(event_kinds.write(NEWS, "shop", KEY).replace(b'"t"', b'"u"'), "shop", KEY, id="another kind"),
        pytest.param(event_kinds.write(KindNews({"x" * MOST_BYTES: []}, {}), "shop", KEY), "shop", KEY, id="too long"),
        pytest.param(b"", "shop", KEY, id="empty"),
    ],
)
def test_what_is_not_proven_tells_nothing(message: bytes, place: str, key: bytes) -> None:
    assert event_kinds.read(message, place, key) is None


SCALARS = st.none() | st.booleans() | st.integers() | st.text()
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=3))


@given(JSON, JSON)
def test_no_proven_nonsense_is_an_error(kinds: Any, left_out: Any) -> None:
    event_kinds.read(event_kinds.write(KindNews(kinds, left_out), "shop", KEY), "shop", KEY)
