"""A history laid out for judgement: who did what to which event, what `forward` heard, and what a strike excuses.

An excuse is narrow. A strike excuses what happens to an event again if it fell between the event's delivery to a
`forward` and the server's reading of the record or the ack, and hit that `forward` or the server.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.faults import Kind
from tests.simulation.ledger import FOR_EVER, Act, Ledger, Post, Strike
from tests.simulation.plan import PUT_BACK, REPLY, SUBSCRIBER, Deed, Plan, SubscriptionPlan

ACK_WAIT = 8.0
RETRYABLE = frozenset({404, 408, 409, 429})
# These leave every connection and every process as it is. TERM is the product's own end: it finishes what it has begun.
_HARMLESS = (Kind.WALL, Kind.TWO_SCALERS, Kind.STREAM_FULL, Kind.TERM)
# So long after its end a strike is still felt: connections have to be found broken and made anew.
_FELT = {Kind.CUT: 10.0, Kind.PAUSE: 10.0, Kind.SLOW: 5.0, Kind.NATS_KILL: 5.0, Kind.POWER: 5.0, Kind.NO_LEADER: 6.0}
_FELT_ELSE = 1.0
_UNWRITTEN = 0.3
DELETED = 1.0  # the value of an EDIT that deletes the consumer


class Unsure:
    """What `forward` heard can't be told: the answer came about when it gave up waiting, or a strike came between."""


UNSURE = Unsure()


@dataclass(frozen=True, slots=True)
class Journey:
    """One event on its way to one subscription: its POSTs and acts, each in order of time."""

    event: str
    name: str
    terms: SubscriptionPlan
    posts: list[Post]
    acts: list[Act]

    def of(self, role: str) -> list[Post]:
        return [post for post in self.posts if post.role == role]

    def between(self, since: float, until: float, *verbs: str) -> list[Act]:
        return [act for act in self.acts if since <= act.at <= until and act.verb in verbs]

    def acked(self, since: float = 0.0) -> float:
        """When the server acted upon an ack, at that time or later."""
        return next((act.at for act in self.acts if act.at >= since and act.verb in ("ACK", "ACK_SYNC")), FOR_EVER)

    def delivered(self, post: Post) -> float:
        """When the server gave the event to the `forward` that POSTed it then."""
        given = self._given(post)
        return given.at if given is not None else post.at

    @property
    def given_at(self) -> float:
        """When the server gave the event away for the first time; zero if the witness has not seen that."""
        return next((act.at for act in self.acts if act.verb == "DELIVERY"), 0.0)

    def is_fresh(self, post: Post) -> bool:
        """Did the server say that this is the event's first delivery? Then no record of it is looked for."""
        given = self._given(post)
        return given is not None and given.delivered == 1

    def _given(self, post: Post) -> Act | None:
        given = (act for act in reversed(self.acts) if act.verb == "DELIVERY" and act.at <= post.at)
        return next((act for act in given if post.host in ("", act.host)), None)


