"""The order of effects of an event, which is the same on both ways: publish, answer, wake."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.event_kinds import EventKind, EventKinds
from headrace.core.event.nats_codec import Encoded
from headrace.core.http import Response
from headrace.core.http import request as http_request
from headrace.core.installation.function_settings import ReceiveSettings
from headrace.core.nats import nats_wire
from headrace.core.nats.jetstream import PubAck
from headrace.core.security import token
from headrace.core.waiting import BESIDE_BYTES, Waiting
from headrace.receive.doors import Doors
from headrace.receive.gate import Gate
from headrace.receive.route import ALLOW, Router
from headrace.receive.short_way import Intake
from headrace.receive.story import Outcome, ReceiveEffects, receive

Header = tuple[bytes, bytes]

HOST = (b"host", b"orders-kn-jsm-channel.shop.svc.cluster.local")
ELSEWHERE = (b"host", b"receive.example.org")
EVENT: tuple[Header, ...] = (
    (b"ce-specversion", b"1.0"),
    (b"ce-id", b"1"),
    (b"ce-source", b"/me"),
    (b"ce-type", b"shop.order"),
)
NEW = PubAck("KN_S", 7, duplicate=False)
KNOWN = PubAck("KN_S", 7, duplicate=True)
REFUSAL = Response(507, ALLOW, b"full")


def post(*headers: Header, url: bytes = b"/", body: bytes = b"data") -> bytes:
    lines = [b"%b: %b\r\n" % header for header in (*headers, (b"content-length", b"%d" % len(body)))]
    return b"POST %b HTTP/1.1\r\n%b\r\n%b" % (url, b"".join(lines), body)


@dataclass
class World:
    """Effects that note when they come."""

    outcome: Outcome = NEW
    can_publish: bool = True
    happened: list[str] = field(default_factory=list)
    stored: list[Encoded] = field(default_factory=list)
    answers: list[Response] = field(default_factory=list)
    counted: list[tuple[str, PubAck, float]] = field(default_factory=list)
    published: list[Callable[[Outcome], None]] = field(default_factory=list)
    kinds: EventKinds = field(default_factory=EventKinds)
    waiting: Waiting = field(default_factory=lambda: Waiting(100_000))
    gate: Gate = field(default_factory=Gate)

    def effects(self) -> ReceiveEffects:
        async def publish(message: Encoded, _seconds: float) -> PubAck:
            self.happened.append("publish")
            self.stored.append(message)
            if isinstance(self.outcome, HeadraceError):
                raise self.outcome
            return self.outcome

        def publish_now(message: Encoded, _seconds: float, published: Callable[[Outcome], None]) -> bool:
            if self.can_publish:
                self.happened.append("publish")
                self.stored.append(message)
                self.published.append(published)
            return self.can_publish

        def refuse(subject: str, _error: HeadraceError, answer: Callable[[Response], None]) -> None:
            self.happened.append(f"refuse {subject}")
            answer(REFUSAL)

        return ReceiveEffects(
            router=Router(ReceiveSettings()),
            publish=publish,
            publish_now=publish_now,
            publish_seconds=5.0,
            stored=lambda subject, ack, seconds: self.counted.append((subject, ack, seconds)),
            monotonic=itertools.count(7.0, 0.5).__next__,
            wake=lambda stream: self.happened.append(f"wake {stream}"),
            max_event_bytes=lambda: 1000,
            refuse=refuse,
            traced=lambda _: False,
            claims=Claims(),
            kinds=self.kinds,
            gate=self.gate,
            doors=Doors(),
        )

    def answer(self, response: Response) -> None:
        self.happened.append(f"answer {response.status}")
        self.answers.append(response)

    async def by_short_way(self, sent: bytes) -> None:
        assert Intake(self.effects(), self.waiting, Doors().plain).take(sent, self.answer) == 0
        self.published[0](self.outcome)

    async def by_asgi(self, sent: bytes) -> None:
        head, _, data = sent.partition(b"\r\n\r\n")
        first, *lines = head.split(b"\r\n")
        headers = tuple((name, value) for name, _, value in (line.partition(b": ") for line in lines))

        async def body(_limit: int) -> bytes:
            return data

        async def answer(response: Response) -> None:
            self.answer(response)

        await receive(http_request("POST", first.split(b" ")[1].decode(), headers), body, self.effects(), answer)


WAYS = pytest.mark.parametrize("way", [World.by_short_way, World.by_asgi], ids=["short way", "ASGI"])


@WAYS
async def test_an_event_is_published_then_answered_and_then_told_of(way) -> None:
    world = World()
    await way(world, post(HOST, *EVENT))
    assert world.happened == ["publish", "answer 202", "wake KN_S"]


@WAYS
async def test_its_kind_is_noted_where_kinds_are_asked_for_and_only_there(way) -> None:
    world = World()
    await way(world, post(HOST, *EVENT))
    assert world.kinds.take().kinds == {}
    world.published.clear()
    world.kinds.on = True
    await way(world, post(HOST, *EVENT, (b"ce-dataschema", b"http://schemas/1")))
    assert world.kinds.take().kinds == {
        "shop.orders._knative": [EventKind("shop.order", "/me", "http://schemas/1", "1.0")]
    }


@WAYS
async def test_of_one_that_was_there_nobody_is_told(way) -> None:
    world = World(KNOWN)
    await way(world, post(HOST, *EVENT))
    assert world.happened == ["publish", "answer 202"]
    assert (b"headrace-duplicate", b"event") in world.answers[0].headers


async def test_both_ways_store_the_same() -> None:
    short, long = World(), World()
    sent = post(HOST, *EVENT, (b"content-type", b"text/plain"), (b"traceparent", b"00-1-2-01"))
    await short.by_short_way(sent)
    await long.by_asgi(sent)
    assert short.answers == long.answers
    (mine,), (theirs,) = short.stored, long.stored
    assert (mine.subject, mine.data, mine.size) == (theirs.subject, theirs.data, theirs.size)
    assert dict(nats_wire.pairs(mine.block)) == dict(nats_wire.pairs(theirs.block))


async def test_the_short_way_counts_what_it_has_stored_and_how_long_that_took() -> None:
    world = World()
    await world.by_short_way(post(HOST, *EVENT))
    assert world.counted == [("shop.orders._knative", NEW, 0.5)]


async def test_the_short_way_answers_a_refusal_itself_and_asgi_leaves_it_to_the_shell() -> None:
    short, long = World(Refused("full", status=507)), World(Unavailable("away"))
    await short.by_short_way(post(HOST, *EVENT))
    assert short.happened == ["publish", "refuse shop.orders._knative", "answer 507"]
    with pytest.raises(Unavailable):
        await long.by_asgi(post(HOST, *EVENT))
    assert long.happened == ["publish"]


# ── which whole posts the short way takes ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("url", "headers", "subject"),
    [
        pytest.param(b"/", (HOST, *EVENT), "shop.orders._knative", id="by host"),
        pytest.param(b"/shop/orders", (ELSEWHERE, *EVENT), "shop.orders._knative", id="by path"),
        pytest.param(
            b"/shop/read-only", (ELSEWHERE, *EVENT), "shop.read-only._knative", id="a name that mirrors end in"
        ),
    ],
)
def test_a_plain_event_is_taken(url: bytes, headers: Sequence[Header], subject: str) -> None:
    world = World()
    assert Intake(world.effects(), world.waiting, Doors().plain).take(post(*headers, url=url), world.answer) == 0
    assert [(message.subject, message.data) for message in world.stored] == [(subject, b"data")]


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        pytest.param(b"/", (HOST, *EVENT, (b"ce-id", b"2")), id="an attribute that comes twice"),
        pytest.param(b"/", ((b"k-original-host", HOST[1]), ELSEWHERE, *EVENT), id="a host that a gateway has changed"),
        pytest.param(b"/", (HOST, *EVENT, (b"content-encoding", b"gzip")), id="data that are coded"),
        pytest.param(b"/shop//orders", (ELSEWHERE, *EVENT), id="a path with an empty part"),
        pytest.param(b"/shop/read-only/read-only", (ELSEWHERE, *EVENT), id="a mirror's path"),
        pytest.param(b"/" + b"a" * 700, (ELSEWHERE, *EVENT), id="a long path"),
        pytest.param(b"/", (ELSEWHERE, *EVENT), id="no channel"),
        pytest.param(b"/", (HOST, *EVENT[1:]), id="an attribute that is missing"),
    ],
)
def test_whatever_needs_a_closer_look_is_declined_and_nothing_has_happened(
    url: bytes, headers: Sequence[Header]
) -> None:
    world = World()
    assert Intake(world.effects(), world.waiting, Doors().plain).take(post(*headers, url=url), world.answer) is None
    assert (world.happened, world.waiting.size) == ([], 0)


def test_one_that_can_not_be_published_now_is_declined() -> None:
    world = World(can_publish=False)
    assert Intake(world.effects(), world.waiting, Doors().plain).take(post(HOST, *EVENT), world.answer) is None
    assert (world.happened, world.waiting.size) == ([], 0)


def test_one_that_asks_for_spans_is_declined() -> None:
    world = World()
    asked: list[bytes] = []
    effects = replace(world.effects(), traced=lambda block: asked.append(block) or b"traceparent" in block)
    intake = Intake(effects, world.waiting, Doors().plain)
    assert intake.take(post(HOST, *EVENT, (b"traceparent", b"00-1-2-01")), world.answer) is None
    assert intake.take(post(HOST, *EVENT), world.answer) == 0
    assert len(asked) == 2


def test_what_waits_is_counted_until_it_is_answered_and_bounds_what_is_taken() -> None:
    world = World()
    intake = Intake(world.effects(), world.waiting, Doors().plain)
    large = post(HOST, *EVENT, body=bytes(60_000))
    assert intake.take(large, world.answer) == 0
    assert world.waiting.size > 60_000 + BESIDE_BYTES
    assert intake.take(large, world.answer) is None
    world.published[0](NEW)
    assert world.waiting.size == 0
    assert intake.take(large, world.answer) == 0


def test_whoever_waits_alone_may_be_of_any_size() -> None:
    waiting = Waiting(100)
    assert waiting.add(1000)
    assert not waiting.add(1)
    assert waiting.add(1000, held=1000)
    waiting.drop(2000)
    assert waiting.size == 0


def test_a_fault_on_the_short_way_leaves_no_bytes_counted() -> None:
    def faulty(*_: object) -> bool:
        raise RuntimeError("a fault of ours")

    world = World()
    intake = Intake(replace(world.effects(), publish_now=faulty), world.waiting, Doors().plain)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        intake.take(post(HOST, *EVENT), world.answer)
    assert world.waiting.size == 0


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Tokens:
    """Knows one token, once it has been shown."""

    good: bytes = b"Bearer good"
    judged: list[tuple[str, list[bytes]]] = field(default_factory=list)
    known_now: bool = False

    def known(self, channel: str, authorization: bytes) -> str | None:
        return "till" if self.known_now and (channel, authorization) == ("shop.orders._knative", self.good) else None

    def subject(self, channel: str, authorization: Sequence[bytes]) -> str:
        self.judged.append((channel, list(authorization)))
        if list(authorization) != [self.good]:
            raise Refused("no good token", status=401)
        self.known_now = True
        return "till"


def asking() -> tuple[World, Tokens]:
    tokens = Tokens()
    return World(gate=Gate(cast(token.Tokens, tokens))), tokens


GOOD = (b"authorization", b"Bearer good")


@pytest.mark.parametrize(
    "shown",
    [
        pytest.param((), id="none"),
        pytest.param(((b"authorization", b"Bearer bad"),), id="another"),
        pytest.param((GOOD, GOOD), id="two"),
    ],
)
async def test_without_a_good_token_no_body_is_read_and_nothing_is_published(shown) -> None:
    world, _ = asking()

    async def body(_limit: int) -> bytes:
        raise AssertionError("the body was read")

    async def answer(response: Response) -> None:
        world.answer(response)

    # Faulty as an event, too: the token is judged first.
    request = http_request("POST", "/", (HOST, *shown, (b"content-encoding", b"gzip")))
    with pytest.raises(Refused) as refused:
        await receive(request, body, world.effects(), answer)
    assert refused.value.status == 401
    assert world.happened == []


@pytest.mark.parametrize(("method", "url", "status"), [("GET", "/", 405), ("OPTIONS", "/", 200), ("POST", "/x", 400)])
async def test_method_and_channel_are_judged_before_the_token(method, url, status) -> None:
    world, tokens = asking()

    async def body(_limit: int) -> bytes:
        raise AssertionError("the body was read")

    async def answer(response: Response) -> None:
        world.answer(response)

    await receive(http_request(method, url, (HOST,)), body, world.effects(), answer)
    assert world.happened == [f"answer {status}"]
    assert tokens.judged == []


async def test_a_token_takes_the_long_way_once_and_the_short_way_from_then_on() -> None:
    world, tokens = asking()
    intake, sent = Intake(world.effects(), world.waiting, Doors().plain), post(HOST, GOOD, *EVENT)
    assert intake.take(sent, world.answer) is None
    assert (world.happened, world.waiting.size) == ([], 0)
    await world.by_asgi(sent)
    assert world.happened == ["publish", "answer 202", "wake KN_S"]
    assert intake.take(sent, world.answer) == 0
    assert tokens.judged == [("shop.orders._knative", [b"Bearer good"])]


@pytest.mark.parametrize(
    ("url", "headers"),
    [
        pytest.param(b"/", (HOST,), id="no token"),
        pytest.param(b"/", (HOST, (b"authorization", b"Bearer bad")), id="another token"),
        pytest.param(b"/shop/returns", (ELSEWHERE, GOOD), id="a token for another channel"),
        pytest.param(b"/a/b/c", (ELSEWHERE, GOOD), id="no channel"),
    ],
)
def test_what_has_no_known_token_is_declined_whole_or_before_its_body_has_come(url, headers) -> None:
    world, tokens = asking()
    tokens.known_now = True
    intake, sent = Intake(world.effects(), world.waiting, Doors().plain), post(*headers, *EVENT, url=url)
    assert intake.take(sent, world.answer) is None
    assert intake.take(sent[:-3], world.answer) is None
    assert (world.happened, world.waiting.size) == ([], 0)


def test_a_body_is_awaited_for_a_known_token() -> None:
    world, tokens = asking()
    tokens.known_now = True
    assert Intake(world.effects(), world.waiting, Doors().plain).take(post(HOST, GOOD, *EVENT)[:-3], world.answer) == 3


async def test_a_gate_that_closes_counts_from_the_next_event_on() -> None:
    world, tokens = asking()
    world.gate.tokens = None
    intake, sent = Intake(world.effects(), world.waiting, Doors().plain), post(HOST, *EVENT)
    assert intake.take(sent, world.answer) == 0
    world.gate.tokens = cast(token.Tokens, tokens)
    assert intake.take(sent, world.answer) is None
