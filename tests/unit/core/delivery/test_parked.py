"""The copy of an event that could be delivered nowhere: what it holds, how it is read back, and how a replay looks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.delivery import parked
from headrace.core.delivery.parked import Parked, ParkedFilter
from headrace.core.delivery.stage_record import Attempts, StageFailure, StageRecord
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.event import nats_codec
from headrace.core.event.nats_codec import msg_id
from headrace.core.nats.jetstream import Message

NOON = datetime(2026, 11, 28, 12, tzinfo=UTC)
BILLING = Subscriber("shop", "orders", "billing", "aaaa-1", 1, "KN_SHOP__ORDERS_aside", "money")
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
FAILED = StageRecord(attempts=Attempts(subscriber=3), failure=StageFailure("http://billing/", 503))


def message(headers: dict[str, str] | None = None, *, stored: int = 77) -> Message:
    given = EVENT if headers is None else headers
    return Message("shop.orders._knative", given, b"data", "$JS.ACK", "KN_SHOP__ORDERS", "KN_SUB_U", 4, 7, stored)


def kept(headers: dict[str, str] | None = None) -> Parked:
    """The event after a round through the aside stream, at position 5."""
    made = parked.parked_message(message(headers), FAILED, "status 503 on attempt 3", BILLING)
    lowered = {name.lower(): value for name, value in made.headers.items()}
    found = parked.parse(5, NOON, lowered, made.data, len(made.data))
    assert found is not None
    return found


def test_a_parked_event_tells_where_it_came_from_and_why_it_is_here() -> None:
    assert kept() == Parked(
        position=5,
        parked_at=NOON,
        stream="KN_SHOP__ORDERS",
        sequence=7,
        subject="shop.orders._knative",
        consumer="KN_SUB_U",
        subscription="money/billing",
        attempts=3,
        reason="status 503 on attempt 3",
        destination="http://billing/",
        status=503,
        headers=EVENT,
        data=b"data",
        size=4,
    )


def test_a_parked_event_tells_what_came_back() -> None:
    record = replace(FAILED, failure=StageFailure("http://billing/", 422, "bm8g8J+YgA==", "text/plain; charset=utf-8"))
    made = parked.parked_message(message(), record, "no", BILLING)
    found = parked.parse(5, NOON, {name.lower(): value for name, value in made.headers.items()}, made.data, 4)

    assert found is not None
    assert (found.answer.decode(), found.answer_type) == ("no 😀", "text/plain; charset=utf-8")
    assert found.headers == EVENT, "and a replay does not carry it"


@pytest.mark.parametrize("answer", [True, False])
def test_silence_is_told_of_whether_or_not_there_was_room_for_why(answer: bool) -> None:
    silent = replace(FAILED, failure=StageFailure("http://billing/", 500, "bm8=", answered=False))
    said = replace(FAILED, failure=StageFailure("http://billing/", 500, "bm8="))
    found = [
        parked.parse(5, NOON, {name.lower(): value for name, value in made.headers.items()}, made.data, 4)
        for made in (parked.parked_message(message(), each, "no", BILLING, answer=answer) for each in (silent, said))
    ]
    assert [one.answered for one in found if one is not None] == [False, True]


def test_an_answer_costs_a_parked_event_at_most_its_bounds() -> None:
    record = replace(FAILED, failure=StageFailure("http://billing/", 422, "A" * 1024, "x" * 5000))
    whole, slim = (parked.parked_message(message(), record, "no", BILLING, answer=answer) for answer in (True, False))

    assert 0 < nats_codec.encoded(whole).size - nats_codec.encoded(slim).size < 2200
    longer = replace(record, failure=StageFailure("http://billing/", 422, "A" * 1028))
    assert parked.parked_message(message(), longer, "no", BILLING).headers == slim.headers


def test_a_parked_event_is_the_event_that_it_was() -> None:
    assert kept().event.attributes == {"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}
    assert kept().event.data == b"data"


def test_an_event_of_a_stream_that_was_made_again_does_not_replace_an_old_one() -> None:
    """The same sequence of the same consumer, stored at another time: neither the subject nor the id are the same."""
    before, after = (parked.parked_message(message(stored=stored), FAILED, "no", BILLING) for stored in (77, 78))
    assert (before.subject, before.headers["Nats-Msg-Id"]) != (after.subject, after.headers["Nats-Msg-Id"])
    assert before.subject != after.subject
    assert before.headers["Nats-Msg-Id"] != after.headers["Nats-Msg-Id"]


def test_parking_the_same_delivery_twice_stores_it_once() -> None:
    first, second = (parked.parked_message(message(), FAILED, reason, BILLING) for reason in ("no", "again"))
    assert (first.subject, first.headers["Nats-Msg-Id"]) == (second.subject, second.headers["Nats-Msg-Id"])


@pytest.mark.parametrize(
    "damage",
    [
        {"headrace-origin-sequence": "seven"},
        {"headrace-attempts": ""},
        {"headrace-status": "bad"},
    ],
)
def test_what_was_damaged_is_no_parked_event(damage: dict[str, str]) -> None:
    made = parked.parked_message(message(), FAILED, "no", BILLING)
    lowered = {name.lower(): value for name, value in made.headers.items()} | damage
    assert parked.parse(5, NOON, lowered, b"", 0) is None


def test_a_damaged_answer_costs_no_event() -> None:
    made = parked.parked_message(message(), FAILED, "no", BILLING)
    lowered = {name.lower(): value for name, value in made.headers.items()} | {"headrace-answer": "\udcffno base64"}
    found = parked.parse(5, NOON, lowered, made.data, 4)
    assert found is not None
    assert (found.answer, found.event.id) == (b"", "1")


UNWRITABLE = {
    "foo bar": "x",
    "caf\u00e9": "x",
    "tab\there": "x",
    "cr": "a\rb",
    "lf": "a\nb",
    "half": "\ud800",
}


def test_headers_that_no_line_can_carry_are_left_out_and_counted() -> None:
    event = {**EVENT, "ce-note": "\udcff"}
    found = kept({**event, **UNWRITABLE})
    assert found.headers == event
    assert found.dropped == 6


@given(
    st.dictionaries(st.text() | st.sampled_from(sorted(UNWRITABLE)), st.text() | st.sampled_from(["a\nb", "\udc80"])),
    st.text(),
    st.text(),
)
def test_any_message_can_be_kept_aside(headers: dict[str, str], words: str, name: str) -> None:
    record = replace(FAILED, failure=StageFailure(words, 500))
    made = parked.parked_message(message(headers), record, words, replace(BILLING, name=name))
    assert nats_codec.encoded(made).data == b"data"


def test_a_subject_with_a_nul_is_told_without_it() -> None:
    made = parked.parked_message(message()._replace(subject="shop.a\0b"), FAILED, "gave up", BILLING)
    assert b"\0" not in nats_codec.encoded(made).block
    assert made.headers["Headrace-Origin-Subject"] == "shop.a\ufffdb"


def test_a_parked_event_tells_no_query() -> None:
    record = replace(FAILED, failure=StageFailure("http://billing/hook?token=secret#x", 503))
    made = parked.parked_message(message(), record, "no", BILLING)
    assert made.headers["Headrace-Destination"] == "http://billing/hook"


def test_a_strangers_message_is_no_parked_event() -> None:
    assert parked.parse(5, NOON, {"ce-id": "1"}, b"", 0) is None


@pytest.mark.parametrize(
    ("wanted", "meant"),
    [
        (ParkedFilter(), True),
        (ParkedFilter(subscription="money/billing"), True),
        (ParkedFilter(subscription="shop/billing"), False),
        (ParkedFilter(since=NOON), True),
        (ParkedFilter(since=NOON + timedelta(seconds=1)), False),
        (ParkedFilter(until=NOON), True),
        (ParkedFilter(until=NOON - timedelta(seconds=1)), False),
        (ParkedFilter(reason="STATUS 503"), True),
        (ParkedFilter(reason="status 404"), False),
        (ParkedFilter(subscription="money/billing", reason="404"), False),
    ],
)
def test_what_is_wanted(wanted: ParkedFilter, meant: bool) -> None:
    assert wanted.matches(kept()) is meant


# ── replays ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_replay_is_the_event_under_an_id_of_its_own() -> None:
    message = parked.replay(kept(), "monday", "shop.others._knative")
    assert message.subject == "shop.others._knative"
    assert message.headers == {**EVENT, "Nats-Msg-Id": f"{msg_id('/s', '1')}:replay:monday:5"}
    assert message.data == b"data"


def test_a_replay_for_its_subscriber_says_so_and_goes_where_it_came_from() -> None:
    message = parked.replay_for(kept(), "monday", "KN_SUB_U")
    assert message.subject == "shop.orders._knative"
    assert message.headers["Headrace-Only"] == "KN_SUB_U"
    assert message.headers["Nats-Expected-Stream"] == "KN_SHOP__ORDERS"


def test_one_run_replays_what_two_subscribers_did_not_take() -> None:
    mine, theirs = kept(), replace(kept(), position=6, consumer="KN_SUB_V")
    ids = {parked.replay(each, "monday", "s").headers["Nats-Msg-Id"] for each in (mine, theirs)}
    assert len(ids) == 2


def test_foreign_bytes_keep_the_identity_that_their_place_gave_them() -> None:
    message = parked.replay(kept({"content-type": "text/plain", "traceparent": "00-1"}), "monday", "s.o._knative")
    told = {name: value for name, value in message.headers.items() if name != "Nats-Msg-Id"}
    assert told == {
        "ce-specversion": "1.0",
        "ce-id": "KN_SHOP__ORDERS:7",
        "ce-source": "nats:KN_SHOP__ORDERS",
        "ce-type": "headrace.foreign",
        "ce-subject": "shop.orders._knative",
        "content-type": "text/plain",
        "traceparent": "00-1",
    }


def test_a_faulty_event_is_replayed_as_it_is() -> None:
    message = parked.replay(kept({"ce-specversion": "1.0"}), "monday", "s")
    assert {name for name in message.headers if name != "Nats-Msg-Id"} == {"ce-specversion"}


@pytest.mark.parametrize(
    ("only", "for_another"),
    [(None, False), ("KN_SUB_U", False), ("KN_SUB_V", True)],
)
def test_whom_a_message_is_for(only: str | None, for_another: bool) -> None:
    headers = EVENT if only is None else {**EVENT, "headrace-only": only}
    assert parked.is_for_another(message(headers)) is for_another
