"""The short way of an event leads to the same deliveries as the long one: same POSTs, same acks, same counts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from headrace.core.delivery import delivery
from headrace.core.delivery.lease import Lease, Outcome, Tally
from headrace.core.delivery.stage_record import Stage
from headrace.core.delivery.subscriber import DeliveryPolicy, Destination, Subscriber
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats.jetstream import Message
from headrace.core.nats.nats_wire import Headers as Block
from headrace.core.nats.pull_status import PullEnd
from headrace.forward import Effects, ShortEffects, closing_headers, forward

NOW = datetime(2026, 11, 28, tzinfo=UTC)
BILLING = Destination("http://billing/")
PLAIN = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside", subscriber=BILLING)
RETRYING = replace(PLAIN, policy=DeliveryPolicy(retry=2, backoff_delay=timedelta(seconds=1)))
WITH_SINK = replace(PLAIN, dead_letter=Destination("http://sink/"))
WITH_REPLY = replace(PLAIN, reply=Destination("http://reply/"))
REPLY_ONLY = replace(PLAIN, subscriber=None, reply=Destination("http://reply/"))
WHOM = [PLAIN, RETRYING, WITH_SINK, WITH_REPLY, REPLY_ONLY]

EVENT: Headers = ((b"ce-specversion", b"1.0"), (b"ce-id", b"r"), (b"ce-source", b"/r"), (b"ce-type", b"t"))
ANSWERS = [
    HttpAnswer(202),
    HttpAnswer(204),
    HttpAnswer(200, EVENT, b"reply"),
    HttpAnswer(202, EVENT, b"no reply"),
    HttpAnswer(202, ((b"headrace-duplicate", b"delivery"),), b"known"),
    HttpAnswer(202, ((b"headrace-duplicate", b"event"),), b"another's"),
    HttpAnswer(200, (*EVENT, (b"headrace-duplicate", b"unsure")), b"perhaps another's"),
    HttpAnswer(200, EVENT, b"reply", truncated=True),
    HttpAnswer(200, (*EVENT, (b"ce-a-b", b"x")), b"faulty reply"),
    HttpAnswer(200, ((b"content-type", b"application/json"),), b"{}"),
    HttpAnswer(199),
    HttpAnswer(302),
    HttpAnswer(400, (), b"no"),
    HttpAnswer(429, ((b"retry-after", b"7"),)),
    HttpAnswer(503, (), b"busy"),
    HttpAnswer(None, error="no answer within 1 s"),
]

FIRST = b"NATS/1.0\r\nNats-Msg-Id: 1\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\n"
STORED = FIRST + b"content-type: application/json\r\nce-type: t\r\ntraceparent: 00-1\r\n\r\n"
BLOCKS = {
    "stored by receive": STORED,
    "of another channel": FIRST + b"ce-type: t\r\nheadrace-hops: 253\r\ntraceparent: 00-1\r\n\r\n",
    "of a loop": FIRST + b"ce-type: t\r\nheadrace-hops: 255\r\n\r\n",
    "percent-encoded": FIRST + b"ce-type: %C3%A4\r\n\r\n",
    "a stranger's": b"NATS/1.0\r\nx-mine: 1\r\n\r\n",
    "faulty": FIRST + b"ce-type: \r\n\r\n",
    "for another consumer": FIRST + b"ce-type: t\r\nHeadrace-Only: KN_SUB_X\r\n\r\n",
    "for this consumer": FIRST + b"ce-type: t\r\nHeadrace-Only: KN_SUB_U\r\n\r\n",
}


def message(block: bytes = STORED, *, sequence: int = 1, delivered: int = 1) -> Message:
    return Message("s", Block(block), b"data", f"$JS.ACK.{sequence}", "KN_S", "KN_SUB_U", delivered, sequence, 0)


@dataclass
class World:
    """A consumer with some messages, and everything that a lease does with them, written down.

    Attributes:
        clock: seconds; it moves only while a pull waits for nothing, so that a busy machine changes nothing; with a
            `step` whenever it is read, too.
        rate: bits per second.
    """

    answer: HttpAnswer
    messages: list[Message]
    short_way: bool
    whom: Subscriber = PLAIN
    away: bool = False
    busy: bool = False
    did: list[object] = field(default_factory=list)
    short_posts: int = 0
    held: set[str] = field(default_factory=set)
    clock: float = 0.0
    step: float = 0.0
    rate: float = 0.0
    pulling: bool = False
    most_bytes: int = 0
    asked: list[tuple[int, int]] = field(default_factory=list)

    async def open_inbox(self, on_message: Callable[[Message], None], on_end: Callable[[PullEnd], None]) -> World:
        self.on_message, self.on_end = on_message, on_end
        return self

    async def pull(self, batch: int, expires: timedelta, max_bytes: int) -> None:
        self.pulling = True
        self.asked.append((batch, max_bytes))
        batch = min(batch, len(self.messages))
        brought, self.messages = self.messages[:batch], self.messages[batch:]
        loop = asyncio.get_running_loop()
        for one in brought:
            loop.call_soon(self.on_message, one)
        if not brought:
            self.clock += expires.total_seconds()
        # One that expires has waited: the lease would pause after one that expires at once, and the clock stands still.
        loop.call_soon(self.end, PullEnd.FILLED if brought else PullEnd.EXPIRED)

    def end(self, how: PullEnd) -> None:
        self.pulling = False
        self.on_end(how)

    async def stop(self) -> None:
        self.pulling = False

    async def close(self) -> None:
        assert not self.held, "what is settled is held no more"

    def said(self, uri: str) -> HttpAnswer:
        return self.answer if uri == BILLING.uri else HttpAnswer(204)

    async def post(self, to: Destination, headers: Headers, body: bytes, _timeout: timedelta) -> HttpAnswer:
        self.did.append((to.uri, headers, body))
        return self.said(to.uri)

    def send(self, lines: bytes, body: bytes, told: Callable[[HttpAnswer], None]) -> World | None:
        if self.busy:
            return None
        self.short_posts += 1
        pairs = [line.split(b": ", 1) for line in lines.split(b"\r\n")[:-1]]
        headers = tuple((name, value) for name, value in pairs)
        self.did.append((BILLING.uri, headers + closing_headers(self.whom, Stage.SUBSCRIBER), body))
        asyncio.get_running_loop().call_soon(told, self.said(BILLING.uri))
        return self

    def cancel(self) -> None:
        raise AssertionError("nobody cancels")

    def settle_now(self, one: Message, payload: bytes) -> bool:
        if not self.away:
            self.did.append((one.sequence, payload))
        return not self.away

    async def settle(self, one: Message, payload: bytes) -> None:
        self.did.append((one.sequence, payload))

    async def ack(self, one: Message) -> None:
        self.did.append((one.sequence, "confirmed"))

    async def load(self, _subject: str) -> bytes | None:
        return None

    async def store(self, subject: str, data: bytes) -> None:
        self.did.append((subject, data))

    async def drop(self, subject: str) -> None:
        self.did.append((subject, None))

    async def park(self, parked: NatsMessage) -> None:
        self.did.append(parked)

    def monotonic(self) -> float:
        self.clock += self.step
        return self.clock

    async def lease(self, whom: Subscriber, *, slots: int = 10, linger: float = 2.0) -> Tally:
        self.whom = whom
        effects = Effects(
            open_inbox=self.open_inbox,  # type: ignore[arg-type]  # this world is its own inbox
            post=self.post,
            load=self.load,
            store=self.store,
            drop=self.drop,
            park=self.park,
            settle=self.settle,
            ack=self.ack,
            hold=lambda one: self.held.add(one.reply),
            release=lambda one: self.held.discard(one.reply),
            monotonic=self.monotonic,
            now=lambda: NOW,
            report=lambda outcome, one, why: self.did.append((outcome, one.sequence, why)),
            short_way=ShortEffects(self.send, self.settle_now) if self.short_way else None,
            claims=Claims(b"the key of claims"),
        )
        lease = Lease("KN_S", "KN_SUB_U", 20.0, linger, slots, 10_000_000, self.rate)
        async with asyncio.timeout(20):
            return await forward(lease, whom, 1_000_000, effects, asyncio.Event())


async def on_both_ways(whom: Subscriber, answer: HttpAnswer, *messages: Message) -> tuple[World, World]:
    short, long = (World(answer, list(messages), short_way) for short_way in (True, False))
    tallies = [await world.lease(whom) for world in (short, long)]
    assert tallies[0] == tallies[1]
    assert long.short_posts == 0
    return short, long


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.status} {answer.body!r}"[:30])
@pytest.mark.parametrize("whom", WHOM, ids=["plain", "retrying", "with sink", "with reply", "reply only"])
async def test_whatever_the_answer_both_ways_do_the_same(whom: Subscriber, answer: HttpAnswer) -> None:
    short, long = await on_both_ways(whom, answer, message())
    assert short.did == long.did
    assert short.short_posts == (1 if whom.subscriber else 0)


@pytest.mark.parametrize(("block", "delivered"), list(product(BLOCKS, (1, 2))))
async def test_whatever_the_message_both_ways_do_the_same(block: str, delivered: int) -> None:
    short, long = await on_both_ways(WITH_SINK, HttpAnswer(503), message(BLOCKS[block], delivered=delivered))
    assert short.did == long.did
    assert short.short_posts == (delivered == 1 and block in ("stored by receive", "of another channel"))


async def test_many_events_are_each_delivered_once_and_their_room_is_given_back() -> None:
    messages = [message(sequence=sequence) for sequence in range(1, 101)]
    short, long = await on_both_ways(PLAIN, HttpAnswer(202), *messages)
    assert sorted(map(repr, short.did)) == sorted(map(repr, long.did))
    assert short.short_posts == 100
    # All that was in hand is given back.
    assert short.asked[-1] == long.asked[-1] == (10, 10_000_000)


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer.status} {answer.body!r}"[:30])
@pytest.mark.parametrize("whom", WHOM[:4], ids=["plain", "retrying", "with sink", "with reply"])
def test_what_completes_a_delivery_at_a_glance_completes_it_at_a_closer_look(
    whom: Subscriber, answer: HttpAnswer
) -> None:
    record = delivery.begin(whom)
    read = delivery.read_answer(answer, NOW, replies=delivery.may_reply(record, whom))
    decided = delivery.decide(record, read, whom)
    if delivery.completes(answer, whom):
        assert decided == delivery.Ack(record)
    elif answer.status in (202, 204) and answer.body != b"another's":
        pytest.fail("the commonest answers need no closer look")


async def test_what_nobody_foresaw_costs_one_event_and_not_the_lease() -> None:
    class Broken(World):
        def settle_now(self, *_: object) -> bool:
            raise OverflowError

        async def settle(self, *_: object) -> None:
            raise OverflowError

    tally = await Broken(HttpAnswer(202), [message()], short_way=True).lease(PLAIN)
    assert tally.counts[Outcome.UNSETTLED] == 1


async def test_without_a_free_connection_an_event_goes_the_long_way() -> None:
    world = World(HttpAnswer(202), [message()], short_way=True, busy=True)
    tally = await world.lease(PLAIN)
    assert (world.short_posts, tally.counts[Outcome.DELIVERED]) == (0, 1)


async def test_an_ack_that_can_t_be_sent_at_once_is_sent_the_long_way() -> None:
    world = World(HttpAnswer(202), [message()], short_way=True, away=True)
    tally = await world.lease(PLAIN)
    assert (world.short_posts, tally.counts[Outcome.DELIVERED]) == (1, 1)
    assert (1, b"+ACK") in world.did


@dataclass
class Hanging(World):
    """A subscriber that never answers, whose lease is cut off once it has both of two events."""

    has_both: asyncio.Event = field(default_factory=asyncio.Event)
    cancelled: int = 0

    def send(self, *_: object) -> World | None:
        self.short_posts += 1
        if self.short_posts == 2:
            self.has_both.set()
        return self

    def cancel(self) -> None:
        self.cancelled += 1


async def test_a_lease_that_is_cut_off_leaves_no_post_behind() -> None:
    world = Hanging(HttpAnswer(202), [message(sequence=sequence) for sequence in (1, 2)], short_way=True)
    leasing = asyncio.create_task(world.lease(PLAIN))
    await world.has_both.wait()
    leasing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leasing
    assert (world.cancelled, world.did) == (2, [])


@pytest.mark.parametrize("reads", range(1, 31))
async def test_a_pause_that_runs_out_while_the_lease_looks_does_not_cost_its_nap(reads: int) -> None:
    """Whenever the pause ends, be it between two looks at the clock; the nap would be of 10 s of real time."""
    sizes = message().size * 8
    step = 0.0001
    world = World(
        HttpAnswer(204),
        [message(sequence=n) for n in range(1, 4)],
        short_way=True,
        step=step,
        rate=sizes / step / reads,
    )
    async with asyncio.timeout(8):
        assert (await world.lease(PLAIN, linger=10.0)).counts[Outcome.DELIVERED] == 3
