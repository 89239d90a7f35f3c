"""The plan of a history: everything that is drawn for it, before it runs.

Only latencies and the order of the ready queue are drawn while it runs, by the loop, from the plan's seed. What happens
to one event at one address is its own script: so an event or a fault can be left out of a plan, and the others stay as
they were. A plan can be kept as JSON, since the seed gives another plan as soon as `draw` changes.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from tests.simulation import faults
from tests.simulation.faults import Fault, Frame, Kind, Verb

SUBSCRIBER, REPLY, DEAD_LETTER = "subscriber", "reply", "deadLetter"
ROLES = (SUBSCRIBER, REPLY, DEAD_LETTER)


class Deed(StrEnum):
    """What an address does with one POST, once it has read all of it.

    ANSWER: answer with `status` after `seconds`. REPLY: the same, with an event in the answer. RESET: break the
    connection at once. TAKE_RESET: take the event, then break it after `seconds`. HANG: never answer. TAKE_HANG: take
    the event and never answer. TRICKLE: answer byte by byte, for `seconds` in all.
    """

    ANSWER = "answer"
    REPLY = "reply"
    RESET = "reset"
    TAKE_RESET = "take-reset"
    HANG = "hang"
    TAKE_HANG = "take-hang"
    TRICKLE = "trickle"


@dataclass(frozen=True, slots=True)
class Step:
    """The n-th POST of an event to an address; an ANSWER of 2xx takes the event as well."""

    deed: Deed = Deed.ANSWER
    status: int = 200
    seconds: float = 0.005
    retry_after: int | None = None

    @property
    def takes(self) -> bool:
        taken = (Deed.ANSWER, Deed.REPLY, Deed.TRICKLE)
        return self.deed in (Deed.TAKE_RESET, Deed.TAKE_HANG) or (self.deed in taken and 200 <= self.status <= 299)


WELL = Step()
"""What follows the last step of a script: every address gets well."""
WELL_WITH_REPLY = Step(Deed.REPLY)


@dataclass(frozen=True, slots=True)
class Script:
    """What the POSTs of one event meet at one address; `subscription` as in `c0/s1`.

    Attributes:
        replies: the subscriber answers with an event once it is well, too.
    """

    subscription: str
    role: str
    steps: tuple[Step, ...] = ()
    replies: bool = False

    def step(self, n: int) -> Step:
        """The n-th POST, from 1."""
        if n <= len(self.steps):
            return self.steps[n - 1]
        return WELL_WITH_REPLY if self.replies else WELL


@dataclass(frozen=True, slots=True)
class SubscriptionPlan:
    """One subscription; seconds everywhere. `order` is unordered, ordered or by-key."""

    name: str
    retry: int = 0
    backoff: str = "exponential"
    delay: float = 0.2
    timeout: float = 3.0
    retry_after_max: float = 5.0
    reply: bool = False
    dead_letter: bool = False
    order: str = "unordered"
    max_scale: int = 2
    lag_threshold: int = 4
    max_ack_pending: int = 1000

    def wait(self, failures: int) -> float:
        """The back-off after that many failed attempts of a stage."""
        return self.delay * (failures if self.backoff == "linear" else 2 ** (failures - 1))


@dataclass(frozen=True, slots=True)
class ChannelPlan:
    name: str
    subscriptions: tuple[SubscriptionPlan, ...]


@dataclass(frozen=True, slots=True)
class EventPlan:
    """One event, and what happens to it.

    Attributes:
        channel: which of the plan's channels, from 0.
        tries: how often its producer POSTs it until it has its 202.
        twice: seconds after its 202 at which it is POSTed once more; None: it is not.
        kept: POSTed on the producer's kept connection; else on a new one.
        structured: in structured mode, which never goes the short way.
    """

    id: str
    at: float
    channel: int = 0
    producer: int = 0
    size: int = 10
    key: str | None = None
    tries: int = 8
    twice: float | None = None
    kept: bool = True
    structured: bool = False
    scripts: tuple[Script, ...] = ()

    def script(self, subscription: str, role: str) -> Script:
        for script in self.scripts:
            if (script.subscription, script.role) == (subscription, role):
                return script
        return Script(subscription, role)


# The scaler's longest pause, an ack wait, a take-over, a sweep, and something for each to follow on another.
_RECOVERY = 90.0
# A consumer that stands ahead of its stream is put back at the second look, half a minute after the first.
PUT_BACK = 90.0
# The pause between two attempts of an event that can't be parked.
_STUCK = 50.0


@dataclass(frozen=True, slots=True)
class Plan:
    """One history.

    Attributes:
        shuffle: the loop picks any ready callback; else the first, as asyncio does.
        latency: the least and the most seconds of a passage.
        sync_always: nats-server syncs before it acknowledges.
        replicated: it leaves a consumer where it stands that remembers more than its stream.
    """

    seed: int
    shuffle: bool = False
    latency: tuple[float, float] = (0.0001, 0.002)
    sync_always: bool = False
    replicated: bool = False
    channels: tuple[ChannelPlan, ...] = (ChannelPlan("c0", (SubscriptionPlan("s0"),)),)
    events: tuple[EventPlan, ...] = ()
    faults: tuple[Fault, ...] = ()

    def subscriptions(self) -> dict[str, SubscriptionPlan]:
        """By their names in full, as in `c0/s1`."""
        return {f"{one.name}/{sub.name}": sub for one in self.channels for sub in one.subscriptions}

    def event(self, id: str) -> EventPlan | None:
        return next((one for one in self.events if one.id == id), None)

    @property
    def patience(self) -> float:
        """Seconds after the last event and the last strike within which everything must have been settled."""
        longest = max(self._work(name, terms) for name, terms in self.subscriptions().items())
        stuck = any(fault.kind is Kind.ASIDE_FULL for fault in self.faults)
        back = self.replicated and any(fault.kind is Kind.POWER for fault in self.faults)
        return longest + _RECOVERY + 2 * _STUCK * stuck + PUT_BACK * back

    def _work(self, name: str, terms: SubscriptionPlan) -> float:
        """Seconds for all events of a subscription, one after the other."""
        seconds = 0.0
        for event in self.events:
            for role in ROLES:
                for n, step in enumerate(event.script(name, role).steps, 1):
                    hangs = step.deed in (Deed.HANG, Deed.TAKE_HANG) or step.seconds > terms.timeout
                    pause = max(terms.wait(min(n, terms.retry + 1)), step.retry_after or 0.0)
                    seconds += (terms.timeout if hangs else step.seconds) + pause
        return seconds

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)


def from_json(text: str) -> Plan:
    """The inverse of `Plan.to_json`."""
    body = json.loads(text)
    return Plan(
        **{
            **body,
            "latency": tuple(body["latency"]),
            "channels": tuple(
                ChannelPlan(one["name"], tuple(SubscriptionPlan(**sub) for sub in one["subscriptions"]))
                for one in body["channels"]
            ),
            "events": tuple(_event(one) for one in body["events"]),
            "faults": tuple(_fault(one) for one in body["faults"]),
        }
    )


def _event(body: dict[str, Any]) -> EventPlan:
    scripts = tuple(
        Script(**{**one, "steps": tuple(Step(**{**step, "deed": Deed(step["deed"])}) for step in one["steps"])})
        for one in body["scripts"]
    )
    return EventPlan(**{**body, "scripts": scripts})


def _fault(body: dict[str, Any]) -> Fault:
    frame = body["frame"]
    return Fault(
        **{
            **body,
            "kind": Kind(body["kind"]),
            "frame": None if frame is None else Frame(**{**frame, "verb": Verb(frame["verb"])}),
            "values": tuple(body["values"]),
        }
    )


def draw(seed: int) -> Plan:
    """The plan of a seed."""
    source = random.Random(f"{seed}:plan")
    channels = tuple(_channel(source, number) for number in range(source.choice((1, 1, 1, 2))))
    mood = source.choice((0.0, 0.1, 0.3, 0.6))
    events, at = [], 0.0
    for number in range(source.choice((3, 6, 12, 12, 20))):
        at = round(at + source.choice((0.0, 0.0, 0.01, 0.3, 1.5)), 3)
        events.append(_an_event(source, number, at, channels, mood))
    drawn = Plan(
        seed,
        shuffle=source.random() < 0.5,
        latency=source.choice(((0.0001, 0.002), (0.0005, 0.02), (0.001, 0.1))),
        sync_always=source.random() < 0.2,
        channels=channels,
        events=tuple(events),
    )
    struck = faults.draw(source, list(drawn.subscriptions()), at)
    drawn = replace(drawn, faults=struck, replicated=source.random() < 0.5)
    theme = source.choice((*[None] * 13, _left_ahead, _lost_on_the_wire, _early))
    return drawn if theme is None else theme(drawn, source)


def _lost_on_the_wire(drawn: Plan, source: random.Random) -> Plan:
    """Many events of few keys at once, and a connection that breaks with some of them on the wire."""
    terms = replace(_subscription(source, 0), order="by-key", max_ack_pending=1000, timeout=20.0)
    events = [
        EventPlan(f"e{n}", round(n * 0.02, 3), key=source.choice(("k0", "k0", "k1")), kept=True)
        for n in range(source.choice((8, 12, 16)))
    ]
    slow = source.choice((0.0, 0.1, 0.4))
    slowly = (Script("c0/s0", SUBSCRIBER, (Step(Deed.ANSWER, 202, slow),)),)
    events = [replace(one, scripts=slowly) for one in events]
    frame = Frame(Verb.DELIVERY, source.randint(1, len(events)), source.random() < 0.5)
    fault = Fault(Kind.RESET, "", None, frame)
    return replace(drawn, channels=(ChannelPlan("c0", (terms,)),), events=tuple(events), faults=(fault,))


def _left_ahead(drawn: Plan, source: random.Random) -> Plan:
    """Replicas lose power and what they have stored, but not what a consumer has; fewer events come then."""
    times = [*[0.0] * source.choice((3, 5)), *(8.0 + n for n in range(2))]
    events = [EventPlan(f"e{n}", at) for n, at in enumerate(times)]
    fault = Fault(Kind.POWER, "nats", 4.0, seconds=1.0, values=(0.0, 1.0, 1.0))
    terms = replace(_subscription(source, 0), timeout=3.0)
    lost = replace(drawn, sync_always=False, replicated=True, faults=(fault,))
    return replace(lost, channels=(ChannelPlan("c0", (terms,)),), events=tuple(events))


def _early(drawn: Plan, source: random.Random) -> Plan:
    """Retries that wait longer than an ack wait, and a server that dies before it has written down that they wait."""
    terms = replace(_subscription(source, 0), retry=2, delay=12.0, backoff="linear", timeout=3.0, order="unordered")
    steps = (Step(Deed.ANSWER, 500, 0.5), Step(Deed.ANSWER, 202))
    events = [EventPlan(f"e{n}", round(n * 0.5, 3), scripts=(Script("c0/s0", SUBSCRIBER, steps),)) for n in range(4)]
    fault = Fault(Kind.NATS_KILL, "nats", None, Frame(Verb.NAK, source.randint(1, 4), False), 0.4, (0.0,))
    return replace(drawn, channels=(ChannelPlan("c0", (terms,)),), events=tuple(events), faults=(fault,))


def _channel(source: random.Random, number: int) -> ChannelPlan:
    count = source.choice((1, 1, 2, 3))
    return ChannelPlan(f"c{number}", tuple(_subscription(source, one) for one in range(count)))


def _subscription(source: random.Random, number: int) -> SubscriptionPlan:
    return SubscriptionPlan(
        f"s{number}",
        retry=source.choice((0, 1, 2, 3)),
        backoff=source.choice(("linear", "exponential")),
        delay=source.choice((0.1, 0.5, 2.0, 6.0)),
        timeout=source.choice((1.0, 3.0, 12.0, 20.0)),
        retry_after_max=source.choice((0.0, 5.0)),
        reply=source.random() < 0.4,
        dead_letter=source.random() < 0.5,
        order=source.choice(("unordered", "unordered", "ordered", "by-key")),
        max_scale=source.choice((1, 2, 2, 3)),
        lag_threshold=source.choice((1, 4)),
        max_ack_pending=source.choice((1000, 1000, 5)),
    )


def _an_event(
    source: random.Random, number: int, at: float, channels: tuple[ChannelPlan, ...], mood: float
) -> EventPlan:
    channel = source.randrange(len(channels))
    scripts = tuple(
        script
        for sub in channels[channel].subscriptions
        for role in ROLES
        if (script := _script(source, f"c{channel}/{sub.name}", role, sub, mood)) is not None
    )
    return EventPlan(
        f"e{number}",
        at,
        channel,
        producer=source.randrange(2),
        size=source.choice((0, 10, 10, 3000, 40_000)),
        key=source.choice((None, "k0", "k0", "k1")),
        tries=source.choice((8, 8, 8, 1)),
        twice=source.choice((None, None, None, 0.0, 1.0)),
        kept=source.random() < 0.7,
        structured=source.random() < 0.2,
        scripts=scripts,
    )


def _script(source: random.Random, name: str, role: str, sub: SubscriptionPlan, mood: float) -> Script | None:
    if (role == REPLY and not sub.reply) or (role == DEAD_LETTER and not sub.dead_letter):
        return None
    replies = role == SUBSCRIBER and sub.reply and source.random() < 0.6
    steps: list[Step] = []
    if source.random() < mood:
        # As often as not more than the budget allows, and some that succeed among them: what comes again after a
        # success must not find its budget whole.
        for _ in range(source.choice((1, 2, sub.retry + 1, sub.retry + 2, sub.retry + 4))):
            steps.append(_step(source, sub, replies=replies))
    return Script(name, role, tuple(steps), replies) if steps or replies else None


def _step(source: random.Random, sub: SubscriptionPlan, *, replies: bool) -> Step:
    quick = round(source.uniform(0.0, 0.2), 3)
    # Around the timeout, around the ack wait of 8 s, around the sweep of 2 s that keeps an event in hand.
    slow = round(source.choice((sub.timeout * source.uniform(0.5, 1.4), source.uniform(1.0, 10.0))), 3)
    match source.choice(("again", "again", "again", "final", "well", "reset", "take-reset", "hang", "slow", "trickle")):
        case "again":
            status = source.choice((404, 408, 409, 429, 500, 502, 503))
            asked = source.choice((None, 1, 4)) if status in (429, 503) else None
            return Step(Deed.ANSWER, status, quick, asked)
        case "final":
            return Step(Deed.ANSWER, source.choice((400, 401, 413, 302)), quick)
        case "reset":
            return Step(Deed.RESET)
        case "take-reset":
            return Step(Deed.TAKE_RESET, seconds=quick)
        case "hang":
            return Step(source.choice((Deed.HANG, Deed.TAKE_HANG)))
        case "slow":
            return Step(Deed.REPLY if replies else Deed.ANSWER, source.choice((200, 200, 503)), slow)
        case "trickle":
            return Step(Deed.TRICKLE, seconds=slow)
    return Step(
        Deed.REPLY if replies else Deed.ANSWER, source.choice((200, 202, 204) if not replies else (200,)), quick
    )
