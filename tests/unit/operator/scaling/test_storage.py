"""Ages, streams and aside streams: the questions to JetStream, their time, and the metrics from its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from headrace.core import metric_families as families
from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.stored_message import nanoseconds
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.process import clock
from headrace_operator.channels.hook_calls import HookCalls
from headrace_operator.scaling import storage
from headrace_operator.scaling.storage import MOST_COUNTED, STALE_SECONDS, Storage
from tests.support.waiting import until

NOON = nanoseconds("2026-11-28T12:00:00Z") / 1e9
METADATA = {"headrace.dev/namespace": "shop", "headrace.dev/channel": "orders"}
ROW = {"namespace": "shop", "channel": "orders", "subscription": "billing", "pending": 1, "ack_pending": 0}
SHOP, BILLING = ("shop", "orders"), ("shop", "orders", "billing")


def stream(
    messages: int = 3, size: int = 300, subjects: Mapping[str, int] | None = None, **config: Any
) -> dict[str, Any]:
    state: dict[str, Any] = {"messages": messages, "bytes": size}
    return {"config": {"metadata": METADATA, **config}, "state": state | ({"subjects": subjects} if subjects else {})}


@pytest.fixture(autouse=True)
def _it_is_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wall", lambda: NOON)


class Answers(JetStreamApi):
    """Answers by the question; what is not among them does not exist, and an error is raised."""

    def __init__(self, **answers: object) -> None:
        self.answers = answers
        self.asked: list[tuple[str, Mapping[str, Any] | None]] = []

    async def find(
        self, subject: str, body: Mapping[str, Any] | None = None, *, timeout: float = 5.0
    ) -> dict[str, Any] | None:
        del timeout
        self.asked.append((subject, body))
        answer = self.answers.get(subject.replace(".", "_"))
        if isinstance(answer, Exception):
            raise answer
        assert answer is None or isinstance(answer, dict)
        return answer


def reading(api: Answers, rows: Mapping[str, Mapping[str, Any]] | None = None) -> Storage:
    return Storage(api, lambda: ["S"], lambda: rows or {})


async def told(api: Answers, rows: Mapping[str, Mapping[str, Any]] | None = None) -> dict[str, Mapping[Any, float]]:
    found = reading(api, rows)
    await found.refresh()
    return {family.name: values for family, values in found.latest().items()}


async def test_limits_are_told_where_there_are_any() -> None:
    api = Answers(STREAM_INFO_S=stream(max_bytes=1000, max_msgs=-1), STREAM_INFO_S_aside=stream(0, 0))
    assert await told(api) == {
        "headrace_stream_messages": {SHOP: 3},
        "headrace_stream_bytes": {SHOP: 300},
        "headrace_stream_max_bytes": {SHOP: 1000},
        "headrace_parked_events": {SHOP: 0},
        "headrace_aside_messages": {SHOP: 0},
        "headrace_aside_bytes": {SHOP: 0},
        "headrace_storage_read_timestamp_seconds": {(): NOON},
    }


async def test_parked_events_are_counted_by_subject_unless_they_are_too_many() -> None:
    parked = {"shop.orders._knative_aside.parked.C.1.1": 1}
    few = await told(Answers(STREAM_INFO_S=stream(), STREAM_INFO_S_aside=stream(5, subjects=parked)))
    assert few["headrace_parked_events"] == {SHOP: 1}
    api = Answers(STREAM_INFO_S=stream(), STREAM_INFO_S_aside=stream(MOST_COUNTED + 1))
    assert (await told(api))["headrace_parked_events"] == {SHOP: MOST_COUNTED + 1}
    assert all(body is None for _, body in api.asked)


async def test_a_stream_that_others_have_made_is_named_as_it_can_be() -> None:
    named = stream() | {"config": {}}
    found = Storage(
        Answers(STREAM_INFO_KN_SHOP__ORDERS=named, STREAM_INFO_X=named), lambda: ["KN_SHOP__ORDERS", "X"], dict
    )
    await found.refresh()
    assert found.latest()[families.STREAM_MESSAGES] == {SHOP: 3, ("", "X"): 3}


async def test_the_age_is_that_of_the_first_event_behind_the_floor() -> None:
    api = Answers(
        CONSUMER_INFO_S_C={"ack_floor": {"stream_seq": 41}, "config": {"filter_subject": "shop.orders._knative"}},
        STREAM_MSG_GET_S={"message": {"time": "2026-11-28T11:59:00Z"}},
    )
    assert (await told(api, {"S/C": ROW}))["headrace_consumer_oldest_event_age_seconds"] == {BILLING: 60}
    assert api.asked[-1] == ("STREAM.MSG.GET.S", {"seq": 42, "next_by_subj": "shop.orders._knative"})


async def test_where_all_is_settled_nobody_is_asked() -> None:
    api = Answers()
    found = await told(api, {"S/C": {**ROW, "pending": 0}})
    assert found["headrace_consumer_oldest_event_age_seconds"] == {BILLING: 0}
    assert [subject for subject, _ in api.asked] == ["STREAM.INFO.S"]


async def test_a_question_that_is_refused_hides_no_other() -> None:
    api = Answers(STREAM_INFO_S=Refused("no", status=403), CONSUMER_INFO_S_C={"strange": True})
    assert await told(api, {"S/C": ROW}) == {"headrace_storage_read_timestamp_seconds": {(): NOON}}


async def test_while_nats_is_away_the_time_of_the_last_whole_reading_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Answers(STREAM_INFO_S=stream())
    found = Storage(api, lambda: ["S"] * 50, dict)
    await found.refresh()
    api.answers, api.asked = {"STREAM_INFO_S": Unavailable("away")}, []
    monkeypatch.setattr(clock, "wall", lambda: NOON + 100)
    await found.refresh()
    assert found.latest() == {families.STORAGE_READ: {(): NOON}}
    # Not fifty time-outs, one after the other.
    assert len(api.asked) <= storage.AT_ONCE
    monkeypatch.setattr(clock, "wall", lambda: NOON + 100 + STALE_SECONDS)
    assert found.latest() == {}


async def test_it_is_read_only_when_somebody_has_asked() -> None:
    api = Answers(STREAM_INFO_S=stream())
    found = reading(api)
    running = asyncio.create_task(found.run())
    try:
        await asyncio.sleep(0.02)
        assert api.asked == []
        assert found.latest() == {}
        await until("it is read", lambda: bool(found.latest()))
    finally:
        running.cancel()


def test_calls_of_reconcile_are_told_by_how_they_ended() -> None:
    calls = HookCalls()
    with calls.timed("sync"):
        pass
    for error in (Unavailable("away"), Refused("no", status=401), asyncio.CancelledError()):
        with pytest.raises(type(error)), calls.timed("sync"):
            raise error
    assert {labels: sum(timings.counts) for labels, timings in calls.timings.items()} == {
        ("sync", "ok"): 1,
        ("sync", "unavailable"): 1,
        ("sync", "refused"): 1,
    }
