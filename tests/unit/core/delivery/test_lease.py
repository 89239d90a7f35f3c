"""The arguments of a lease and its answer."""

from __future__ import annotations

import json
from collections.abc import MutableMapping
from typing import Any

import pytest

from headrace.core.delivery import lease
from headrace.core.delivery.lease import Lease, LeaseAnswer, LeaseFailure, Outcome, Tally
from headrace.core.errors import InvalidSpec, Unavailable
from headrace.core.http import Response
from headrace.io import web


def read(**body: Any) -> Lease:
    return lease.parse_request(json.dumps(body).encode(), max_in_flight=100, max_bytes=1000)


def test_what_is_left_out_has_its_default() -> None:
    assert read(stream="S", consumer="C") == Lease("S", "C", 20.0, 2.0, 100, 1000)


def test_a_lease_is_clamped_to_what_the_process_allows() -> None:
    asked = read(stream="S", consumer="C", seconds=600, linger=600, max_in_flight=1_000_000)
    assert asked == Lease("S", "C", 25.0, 10.0, 100, 1000)


def test_a_lease_request_survives_the_wire() -> None:
    asked = Lease("S", "C", 5.0, 1.0, 7, 1000)
    assert read(**asked.to_json()) == asked


@pytest.mark.parametrize(
    ("body", "field"),
    [
        pytest.param({}, "stream", id="no stream"),
        pytest.param({"stream": "S"}, "consumer", id="no consumer"),
        pytest.param({"stream": "S.>", "consumer": "C"}, "stream", id="a name with wildcards"),
        pytest.param({"stream": "S", "consumer": "C\r\nPUB x 0"}, "consumer", id="a name that smuggles"),
        pytest.param({"stream": "S", "consumer": 7}, "consumer", id="a number for a name"),
        pytest.param({"stream": "S" * 256, "consumer": "C"}, "stream", id="an endless name"),
        pytest.param({"stream": "S", "consumer": "C", "seconds": "20"}, "seconds", id="text for a number"),
        pytest.param({"stream": "S", "consumer": "C", "seconds": -1}, "seconds", id="negative seconds"),
        pytest.param({"stream": "S", "consumer": "C", "linger": True}, "linger", id="a boolean for a number"),
        pytest.param({"stream": "S", "consumer": "C", "linger": float("nan")}, "linger", id="not a number"),
        pytest.param({"stream": "S", "consumer": "C", "linger": []}, "linger", id="a list for a number"),
        pytest.param({"stream": "S", "consumer": "C", "seconds": float("inf")}, "seconds", id="for ever"),
    ],
)
def test_a_wrong_argument_is_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        read(**body)
    assert refused.value.field == field


def test_a_number_larger_than_any_float_is_clamped_like_others() -> None:
    asked = read(stream="S", consumer="C", seconds=10**400, linger=10**400, max_in_flight=10**400)
    assert asked == Lease("S", "C", 25.0, 10.0, 100, 1000)


@pytest.mark.parametrize(
    ("asked", "told_every"), [(0, 0.0), (1e-300, 0.1), (0.05, 0.1), (2, 2.0), (1e9, 25.0), (10**400, 25.0)]
)
def test_what_a_lease_has_done_is_told_at_most_ten_times_a_second(asked: float, told_every: float) -> None:
    assert read(stream="S", consumer="C", progress_seconds=asked).progress_seconds == told_every


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidSpec) as refused:
        read(stream="S", consumer="C", seconds="x" * 60_000)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidSpec) as refused:
        lease.parse_request(body, max_in_flight=1, max_bytes=1)
    assert refused.value.field == "body"


def test_the_answer_tells_the_earliest_retry_that_is_still_due() -> None:
    tally = Tally()
    tally.count(Outcome.RETRIED)
    tally.due = {7: 1010.0, 9: 1005.5}
    answer = lease.answer(tally, pending=3, ack_pending=2, now=1000.0)
    assert answer.next_due_seconds == 5.5
    assert lease.read_answer(answer.to_json()) == answer
    assert answer.moved == 1