class History:
    """Plan and ledger, by event and subscription."""

    def __init__(self, plan: Plan, ledger: Ledger) -> None:
        self.plan = plan
        self.ledger = ledger
        self.terms = plan.subscriptions()
        self.events = {event.id: event for event in plan.events}
        self._posts: dict[tuple[str, str], list[Post]] = defaultdict(list)
        self._acts: dict[tuple[str, str], list[Act]] = defaultdict(list)
        for post in sorted(ledger.posts, key=lambda one: one.at):
            self._posts[post.event, post.subscription].append(post)
        for act in ledger.acts:
            self._acts[act.event, act.subscription].append(act)
        self.edited = {strike.fault.target for strike in ledger.strikes if strike.fault.kind is Kind.EDIT}
        self.slack = 6 * plan.latency[1] + 0.05

    def journeys(self) -> Iterator[Journey]:
        for event in self.plan.events:
            channel = self.plan.channels[event.channel]
            for terms in channel.subscriptions:
                name = f"{channel.name}/{terms.name}"
                yield Journey(event.id, name, terms, self._posts[event.id, name], self._acts[event.id, name])

    def hits(self, since: float, until: float, *hosts: str, harmless: tuple[Kind, ...] = _HARMLESS) -> list[Strike]:
        """The strikes that were felt in that time, by these hosts or by the server; without hosts, by anybody."""
        concerned = {*hosts, "nats"}
        return [
            strike
            for strike in self.ledger.strikes
            if strike.at <= until
            and strike.until + _FELT.get(strike.fault.kind, _FELT_ELSE) >= since
            and strike.fault.kind not in harmless
            and not (strike.fault.kind is Kind.EDIT and DELETED not in strike.fault.values)
            and (not hosts or not strike.hosts or concerned.intersection(strike.hosts))
        ]

    def forgotten(self, name: str, moment: float, until: float) -> bool:
        """Has the server lost, by `until`, what it learnt about this consumer at that moment?"""
        for strike in self.ledger.strikes:
            fault = strike.fault
            # A consumer that is put back forgets that late.
            later = PUT_BACK if fault.kind is Kind.POWER and self.plan.replicated else 0.0
            if not moment - later <= strike.at <= until:
                continue
            if fault.kind is Kind.POWER or (
                fault.kind is Kind.EDIT and DELETED in fault.values and fault.target == name
            ):
                return True
            # A server that dies has not written yet what its consumers' files do not hold.
            unwritten = max(fault.values, default=0.0) + _UNWRITTEN
            if fault.kind is Kind.NATS_KILL and strike.at - moment <= unwritten:
                return True
        return False

    def deletes(self) -> bool:
        """Did somebody delete a consumer by hand?"""
        return any(one.fault.kind is Kind.EDIT and DELETED in one.fault.values for one in self.ledger.strikes)

    def loses_power(self, since: float, until: float = FOR_EVER) -> bool:
        """Did power fail, and take what was not synced then, after that moment?"""
        return any(one.fault.kind is Kind.POWER and since <= one.at <= until for one in self.ledger.strikes)

    def put_back(self, journey: Journey, post: Post) -> bool:
        """Did it come as if for the first time, since its consumer stood ahead of the stream after power failed?"""
        return journey.is_fresh(post) and self.loses_power(0.0, post.at) and not self.plan.sync_always

    def struck_by(self, *kinds: Kind) -> bool:
        return any(strike.fault.kind in kinds for strike in self.ledger.strikes)

    def heard(self, journey: Journey, post: Post) -> int | Unsure | None:
        """The status that `forward` heard; None for no answer in time."""
        took = post.ended - post.at
        limit = journey.terms.timeout
        if journey.name in self.edited and post.status is not None and took > 0.5:
            return UNSURE
        if self.hits(post.at - 1.0, min(post.ended, post.at + limit) + self.slack, post.host):
            return UNSURE
        if post.status is None or took > limit:
            return None
        return post.status if took + self.slack < limit else UNSURE

    def replied(self, journey: Journey, post: Post) -> bool:
        """Did this POST's answer bring an event that has to be handed on?"""
        if post.role != SUBSCRIBER or not journey.terms.reply or post.status in (None, 202):
            return False
        return self.events[journey.event].script(journey.name, SUBSCRIBER).step(post.n).deed is Deed.REPLY

    def finished(self, journey: Journey, post: Post) -> bool | None:
        """Was the event done with this POST? None: perhaps."""
        heard = self.heard(journey, post)
        if isinstance(heard, Unsure):
            return None if post.status is not None and 200 <= post.status <= 299 else False
        if heard is None or not 200 <= heard <= 299:
            return False
        return post.role != SUBSCRIBER or not self.replied(journey, post)

    def may_have_finished(self, journey: Journey, until: float = FOR_EVER) -> bool:
        """Could `forward` know by then that the event is done?"""
        return any(post.ended <= until and self.finished(journey, post) is not False for post in journey.posts)


def retryable(status: int | None) -> bool:
    return status is None or status >= 500 or status in RETRYABLE


def stage_of(role: str) -> int:
    """The place of a stage in the attempts of a record."""
    return 0 if role == SUBSCRIBER else 1 if role == REPLY else 2


def at_once(moments: list[tuple[float, float]], now: float) -> int:
    """How many of these spans hold that moment."""
    begun = sorted(begin for begin, _ in moments)
    ended = sorted(end for _, end in moments)
    return bisect_right(begun, now) - bisect_left(ended, now) if moments else 0
