"""An error that nobody foresaw costs an event an attempt of its budget, so that none comes again without end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace.core.delivery import stage_record
from headrace.core.delivery.lease import Tally
from headrace.core.delivery.stage_record import Attempts
from headrace.core.delivery.subscriber import DeliveryPolicy, Destination, Subscriber
from headrace.core.errors import InvalidEvent, InvalidSpec, Unavailable
from headrace.core.event import nats_codec
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats.jetstream import Message
from headrace.forward.one_event import deliver
from headrace.forward.ports import Effects
from headrace.forward.reading import event_in, words

NOW = datetime(2026, 11, 28, tzinfo=UTC)
HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
POLICY = DeliveryPolicy(retry=1, backoff_delay=timedelta(seconds=1))
BILLING = Subscriber(
    "shop", "orders", "billing", "u", 1, "KN_aside", subscriber=Destination("http://billing/"), policy=POLICY
)
WITH_SINK = replace(BILLING, dead_letter=Destination("http://sink/"))


@dataclass
class World:
    """Posts to `broken` raise `error`; everything that is done is written down."""

    error: BaseException
    broken: str = "http://billing/"
    records: dict[str, bytes] = field(default_factory=dict)
    parked: list[NatsMessage] = field(default_factory=list)
    settled: list[bytes] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    async def post(self, to: Destination, _headers: Headers, _body: bytes, _timeout: timedelta) -> HttpAnswer:
        if to.uri == self.broken:
            raise self.error
        return HttpAnswer(202)

    async def load(self, subject: str) -> bytes | None:
        return self.records.get(subject)

    async def store(self, subject: str, data: bytes) -> None:
        self.records[subject] = data

    async def drop(self, subject: str) -> None:
        self.records.pop(subject, None)

    async def park(self, message: NatsMessage) -> None:
        self.parked.append(message)

    async def settle(self, _message: Message, payload: bytes) -> None:
        self.settled.append(payload)

    async def ack(self, _message: Message) -> None:
        self.settled.append(b"+ACK")

    async def run(self, whom: Subscriber, *, delivered: int = 1) -> dict[str, int]:
        tally = Tally()
        effects = Effects(
            open_inbox=lambda *_: self._never(),
            post=self.post,
            load=self.load,
            store=self.store,
            drop=self.drop,
            park=self.park,
            settle=self.settle,
            ack=self.ack,
            hold=lambda _: None,
            release=lambda _: None,
            monotonic=lambda: 0.0,
            # Later with each delivery, so that nothing comes before it is due.
            now=lambda: NOW + timedelta(minutes=delivered),
            report=lambda outcome, _, why: self.said.append(f"{outcome}: {why}"),
        )
        await deliver(message(delivered), whom, effects, tally)
        return {str(name): count for name, count in tally.counts.items() if count}

    async def _never(self) -> Any:
        raise AssertionError("a single delivery opens no inbox")


def message(delivered: int = 1) -> Message:
    return Message("shop.orders._knative", HEADERS, b"data", "$JS.ACK", "KN_S", "KN_SUB_U", delivered, 7, 0)


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(OverflowError("secret"), id="a number"),
        pytest.param(RuntimeError("secret"), id="a bug"),
        pytest.param(RecursionError("secret"), id="a depth"),
        pytest.param(InvalidEvent(), id="an event that proves faulty on its way out"),
        pytest.param(InvalidSpec("no", field="uri"), id="an address that proves none"),
    ],
)
async def test_what_nobody_foresaw_is_a_failed_attempt(error: Exception) -> None:
    world = World(error)
    assert await world.run(BILLING) == {"retried": 1}
    (stored,) = world.records.values()
    record = stage_record.from_json(stored)
    assert record is not None
    assert record.attempts == Attempts(subscriber=1)
    assert world.settled == [b'-NAK {"delay":1000000000}']

    assert await world.run(BILLING, delivered=2) == {"parked": 1}
    assert world.settled[1:] == [b"+ACK"]
    assert "secret" not in "".join(world.said) + world.parked[0].headers["Headrace-Reason"]


async def test_what_nobody_foresaw_goes_to_the_sink_when_the_budget_is_used_up() -> None:
    world = World(OverflowError())
    assert await world.run(replace(WITH_SINK, policy=DeliveryPolicy())) == {"dead_lettered": 1}


async def test_what_nobody_foresaw_at_the_sink_uses_up_the_budget_of_the_sink() -> None:
    world = World(OverflowError(), broken="http://sink/")
    whom = replace(WITH_SINK, subscriber=None, reply=Destination("http://sink/"))
    found = [await world.run(whom, delivered=delivered) for delivered in (1, 2, 3)]
    assert found == [{"retried": 1}, {"retried": 1}, {"parked": 1}]


async def test_an_absent_nats_costs_no_attempt() -> None:
    world = World(Unavailable("away"))
    with pytest.raises(Unavailable):
        await world.run(BILLING)
    assert (world.records, world.settled) == ({}, [])


async def test_a_message_whose_reading_fails_goes_on_as_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OverflowError("secret")

    monkeypatch.setattr(nats_codec, "from_nats", fail)
    assert isinstance(event_in(message()), InvalidEvent)
    world = World(OverflowError())
    assert await world.run(WITH_SINK) == {"dead_lettered": 1}
    assert await world.run(BILLING) == {"parked": 1}
    assert "secret" not in "".join(world.said)


def test_what_is_said_of_it_is_its_kind_and_place() -> None:
    try:
        int("secret")
    except ValueError as error:
        said = words(error)
    assert said.startswith("unforeseen ValueError in test_what_is_said_of_it_is_its_kind_and_place, line ")
