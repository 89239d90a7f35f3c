"""How an HTTP answer is read, and how a stage record is read back."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import MappingProxyType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.delivery import delivery, stage_record
from headrace.core.delivery.stage_record import Attempts, Stage, StageFailure, StageRecord
from headrace.core.event import http_codec
from headrace.core.event.event import Event, is_value
from headrace.core.http import HttpAnswer
from headrace.core.nats import jetstream

NOW = datetime(2026, 11, 28, 12, 0, 0, tzinfo=UTC)
EVENT = Event(MappingProxyType({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}), b"data")
REPLY = (
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"1"),
    (b"ce-source", b"/s"),
    (b"ce-type", b"t"),
    (b"x-request-id", b"9"),
    (b"server", b"x"),
)


class TestReadAnswer:
    def test_a_binary_event_is_a_reply_with_its_pass_through_headers(self) -> None:
        answer = delivery.read_answer(HttpAnswer(200, REPLY, b"data"), NOW, replies=True)
        assert answer.reply == EVENT
        assert answer.reply_headers == ((b"x-request-id", b"9"),)

    def test_an_event_that_was_cut_off_is_no_reply_but_too_large_a_one(self) -> None:
        answer = delivery.read_answer(HttpAnswer(200, REPLY, b"da", truncated=True), NOW, replies=True)
        assert (answer.reply, answer.unfit) == (None, (413, "the reply event is larger than we read"))

    @pytest.mark.parametrize(
        "header",
        [
            (b"content-encoding", b"gzip"),
            (b"content-encoding", b"identity, br"),
            (b"transfer-encoding", b"gzip, chunked"),
        ],
    )
    def test_an_event_that_is_compressed_is_refused_with_its_label(self, header: tuple[bytes, bytes]) -> None:
        answer = delivery.read_answer(HttpAnswer(200, (*REPLY, header), b"\x1f\x8b"), NOW, replies=True)
        words = f"the reply event is compressed ({header[0].decode()} '{header[1].decode()}'): answer with it as it is"
        assert (answer.reply, answer.unfit) == (None, (415, words))

    @pytest.mark.parametrize(
        "header",
        [
            (b"content-encoding", b"Identity"),
            (b"content-encoding", b""),
            (b"transfer-encoding", b"Chunked"),
            (b"vary", b"accept-encoding"),
        ],
    )
    def test_one_that_says_that_it_is_not_is_a_reply(self, header: tuple[bytes, bytes]) -> None:
        assert delivery.read_answer(HttpAnswer(200, (*REPLY, header), b"data"), NOW, replies=True).reply == EVENT

    def test_what_is_compressed_and_no_event_is_no_reply(self) -> None:
        html = ((b"content-type", b"text/html"), (b"content-encoding", b"gzip"))
        answer = delivery.read_answer(HttpAnswer(200, html, b"\x1f\x8b"), NOW, replies=True)
        assert (answer.reply, answer.unfit) == (None, None)

    @pytest.mark.parametrize(
        "answer",
        [
            pytest.param(HttpAnswer(200, ((b"content-type", b"text/html"),), b"<html>"), id="HTML"),
            pytest.param(HttpAnswer(200, ((b"ce-specversion", b"1.0"),), b""), id="an event without id"),
            pytest.param(
                HttpAnswer(200, ((b"content-type", b"application/cloudevents+json"),), b"{"), id="broken JSON"
            ),
            pytest.param(HttpAnswer(200), id="nothing"),
        ],
    )
    def test_what_is_no_event_is_no_reply(self, answer: HttpAnswer) -> None:
        assert delivery.read_answer(answer, NOW, replies=True).reply is None

    @pytest.mark.parametrize(
        ("status", "replies"),
        [
            pytest.param(200, False, id="there is no reply address"),
            pytest.param(202, True, id="a 202 carries no reply"),
            pytest.param(500, True, id="an error carries no reply"),
        ],
    )
    def test_an_event_that_nobody_wants_is_not_even_read(self, status: int, replies: bool) -> None:
        answer = delivery.read_answer(HttpAnswer(status, REPLY, b"data", truncated=True), NOW, replies=replies)
        assert (answer.reply, answer.unfit) == (None, None)

    @pytest.mark.parametrize(
        ("status", "asked"),
        [(429, timedelta(seconds=7)), (503, timedelta(seconds=7)), (200, None), (301, None), (500, None)],
    )
    def test_who_may_ask_for_patience(self, status: int, asked: timedelta | None) -> None:
        answer = delivery.read_answer(HttpAnswer(status, ((b"retry-after", b"7"),)), NOW, replies=True)
        assert answer.retry_after == asked

    def test_an_error_tells_no_more_of_an_address_than_its_host(self) -> None:
        failed = HttpAnswer(None, error="no way to http://billing/hook?token=secret")
        assert delivery.read_answer(failed, NOW, replies=True).error == "no way to http://billing"


DATES = st.from_regex(
    r"(Mon, )?[0-9]{1,30} (Jan|Feb|Xyz) [0-9]{1,30} [0-9]{1,3}:[0-9]{1,3}:[0-9]{1,30} ?(GMT|[+-][0-9]{0,30})?",
    fullmatch=True,
)


@given(st.text() | DATES)
def test_whatever_retry_after_says_it_is_a_wait_of_a_year_at_most_or_none(header: str) -> None:
    asked = delivery.retry_after(header, NOW)
    assert asked is None or timedelta() <= asked <= timedelta(days=365)


told = st.text().filter(is_value)
records = st.builds(
    StageRecord,
    stage=st.sampled_from(Stage),
    attempts=st.builds(Attempts, st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)),
    due=st.none() | st.floats(0, 2e9),
    failure=st.none() | st.builds(StageFailure, told, st.integers(0, 999), told),
    last=st.text(),
    reply=st.none() | st.just(EVENT),
    reply_headers=st.just(()) | st.just(((b"knative-x", b"\xff"),)),
)


@pytest.mark.parametrize(
    ("delay", "payload"),
    [
        (timedelta(), b"-NAK"),
        (timedelta(seconds=1), b'-NAK {"delay":1000000000}'),
        (timedelta(days=365 * 2000), b'-NAK {"delay":9223372036854775807}'),
    ],
)
def test_no_delay_is_longer_than_the_server_can_count(delay: timedelta, payload: bytes) -> None:
    assert jetstream.nak(delay) == payload


@given(records)
def test_a_stage_record_survives_the_stream(record: StageRecord) -> None:
    # What can't travel never gets into a record, and does not get out of one either.
    travels = http_codec.passthrough(record.reply_headers) if record.reply is not None else ()
    expected = replace(record, reply_headers=travels)
    assert stage_record.from_json(stage_record.to_json(record)) == expected


@given(st.binary() | st.sampled_from([b"{}", b"null", b"[]", b'{"v":1,"stage":"nowhere"}', b"[" * 100_000]))
def test_a_damaged_record_is_no_record(data: bytes) -> None:
    assert stage_record.from_json(data) is None
