"""The delivery decision, row by row (Knative data plane, table of response codes; ADR 007 and 012)."""

from __future__ import annotations

import base64
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest

from headrace.core.delivery import delivery, stage_record
from headrace.core.delivery.delivery import Ack, Answer, DeadLetter, Nak, Park, Reply
from headrace.core.delivery.stage_record import Attempts, Stage, StageFailure, StageRecord
from headrace.core.delivery.subscriber import BackoffPolicy, DeliveryPolicy, Destination, Subscriber
from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event.event import Event
from headrace.core.http import HttpAnswer

SUBSCRIBER = "http://subscriber.example/"
REPLY = "http://reply.example/"
SINK = "http://sink.example/"
SECOND = timedelta(seconds=1)
NOW = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)
EVENT = Event(MappingProxyType({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}), b"data")


def subscriber(*, retry: int = 0, reply: bool = False, sink: bool = False, **policy: object) -> Subscriber:
    return Subscriber(
        namespace="default",
        channel="orders",
        name="sub",
        uid="u",
        generation=1,
        aside="KN_DEFAULT__ORDERS_aside",
        subscriber=Destination(SUBSCRIBER),
        reply=Destination(REPLY) if reply else None,
        dead_letter=Destination(SINK) if sink else None,
        policy=DeliveryPolicy(retry=retry, backoff_delay=SECOND, **policy),  # type: ignore[arg-type]  # fields of the policy, by name
    )


@pytest.mark.parametrize(
    ("status", "retried"),
    [
        pytest.param(None, True, id="silence counts as overload"),
        *[pytest.param(status, False, id=f"{status} is final") for status in (100, 101, 199, 300, 301, 307, 399)],
        *[pytest.param(status, False, id=f"{status} blames the event") for status in (400, 401, 403, 405, 410, 413)],
        *[pytest.param(status, False, id=f"{status} blames the event") for status in (422, 425, 431, 499)],
        *[pytest.param(status, True, id=f"{status} may pass") for status in (404, 408, 409, 429)],
        *[pytest.param(status, True, id=f"{status} is the server's trouble") for status in (500, 501, 503, 504, 599)],
        pytest.param(600, True, id="a status outside the table is retried"),
    ],
)
def test_which_answers_are_worth_another_try(status: int | None, retried: bool) -> None:
    decision = delivery.decide(StageRecord(), Answer(status), subscriber(retry=1, sink=True))
    assert isinstance(decision, Nak if retried else DeadLetter)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_completes_the_delivery(status: int) -> None:
    assert isinstance(delivery.decide(StageRecord(), Answer(status), subscriber(retry=3, sink=True)), Ack)


@pytest.mark.parametrize(
    ("policy", "waits"),
    [
        pytest.param(BackoffPolicy.LINEAR, [1, 2, 3, 4], id="linear: delay x k"),
        pytest.param(BackoffPolicy.EXPONENTIAL, [1, 2, 4, 8], id="exponential: delay x 2^(k-1)"),
    ],
)
def test_the_back_off_before_each_retry(policy: BackoffPolicy, waits: list[int]) -> None:
    whom = subscriber(retry=4, backoff_policy=policy)
    record, seen = StageRecord(), []
    for _ in waits:
        decision = delivery.decide(record, Answer(503), whom)
        assert isinstance(decision, Nak)
        seen.append(decision.delay)
        record = decision.record
    assert seen == [timedelta(seconds=wait) for wait in waits]
    assert isinstance(delivery.decide(record, Answer(503), whom), Park)


STALE = Answer(None, error="the server closed the connection without an answer", stale=True)


def test_no_stage_ends_with_an_attempt_that_may_never_have_been_read_but_each_one_counts() -> None:
    whom, silence = subscriber(retry=2, backoff_policy=BackoffPolicy.LINEAR), Answer(None)
    for answers, tries in (
        ((silence, silence, silence), 3),
        ((STALE, silence, silence), 3),
        ((silence, silence, STALE, silence), 4),
        ((STALE,) * 4, 4),
    ):
        record, decisions = StageRecord(), []
        for answer in answers:
            decisions.append(delivery.decide(record, answer, whom))
            record = decisions[-1].record
        assert [type(decision) for decision in decisions] == [Nak] * (tries - 1) + [Park]
        # Never at once, and never later than the policy's longest wait, beyond which no due time is believed.
        waits = [decision.delay for decision in decisions if isinstance(decision, Nak)]
        assert waits == [SECOND, 2 * SECOND, 2 * SECOND][: tries - 1]


def test_no_retry_count_overflows_a_time_span() -> None:
    assert DeliveryPolicy(retry=10**6, backoff_delay=SECOND).wait(10**6) == timedelta(hours=24)