def test_a_retry_that_is_overdue_is_due_now() -> None:
    tally = Tally(due={1: 990.0})
    assert lease.answer(tally, pending=0, ack_pending=1, now=1000.0).next_due_seconds == 0.0


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        None,
        {"pending": "many", "ack_pending": 0, "next_due_seconds": None},
        {"pending": float("inf"), "ack_pending": 0, "next_due_seconds": None},
        {"pending": 0, "ack_pending": 0, "next_due_seconds": float("nan")},
        {"pending": 0, "ack_pending": 0, "next_due_seconds": 10**400},
        {"pending": 10**400, "ack_pending": 0, "next_due_seconds": None},
        {"pending": 0, "ack_pending": -1, "next_due_seconds": None},
        {"pending": 0, "ack_pending": 0, "next_due_seconds": None, "delivered": 10**400},
        {"pending": 0, "ack_pending": 0, "next_due_seconds": None, "delivered": 1.5},
    ],
)
def test_what_is_no_answer_of_a_lease_is_refused(body: Any) -> None:
    with pytest.raises(InvalidSpec):
        lease.read_answer(body)


def test_giving_back_is_not_work() -> None:
    assert LeaseAnswer({"returned": 5, "unsettled": 1}, 0, 0, None).moved == 0


def test_every_outcome_has_a_name_in_the_answer() -> None:
    assert [str(outcome) for outcome in Outcome] == [
        "delivered",
        "retried",
        "dead_lettered",
        "parked",
        "replied",
        "redelivered",
        "returned",
        "skipped",
        "postponed",
        "stuck",
        "unsettled",
        "discarded",
    ]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"so_far": {"delivered": 3}}', 3),
        (b'{"so_far": {}}', 0),
        (b'{"so_far": {"delivered": -1}}', None),
        (b'{"so_far": {"delivered": true}}', None),
        (b'{"so_far": {"delivered": 1e3}}', None),
        (b'{"so_far": {"delivered": "3"}}', None),
        (b'{"so_far": {"delivered": 99999999999999999999}}', None),
        (b'{"so_far": [3]}', None),
        (b'{"delivered": 3}', None),
        (b"[" * 100_000, None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_what_a_lease_has_done_so_far_is_read_or_nothing(line: bytes, told: int | None) -> None:
    news = lease.read_news(line)
    assert (news and news.counts and news.counts["delivered"]) == told


def test_a_line_of_counts_is_read_back() -> None:
    tally = Tally()
    tally.count(Outcome.DELIVERED, 2)
    news = lease.read_news(lease.so_far(tally))
    assert news == lease.News({str(outcome): tally.counts[outcome] for outcome in Outcome})
    assert lease.read_news(lease.ENDING_LINE) == lease.News(ending=True)


def test_what_waits_behind_a_lease_is_told_as_often_as_a_message_has_told_of_it() -> None:
    tally = Tally(latest="$JS.ACK.ORDERS.ours.1.7.9.1700000000000000000.1900")

    told = [lease.read_news(lease.so_far(tally)) for _ in range(2)]

    assert [news and news.pending for news in told] == [1900, None]


@pytest.mark.parametrize("pending", [b"-1", b"true", b"1e3", b'"3"', b"99999999999999999999", b"null"])
def test_what_waits_is_left_out_when_it_is_no_count(pending: bytes) -> None:
    news = lease.read_news(b'{"so_far": {"delivered": 3}, "pending": ' + pending + b"}")

    assert news is not None
    assert news.counts is not None
    assert (news.counts["delivered"], news.pending) == (3, None)


@pytest.mark.parametrize(
    ("body", "then"),
    [
        pytest.param(
            {"title": "Not available", "status": 503, "detail": "NATS is away", "retryAfter": 3},
            LeaseFailure(503, "NATS is away", 3.0),
            id="it may be better later",
        ),
        pytest.param(
            {"title": "Refused", "status": 409, "detail": "no", "retryAfter": "soon"},
            LeaseFailure(409, "no"),
            id="refused",
        ),
        pytest.param({"title": "Fine", "status": 200, "detail": "yes"}, None, id="no failure"),
        pytest.param({"title": "Not available", "status": "503", "detail": "x"}, None, id="no number"),
        pytest.param({"status": 503}, None, id="somebody else's"),
        pytest.param([503], None, id="no object"),
    ],
)
def test_a_failure_after_the_head_of_the_answer_is_read_from_its_body(body: Any, then: LeaseFailure | None) -> None:
    assert lease.read_failure(body) == then


async def test_an_answer_that_has_begun_ends_with_what_its_head_could_not_say() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def fails() -> Response:
        raise Unavailable("NATS is away", retry_after=3.0)

    early = web.Early(send)
    await early.begin()
    await web.answer(fails(), send, early=early)

    assert lease.read_failure(json.loads(sent[-1]["body"])) == LeaseFailure(503, "NATS is away", 3.0)
