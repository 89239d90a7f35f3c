"""The order of effects of a delivery: nothing is settled before its fate is final or its next attempt is on record.

Fakes are functions that write down what was done; what JetStream and HTTP really do is proved in tests/contract.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.delivery import stage_record
from headrace.core.delivery.lease import Tally
from headrace.core.delivery.stage_record import Attempts, Stage, StageRecord
from headrace.core.delivery.subscriber import DeliveryPolicy, Destination, Subscriber
from headrace.core.errors import Refused, Unavailable
from headrace.core.event.event import Event, make_event
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats.jetstream import Message
from headrace.forward.one_event import deliver
from headrace.forward.ports import Effects

NOW = datetime(2026, 11, 28, tzinfo=UTC)
STAGE = "default.orders._knative_aside.stage.KN_SUB_U.7"
EVENT_HEADERS = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
REPLY: Headers = tuple((name.encode(), value.encode()) for name, value in EVENT_HEADERS.items())

PLAIN = Subscriber(
    namespace="default",
    channel="orders",
    name="sub",
    uid="u",
    generation=1,
    aside="KN_DEFAULT__ORDERS_aside",
    subscriber=Destination("http://subscriber/"),
    policy=DeliveryPolicy(retry=1, backoff_delay=timedelta(seconds=1)),
)
WITH_REPLY = replace(PLAIN, reply=Destination("http://reply/"))
WITH_SINK = replace(PLAIN, dead_letter=Destination("http://sink/"))


@dataclass
class World:
    """Scripted answers per address, and a diary of everything that was done."""

    answers: dict[str, list[HttpAnswer]] = field(default_factory=dict)
    records: dict[str, bytes] = field(default_factory=dict)
    aside_is: Exception | None = None
    parking_is: Exception | None = None
    diary: list[str] = field(default_factory=list)
    sent: list[tuple[str, dict[bytes, bytes]]] = field(default_factory=list)

    def effects(self) -> Effects:
        return Effects(
            open_inbox=self._never,
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
            now=lambda: NOW,
            report=lambda *_: None,
        )

    async def _never(self, *_: object) -> object:  # type: ignore[override]  # whatever it is called with
        raise AssertionError("a single delivery opens no inbox")

    async def post(self, to: Destination, headers: Headers, _body: bytes, _timeout: timedelta) -> HttpAnswer:
        self.diary.append(f"post {to.uri}")
        self.sent.append((to.uri, dict(headers)))
        return self.answers[to.uri].pop(0)

    async def load(self, subject: str) -> bytes | None:
        self.diary.append("load")
        return self.records.get(subject)

    async def store(self, subject: str, data: bytes) -> None:
        self.diary.append("store")
        if self.aside_is is not None:
            raise self.aside_is
        self.records[subject] = data

    async def drop(self, subject: str) -> None:
        self.diary.append("drop")
        self.records.pop(subject, None)

    async def park(self, message: NatsMessage) -> None:
        self.diary.append(f"park {message.subject}")
        refusal = self.aside_is or self.parking_is
        if refusal is not None:
            raise refusal

    async def settle(self, _message: Message, payload: bytes) -> None:
        self.diary.append(payload.decode())

    async def ack(self, _message: Message) -> None:
        self.diary.append("+ACK confirmed")


def message(delivered: int = 1, headers: dict[str, str] | None = None) -> Message:
    return Message(
        subject="default.orders._knative",
        headers=EVENT_HEADERS if headers is None else headers,
        data=b"data",
        reply="$JS.ACK…",
        stream="KN_DEFAULT__ORDERS",
        consumer="KN_SUB_U",
        delivered=delivered,
        sequence=7,
        timestamp_ns=0,
    )


async def outcome(world: World, whom: Subscriber, what: Message) -> dict[str, int]:
    tally = Tally()
    await deliver(what, whom, world.effects(), tally)
    return {str(name): count for name, count in tally.counts.items() if count}


async def test_an_event_is_acknowledged_after_its_subscriber_has_it() -> None:
    world = World({"http://subscriber/": [HttpAnswer(204)]})
    assert await outcome(world, PLAIN, message()) == {"delivered": 1}
    assert world.diary == ["post http://subscriber/", "+ACK"]


async def test_an_event_is_acknowledged_after_its_reply_is_delivered() -> None:
    world = World({"http://subscriber/": [HttpAnswer(200, REPLY, b"")], "http://reply/": [HttpAnswer(202)]})
    assert await outcome(world, WITH_REPLY, message()) == {"delivered": 1, "replied": 1}
    assert world.diary == ["post http://subscriber/", "post http://reply/", "+ACK"]


async def test_only_the_subscriber_is_asked_for_a_reply() -> None:
    world = World({"http://subscriber/": [HttpAnswer(200, REPLY)], "http://reply/": [HttpAnswer(202)]})
    await outcome(world, WITH_REPLY, message())
    (_, to_subscriber), (_, to_reply) = world.sent
    assert to_subscriber[b"prefer"] == b"reply"
    assert b"prefer" not in to_reply
    assert to_subscriber[b"kn-namespace"] == to_reply[b"kn-namespace"] == b"default"


async def test_a_retry_is_on_record_before_the_event_is_given_back() -> None:
    world = World({"http://subscriber/": [HttpAnswer(503)]})
    assert await outcome(world, PLAIN, message()) == {"retried": 1}
    assert world.diary == ["post http://subscriber/", "store", '-NAK {"delay":1000000000}']
    record = stage_record.from_json(world.records[STAGE])
    assert record is not None
    assert record.attempts == Attempts(subscriber=1)
    assert record.due == NOW.timestamp() + 1


async def test_a_redelivered_event_goes_on_where_it_was_and_its_record_goes_last() -> None:
    record = StageRecord(Stage.REPLY, Attempts(0, 1), due=NOW.timestamp(), reply=delivery_event())
    world = World({"http://reply/": [HttpAnswer(202)]}, {STAGE: stage_record.to_json(record)})
    assert await outcome(world, WITH_REPLY, message(delivered=2)) == {"delivered": 1, "replied": 1}
    assert world.diary == ["load", "post http://reply/", "+ACK confirmed", "drop"]
    assert world.records == {}


async def test_a_crash_costs_no_attempt_of_the_budget() -> None:
    world = World({"http://subscriber/": [HttpAnswer(503)]})
    assert await outcome(world, PLAIN, message(delivered=5)) == {"redelivered": 1, "retried": 1}
    record = stage_record.from_json(world.records[STAGE])
    assert record is not None
    assert record.attempts == Attempts(subscriber=1)


async def test_an_event_that_comes_before_it_is_due_is_put_off_again_unless_clocks_may_differ_by_that() -> None:
    record = StageRecord(attempts=Attempts(1), due=NOW.timestamp() + 30)
    world = World({"http://subscriber/": [HttpAnswer(200)]}, records={STAGE: stage_record.to_json(record)})
    assert await outcome(world, PLAIN, message(delivered=2)) == {}
    assert world.diary == ["load", '-NAK {"delay":30000000000}']
    world.records[STAGE] = stage_record.to_json(replace(record, due=NOW.timestamp() + 0.05))
    assert await outcome(world, PLAIN, message(delivered=2)) == {"delivered": 1}


async def test_a_dead_letter_is_acknowledged_after_the_sink_has_it() -> None:
    world = World({"http://subscriber/": [HttpAnswer(400, body=b"no")], "http://sink/": [HttpAnswer(200)]})
    assert await outcome(world, WITH_SINK, message()) == {"dead_lettered": 1}
    assert world.diary == ["post http://subscriber/", "post http://sink/", "+ACK"]
    told = world.sent[1][1]
    assert told[b"ce-knativeerrordest"] == b"http://subscriber/"
    assert told[b"ce-knativeerrorcode"] == b"400"
    assert told[b"ce-knativeerrordata"] == b"bm8="


async def test_without_a_sink_it_is_parked_before_it_is_acknowledged() -> None:
    world = World({"http://subscriber/": [HttpAnswer(400)]})
    assert await outcome(world, PLAIN, message()) == {"parked": 1}
    assert world.diary == [
        "post http://subscriber/",
        "park default.orders._knative_aside.parked.KN_SUB_U.7.0",
        "+ACK",
    ]


@pytest.mark.parametrize(("back_off", "seconds"), [(1, 30), (3600, 3600)])
async def test_what_can_not_be_parked_stays_and_comes_again_at_the_longest_back_off(
    back_off: int, seconds: int
) -> None:
    policy = DeliveryPolicy(retry=1, backoff_delay=timedelta(seconds=back_off))
    world = World({"http://subscriber/": [HttpAnswer(400)]}, aside_is=Refused("full", status=507))
    assert await outcome(world, replace(PLAIN, policy=policy), message()) == {"stuck": 1}
    assert world.diary[-1] == f'-NAK {{"delay":{seconds}000000000}}'
    # Only one that is too large is tried once more, without the subscriber's answer.
    assert sum(did.startswith("park") for did in world.diary) == 1


async def test_what_is_too_large_to_be_parked_is_noted_until_it_is_settled() -> None:
    world = World({"http://subscriber/": [HttpAnswer(400), HttpAnswer(202)]}, parking_is=Refused("large", status=413))
    assert await outcome(world, PLAIN, message()) == {"stuck": 1}
    assert world.diary[-3:] == ["store", "store", '-NAK {"delay":30000000000}']
    assert set(world.records) == {STAGE, f"{STAGE}.stuck"}
    record = stage_record.from_json(world.records[STAGE])
    assert record is not None
    world.records[STAGE] = stage_record.to_json(replace(record, due=NOW.timestamp()))
    assert await outcome(world, PLAIN, message(delivered=2)) == {"delivered": 1}
    assert world.diary[-3:] == ["+ACK confirmed", "drop", "drop"]
    assert world.records == {}


async def test_what_is_stuck_gets_one_attempt_at_a_time() -> None:
    answers = [HttpAnswer(503)] * 3
    world = World({"http://subscriber/": answers}, parking_is=Refused("large", status=413))
    used_up = StageRecord(attempts=Attempts(2), due=NOW.timestamp(), stuck=True)
    world.records[STAGE] = stage_record.to_json(used_up)
    assert await outcome(world, PLAIN, message(delivered=3)) == {"stuck": 1}
    assert len(answers) == 2


async def test_a_retry_goes_on_without_a_record_that_can_not_be_stored() -> None:
    world = World({"http://subscriber/": [HttpAnswer(503)]}, aside_is=Refused("full", status=507))
    assert await outcome(world, PLAIN, message()) == {"stuck": 1, "retried": 1}
    assert world.diary[-1] == '-NAK {"delay":1000000000}'


async def test_nothing_is_settled_when_nats_goes_away_before_the_record_is_stored() -> None:
    world = World({"http://subscriber/": [HttpAnswer(503)]}, aside_is=Unavailable("away"))
    with pytest.raises(Unavailable):
        await outcome(world, PLAIN, message())
    assert world.diary == ["post http://subscriber/", "store"]


async def test_a_faulty_message_never_reaches_the_subscriber() -> None:
    world = World({"http://sink/": [HttpAnswer(200)]})
    assert await outcome(world, WITH_SINK, message(headers={"ce-specversion": "1.0"})) == {"dead_lettered": 1}
    assert world.diary == ["post http://sink/", "+ACK"]
    told = world.sent[0][1]
    assert told[b"ce-type"] == b"headrace.foreign"
    assert told[b"ce-knativeerrorcode"] == b"400"


async def test_a_faulty_message_without_sink_is_parked() -> None:
    world = World()
    assert await outcome(world, PLAIN, message(headers={"ce-specversion": "1.0"})) == {"parked": 1}


async def test_a_replay_for_another_consumer_is_passed_over() -> None:
    world = World()
    headers = {**EVENT_HEADERS, "headrace-only": "KN_SUB_OTHER"}
    assert await outcome(world, PLAIN, message(headers=headers)) == {"skipped": 1}
    assert world.diary == ["+ACK"]


async def test_a_replay_for_this_consumer_is_delivered_as_the_event_that_it_was() -> None:
    world = World({"http://subscriber/": [HttpAnswer(202)]})
    headers = {**EVENT_HEADERS, "headrace-only": "KN_SUB_U", "nats-expected-stream": "S"}
    assert await outcome(world, PLAIN, message(headers=headers)) == {"delivered": 1}
    assert set(world.sent[0][1]) == {
        *(name.encode() for name in EVENT_HEADERS),
        *(b"prefer", b"kn-namespace", b"headrace-hops"),
    }


async def test_an_event_for_a_reply_address_alone_goes_there_itself() -> None:
    world = World({"http://reply/": [HttpAnswer(202)]})
    assert await outcome(world, replace(WITH_REPLY, subscriber=None), message()) == {"delivered": 1}
    assert world.sent[0][1][b"ce-id"] == b"1"


async def test_a_reply_whose_address_was_taken_away_is_dropped() -> None:
    record = StageRecord(Stage.REPLY, Attempts(0, 1), due=NOW.timestamp(), reply=delivery_event())
    world = World(records={STAGE: stage_record.to_json(record)})
    assert await outcome(world, PLAIN, message(delivered=2)) == {"delivered": 1}
    assert world.diary == ["load", "+ACK confirmed", "drop"]


async def test_a_dead_letter_whose_sink_was_taken_away_is_parked() -> None:
    record = StageRecord(Stage.DEAD_LETTER, Attempts(2), due=NOW.timestamp())
    world = World(records={STAGE: stage_record.to_json(record)})
    assert await outcome(world, PLAIN, message(delivered=2)) == {"parked": 1}


def delivery_event() -> Event:
    return make_event({"specversion": "1.0", "id": "r", "source": "/r", "type": "reply"}, b"")
