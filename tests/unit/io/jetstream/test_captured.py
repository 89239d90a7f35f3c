"""How sparingly the server is asked whether a stream captures a subject."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, cast

import pytest

from headrace.core.errors import Refused, Unavailable
from headrace.io.jetstream import captured
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.captured import MOST_WAITING, PAUSE_FACTOR, Captured


class Api:
    """Answers each question after some time, and knows the streams that it is given."""

    def __init__(self, *subjects: str, seconds: float = 0.0) -> None:
        self.subjects = set(subjects)
        self.seconds = seconds
        self.asked: list[str] = []
        self.is_away = False
        self.under_way = self.most_under_way = 0

    async def call(self, _: str, body: Mapping[str, Any], **_timeout: float) -> dict[str, Any]:
        self.asked.append(body["subject"])
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        await asyncio.sleep(self.seconds)
        self.under_way -= 1
        if self.is_away:
            raise Unavailable("no answer")
        return {"streams": ["KN_S"] if body["subject"] in self.subjects else None}


async def status(one: Captured, subject: str, *, silent: bool = False) -> int:
    """Of the refusal; 0 for none."""
    try:
        await one.refuse_if_not(subject, 5.0, silent=silent)
    except Refused as error:
        return error.status
    return 0


def of(api: Api) -> Captured:
    return Captured(cast(JetStreamApi, api))


async def test_an_answer_counts_for_a_while_and_is_asked_for_again_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "REMEMBERED_SECONDS", 0.05)
    api = Api("there")
    one = of(api)
    assert [await status(one, "gone") for _ in range(5)] == [404] * 5
    assert one.refusal("gone") is not None
    assert [await status(one, "there") for _ in range(5)] == [0] * 5
    assert api.asked == ["gone", "there"]
    api.subjects.add("gone")
    await asyncio.sleep(0.06)
    assert one.refusal("gone") is None
    assert await status(one, "gone") == 0
    assert api.asked == ["gone", "there", "gone"]


async def test_at_most_one_question_is_under_way_and_those_for_one_subject_share_it() -> None:
    api = Api("there", seconds=0.01)
    one = of(api)
    answers = await asyncio.gather(*(status(one, subject) for subject in ["gone", "there", "lost"] * 5))
    assert answers == [404, 0, 404] * 5
    assert sorted(api.asked) == ["gone", "lost", "there"]
    assert api.most_under_way == 1


async def test_between_two_questions_the_server_has_nineteen_times_as_long() -> None:
    api = Api(seconds=0.01)
    one = of(api)
    began = asyncio.get_running_loop().time()
    assert await asyncio.gather(status(one, "gone"), status(one, "lost")) == [404, 404]
    assert asyncio.get_running_loop().time() - began >= (2 + PAUSE_FACTOR) * 0.01


async def flooded(one: Captured) -> list[asyncio.Task[int]]:
    """As many questions as may wait for their turn, after one that JetStream has answered."""
    assert await status(one, "first") == 404
    asked = [asyncio.create_task(status(one, f"gone-{at}")) for at in range(MOST_WAITING)]
    await asyncio.sleep(0)
    return asked


async def test_beyond_those_that_wait_for_their_turn_nobody_is_told_that_there_is_no_channel() -> None:
    one = of(Api())
    asked = await flooded(one)
    assert await status(one, "one-more") == 503
    assert await asyncio.gather(*asked) == [404] * MOST_WAITING


async def test_a_channel_that_has_stored_events_is_not_refused_for_the_questions_of_strangers() -> None:
    one = of(Api())
    one.answers("orders")
    asked = await flooded(one)
    assert await status(one, "orders") == 0
    assert await asyncio.gather(*asked) == [404] * MOST_WAITING


async def test_a_turn_that_does_not_come_in_time_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "TURN_SECONDS", 0.02)
    monkeypatch.setattr(captured, "PAUSE_FACTOR", 0)
    one = of(Api(seconds=0.1))
    assert await status(one, "first") == 404
    assert await asyncio.gather(status(one, "gone"), status(one, "lost")) == [404, 503]


async def test_where_jetstream_does_not_answer_nobody_is_refused_and_it_is_left_in_peace() -> None:
    api = Api()
    api.is_away = True
    one = of(api)
    assert await asyncio.gather(*(status(one, f"gone-{at}") for at in range(100))) == [0] * 100
    assert [await status(one, f"later-{at}") for at in range(100)] == [0] * 100
    assert len(api.asked) == 1


async def test_a_subject_that_a_subscriber_takes_is_asked_for_before_the_next_event_is_sent() -> None:
    api = Api()
    one = of(api)
    assert await status(one, "loud") == 404
    assert await status(one, "quiet", silent=True) == 404
    assert (one.is_silent("loud"), one.is_silent("quiet")) == (False, True)


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "MOST_REMEMBERED", 3)
    monkeypatch.setattr(captured, "PAUSE_FACTOR", 0)
    one = of(Api())
    for at in range(10):
        assert await status(one, f"gone-{at}", silent=True) == 404
    assert [at for at in range(10) if one.refusal(f"gone-{at}") is not None] == [7, 8, 9]
    assert [at for at in range(10) if one.is_silent(f"gone-{at}")] == [7, 8, 9]