@pytest.mark.parametrize(
    ("status", "asked", "cap", "wait"),
    [
        pytest.param(503, 10, 300, 10, id="503: what it asks for, when longer than the back-off"),
        pytest.param(429, 10, 300, 10, id="429 likewise"),
        pytest.param(503, 0, 300, 1, id="never shorter than the back-off"),
        pytest.param(503, 1000, 300, 300, id="at most retryAfterMax"),
        pytest.param(503, 10, 0, 1, id="retryAfterMax of zero ignores the header"),
        pytest.param(500, 10, 300, 1, id="only 429 and 503 may ask"),
    ],
)
def test_retry_after(status: int, asked: int, cap: int, wait: int) -> None:
    whom = subscriber(retry=1, retry_after_max=timedelta(seconds=cap))
    decision = delivery.decide(StageRecord(), Answer(status, retry_after=timedelta(seconds=asked)), whom)
    assert isinstance(decision, Nak)
    assert decision.delay == timedelta(seconds=wait)


YEAR = timedelta(days=365)


@pytest.mark.parametrize(
    ("header", "means"),
    [
        pytest.param("120", timedelta(seconds=120), id="seconds"),
        pytest.param(" 7 ", timedelta(seconds=7), id="blanks around"),
        pytest.param("00000000000000000001", timedelta(seconds=1), id="a number with leading zeros"),
        pytest.param("0" * 400, timedelta(), id="nothing but zeros"),
        pytest.param("Sat, 28 Nov 2026 12:00:30 GMT", timedelta(seconds=30), id="a date"),
        pytest.param(
            "Sat Nov 28 12:00:30 2026", timedelta(seconds=30), id="a date in the oldest format, which has no zone"
        ),
        pytest.param("Saturday, 28-Nov-26 12:00:30 GMT", timedelta(seconds=30), id="a date in the old format"),
        pytest.param("Sat, 28 Nov 2026 11:00:00 GMT", timedelta(), id="a date in the past is now"),
        pytest.param("soon", None, id="words"),
        pytest.param("-5", None, id="negative"),
        pytest.param("1.5", None, id="fractions"),
        pytest.param("", None, id="empty"),
        pytest.param("9" * 400, YEAR, id="absurdly long"),
        pytest.param("10000000", timedelta(seconds=10_000_000), id="months"),
        pytest.param("99999999", YEAR, id="longer than a year"),
        pytest.param("Fri, 31 Dec 9999 23:59:59 GMT", YEAR, id="a date at the end of time"),
        pytest.param("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None, id="a year that no calendar has"),
        pytest.param("Sat, 28 Nov 2026 12:00:30 +999999999999999999", None, id="a zone that no map has"),
        pytest.param("\N{ARABIC-INDIC DIGIT FIVE}", None, id="digits of other scripts"),
    ],
)
def test_reading_retry_after(header: str, means: timedelta | None) -> None:
    assert delivery.retry_after(header, NOW) == means


@pytest.mark.parametrize("header", ["9" * 20, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_an_absurd_wait_is_five_minutes_where_nothing_else_is_said(header: str) -> None:
    asked = delivery.retry_after(header, NOW)
    decision = delivery.decide(StageRecord(), Answer(503, retry_after=asked), subscriber(retry=1))
    assert isinstance(decision, Nak)
    assert decision.delay == timedelta(minutes=5)


class TestReply:
    def test_an_event_in_the_answer_goes_to_the_reply_address(self) -> None:
        answer = Answer(200, reply=EVENT, reply_headers=((b"x-request-id", b"7"),))
        decision = delivery.decide(StageRecord(), answer, subscriber(reply=True))
        assert decision == Reply(StageRecord(Stage.REPLY, reply=EVENT, reply_headers=((b"x-request-id", b"7"),)))

    @pytest.mark.parametrize(
        ("answer", "reply"),
        [
            pytest.param(Answer(202, reply=EVENT), True, id="whatever a 202 carries is no reply"),
            pytest.param(Answer(200), True, id="no event, no reply"),
            pytest.param(Answer(200, reply=EVENT), False, id="no reply address: the answer is dropped"),
        ],
    )
    def test_nothing_to_reply(self, answer: Answer, reply: bool) -> None:
        assert isinstance(delivery.decide(StageRecord(), answer, subscriber(reply=reply)), Ack)

    def test_its_failures_have_a_budget_of_their_own(self) -> None:
        record = StageRecord(Stage.REPLY, Attempts(subscriber=1), reply=EVENT)
        decision = delivery.decide(record, Answer(503), subscriber(retry=1, reply=True))
        assert isinstance(decision, Nak)
        assert decision.record.attempts == Attempts(subscriber=1, reply=1)
        assert decision.record.stage is Stage.REPLY
        assert decision.record.reply == EVENT

    def test_when_it_fails_for_good_the_sink_is_told_its_address(self) -> None:
        decision = delivery.decide(
            StageRecord(Stage.REPLY, reply=EVENT), Answer(400, body=b"no"), subscriber(reply=True, sink=True)
        )
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure == StageFailure(REPLY, 400, "bm8=")

    def test_a_reply_larger_than_we_read_is_a_failed_reply(self) -> None:
        answer = Answer(200, unfit=(413, "too large"))
        decision = delivery.decide(StageRecord(), answer, subscriber(retry=5, reply=True, sink=True))
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure == StageFailure(REPLY, 413, "dG9vIGxhcmdl")

    def test_a_reply_larger_than_we_read_is_parked_as_a_reply_so_that_its_subscriber_is_not_called_again(self) -> None:
        decision = delivery.decide(
            StageRecord(), Answer(200, unfit=(413, "too large")), subscriber(retry=5, reply=True)
        )
        assert isinstance(decision, Park)
        assert decision.record.stage is Stage.REPLY

    def test_a_subscriber_with_only_a_reply_address_begins_there(self) -> None:
        whom = replace(subscriber(reply=True), subscriber=None)
        assert delivery.begin(whom) == StageRecord(Stage.REPLY)


class TestDeadLetter:
    def test_exhausted_retries_go_to_the_sink(self) -> None:
        record = StageRecord(attempts=Attempts(subscriber=3))
        decision = delivery.decide(record, Answer(503, body=b"busy"), subscriber(retry=3, sink=True))
        assert isinstance(decision, DeadLetter)
        assert decision.record.stage is Stage.DEAD_LETTER
        assert decision.record.failure == StageFailure(SUBSCRIBER, 503, "YnVzeQ==")

    def test_the_failure_tells_what_the_answer_says_that_it_is(self) -> None:
        answered = HttpAnswer(400, ((b"content-type", b"text/html; charset=\xff\r\n" + b"x" * 200),), b"<p>no</p>")
        answer = delivery.read_answer(answered, NOW, replies=False)
        decision = delivery.decide(StageRecord(), answer, subscriber(sink=True))
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure is not None
        assert decision.record.failure.content_type == "text/html; charset=???" + "x" * 106
        assert set(decision.record.failure.extensions()) == {"knativeerrordest", "knativeerrorcode", "knativeerrordata"}

    def test_the_sink_is_told_of_the_subscriber_behind_a_brokers_filter(self) -> None:
        filter_ = "http://broker-filter.knative-eventing.svc.cluster.local/triggers/shop/t/uid"
        whom = replace(subscriber(sink=True), subscriber=Destination(filter_))
        body = b'{"errdestination": "http://orders.shop.svc.cluster.local", "errresponsebody": "bm8="}'
        decision = delivery.decide(StageRecord(), Answer(422, body=body, content_type="text/plain"), whom)
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure == StageFailure("http://orders.shop.svc.cluster.local", 422, "bm8=")

    @pytest.mark.parametrize(
        ("address", "body"),
        [
            pytest.param(SUBSCRIBER, b'{"errdestination": "http://other.example"}', id="no filter"),
            pytest.param("http://broker-filter.ns.svc.cluster.local", b"no JSON", id="no JSON"),
            pytest.param("http://broker-filter.ns.svc.cluster.local", b"[]", id="no object"),
            pytest.param("http://broker-filter.ns.svc.cluster.local", b'{"errdestination": 1}', id="no text"),
            pytest.param("http://broker-filter.ns.svc.cluster.local", b'{"errdestination": "x:\xff"}', id="no UTF-8"),
            pytest.param(
                "http://broker-filter.ns.svc.cluster.local",
                b'{"errdestination": "http://a.example", "errresponsebody": "no base64"}',
                id="no base64",
            ),
        ],
    )
    def test_other_answers_are_told_as_they_are(self, address: str, body: bytes) -> None:
        whom = replace(subscriber(sink=True), subscriber=Destination(address))
        decision = delivery.decide(StageRecord(), Answer(400, body=body), whom)
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure == StageFailure(address, 400, base64.b64encode(body).decode())

    def test_where_answers_are_not_told_the_status_stays_and_the_rest_goes(self) -> None:
        whom = replace(subscriber(sink=True), error_data=False)
        decision = delivery.decide(StageRecord(), Answer(400, body=b"secret", content_type="text/secret"), whom)
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure == StageFailure(SUBSCRIBER, 400)
        assert decision.record.last == "subscriber gave status 400 on attempt 1"

    def test_where_answers_are_not_told_no_answer_is_one_like_another(self) -> None:
        whom = replace(subscriber(), error_data=False)
        decision = delivery.decide(StageRecord(), Answer(None, error="connection refused"), whom)
        assert isinstance(decision, Park)
        data = base64.b64encode(b"dispatch error: no answer").decode()
        assert decision.record.failure == StageFailure(SUBSCRIBER, 500, data, answered=False)
        assert decision.reason == "no dead letter sink, and subscriber failed (no answer) on attempt 1"

    def test_where_answers_are_not_told_the_sink_still_hears_which_triggers_subscriber_failed(self) -> None:
        filter_ = "http://broker-filter.knative-eventing.svc.cluster.local/triggers/shop/t/uid"
        whom = replace(subscriber(sink=True), subscriber=Destination(filter_), error_data=False)
        body = b'{"errdestination": "http://orders.shop.svc.cluster.local", "errresponsebody": "bm8="}'
        decision = delivery.decide(StageRecord(), Answer(422, body=body), whom)
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure == StageFailure("http://orders.shop.svc.cluster.local", 422)

    def test_without_a_sink_the_event_is_parked_with_the_reason(self) -> None:
        decision = delivery.decide(StageRecord(), Answer(400), subscriber())
        assert isinstance(decision, Park)
        assert decision.reason == "no dead letter sink, and subscriber gave status 400 on attempt 1"

    def test_a_failing_sink_has_its_own_budget_and_keeps_the_first_failure(self) -> None:
        first = StageFailure(SUBSCRIBER, 400, "bm8=")
        record = StageRecord(Stage.DEAD_LETTER, Attempts(subscriber=1), failure=first)
        decision = delivery.decide(record, Answer(503), subscriber(retry=1, sink=True))
        assert isinstance(decision, Nak)
        assert decision.record.failure == first
        last = delivery.decide(decision.record, Answer(503), subscriber(retry=1, sink=True))
        assert isinstance(last, Park)
        assert last.reason == "dead letter sink gave status 503 on attempt 2"

    def test_a_sink_that_gives_no_answer_is_named_once(self) -> None:
        record = StageRecord(Stage.DEAD_LETTER, Attempts(subscriber=1))
        parked = delivery.decide(record, Answer(None, error="can't connect"), subscriber(retry=0, sink=True))
        assert isinstance(parked, Park)
        assert parked.reason == "dead letter sink failed (can't connect) on attempt 1"

    def test_a_sink_that_was_taken_away_is_not_blamed(self) -> None:
        record = StageRecord(Stage.DEAD_LETTER, Attempts(subscriber=1), last="subscriber gave status 400 on attempt 1")
        parked = delivery.give_up(record, subscriber(sink=False))
        assert isinstance(parked, Park)
        assert parked.reason == "no dead letter sink, and subscriber gave status 400 on attempt 1"

    @pytest.mark.parametrize(
        ("size", "characters"),
        [(0, 0), (1, 4), (767, 1024), (768, 1024), (769, 1024), (1024 * 1024, 1024)],
    )
    def test_error_data_is_at_most_1024_characters_of_valid_base64(self, size: int, characters: int) -> None:
        body = bytes(number % 256 for number in range(size))
        decision = delivery.decide(StageRecord(), Answer(400, body=body), subscriber(sink=True))
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure is not None
        data = decision.record.failure.data
        assert len(data) == characters
        assert base64.b64decode(data, validate=True) == body[:768]

    def test_no_answer_is_told_as_500_with_the_error(self) -> None:
        decision = delivery.decide(StageRecord(), Answer(None, error="connection refused"), subscriber(sink=True))
        assert isinstance(decision, DeadLetter)
        assert decision.record.failure is not None
        assert decision.record.failure.extensions() == {
            "knativeerrordest": SUBSCRIBER,
            "knativeerrorcode": "500",
            "knativeerrordata": base64.b64encode(b"dispatch error: connection refused").decode(),
        }

    @pytest.mark.parametrize(
        ("answer", "answered"),
        [
            pytest.param(Answer(None, error="connection refused"), False, id="silence"),
            pytest.param(Answer(500, body=b"dispatch error: connection refused"), True, id="what sounds like it"),
        ],
    )
    def test_a_record_tells_silence_from_what_sounds_like_it(self, answer: Answer, answered: bool) -> None:
        decision = delivery.decide(StageRecord(), answer, subscriber(retry=1))
        assert isinstance(decision, Nak)
        kept = stage_record.from_json(stage_record.to_json(decision.record))
        assert kept is not None
        assert kept.failure is not None
        assert (kept.failure.code, kept.failure.answered) == (500, answered)

    def test_an_empty_body_leaves_the_data_extension_out(self) -> None:
        assert StageFailure(SUBSCRIBER, 404).extensions() == {
            "knativeerrordest": SUBSCRIBER,
            "knativeerrorcode": "404",
        }


def test_a_faulty_message_is_judged_without_quoting_it() -> None:
    error = InvalidEvent(Fault("id", "is 'secret': …"))
    record = delivery.invalid(SUBSCRIBER, error, StageRecord())
    assert "secret" not in record.last
    assert record.failure is not None
    assert record.failure.code == 400
