"""The whole status of a channel, from what was found and done in NATS, and when to reconcile it again.

Pure: the time is an argument. Called by `headrace.reconcile`. Only here does `InvalidSpec` become a condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from headrace.core.channel import bounded, granted, identities, peer
from headrace.core.channel.binding import Binding
from headrace.core.channel.children import Functions, ServedConsumer, SubscriberReadiness, addresses
from headrace.core.channel.dead_letter import Unresolved
from headrace.core.channel.desired import Desired
from headrace.core.channel.granted import Lowered
from headrace.core.channel.health import DISCARDED, UNSEEN, Health
from headrace.core.channel.health import conditions as conditions_of
from headrace.core.channel.hook import Reference
from headrace.core.channel.lease_places import Forward
from headrace.core.channel.leaving import Leaver
from headrace.core.channel.plan import Observed, Problem
from headrace.core.conditions import Condition, ready, stamp
from headrace.core.delivery.subscriber import LARGEST, Destination, SubscriberState
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import obeyed
from headrace.core.nats.stream import captures
from headrace.core.quoting import plain_lines
from headrace.core.raw_config import Config

LOOK_AGAIN = timedelta(seconds=30)
"""Nothing notifies us of the end of a trouble."""
LOOK_AT_WAITING = timedelta(minutes=5)
"""While events wait for a retry: the server may discard them, and nothing else would notice it (ADR 018)."""
LOOK_FOR_ROOM = timedelta(minutes=5)
"""Another channel's function may go, and make room for one of this channel's own."""
LOOK_AT_PEER = timedelta(seconds=10)
"""Nothing notifies us when the Go channel's dispatcher has stopped."""
RETRY_REFUSED = timedelta(seconds=30)
"""The server may take tomorrow what it refuses today, without any change of the channel."""


@dataclass(frozen=True, slots=True)
class Result:
    """The facts found and the work done in NATS for one channel.

    Attributes:
        observed: the streams as the server has them now.
        problems: of the streams.
        bindings: one per entry, in their order; None when a problem with the streams came before the consumers.
        leavers: consumers on their way out.
        refusals: the server's words, by durable name.
        health: the server's facts about streams and consumers that are as wanted; None where they are not.
        functions: the objects that serve the channel in Kubernetes; none where no image is set.
        lowered: defaults of ours that gave way to limits of the server.
        elsewhere: the stream is in a NATS account that the operator can't look into.
        tokens: why the operator has no tokens for a consumer, by its name.
        named: the condition that tells of names in the manifest that are not its to use.
        beyond: what the channel has beyond the administrator's bounds; each is a sentence.
    """

    observed: Observed
    problems: tuple[Problem, ...] = ()
    bindings: tuple[Binding, ...] | None = None
    leavers: tuple[Leaver, ...] = ()
    refusals: Mapping[str, str] | None = None
    health: Health | None = None
    functions: Functions = Functions()
    lowered: tuple[Lowered, ...] = ()
    elsewhere: bool = False
    tokens: Mapping[str, str] = field(default_factory=dict)
    named: Condition | None = None
    beyond: tuple[str, ...] = ()

    @property
    def served(self) -> tuple[ServedConsumer, ...] | None:
        """The consumers that need a `forward`; None when they were not reached.

        Consumers that no entry wants need one until they go, since the list of entries may be wrong.
        """
        if self.bindings is None:
            return None
        known = [(one.durable, one.subscriber) for one in self.bindings if one.durable]
        known += [(one.durable, one.subscriber) for one in self.leavers]
        return tuple(ServedConsumer(durable, subscriber) for durable, subscriber in known if subscriber is not None)

    @property
    def questions(self) -> tuple[Reference, ...]:
        """The objects to ask the API server for before more can be decided."""
        of_entries = [binding.question for binding in self.bindings or ()]
        asked = [*of_entries, *(leaver.question for leaver in self.leavers)]
        return tuple(dict.fromkeys(one for one in asked if one is not None))

    @property
    def leftovers(self) -> tuple[str, ...]:
        """The uids of entries whose Subscription is no more."""
        return tuple(dict.fromkeys(one.uid for one in self.bindings or () if one.prune))

    @property
    def troubles(self) -> tuple[Condition, ...]:
        """Conditions of severity Info; empty unless streams and consumers are as wanted."""
        if self.health is None:
            return ()
        return conditions_of(
            self.health, {one.durable: one.subscriber for one in self.bindings or () if one.subscriber}
        )


def invalid_status(parent: Mapping[str, Any], error: InvalidSpec, now: datetime) -> dict[str, Any]:
    """The status of a channel whose spec is invalid; the rest is kept, since nothing was changed in NATS."""
    conditions = (Condition("Ready", False, "InvalidSpec", str(error)),)
    return {
        **_previous(parent),
        "observedGeneration": _generation(parent),
        "conditions": stamp(conditions, parent, now),
    }


def status(parent: Mapping[str, Any], desired: Desired, result: Result, now: datetime) -> dict[str, Any]:
    """The channel's status, complete, with the exact numbers."""
    conditions = (*_conditions(desired, result), obeyed.condition(parent))
    auth = {row.uid: row.auth for row in desired.rows if row.auth}
    subscribers = [
        {**one, "auth": dict(auth[one["uid"]])} if one["uid"] in auth else one for one in _subscribers(desired, result)
    ]
    body: dict[str, Any] = {
        "observedGeneration": _generation(parent),
        "conditions": stamp((*conditions, ready(conditions)), parent, now),
        "stream": desired.wanted.place.stream,
        "subscribers": subscribers,
        "readySubscribers": f"{sum(one['ready'] == 'True' for one in subscribers)}/{len(subscribers)}",
        "consumers": _consumers(parent, result),
    }
    if result.elsewhere:
        body["elsewhere"] = True
    if _addressable(desired, result).holds:
        body |= addresses.to_status(desired.url, result.functions, read_only=_mirrors(desired, result))
        if result.functions.receive:
            body["receive"] = result.functions.receive
    if isinstance(desired.sink, Destination):
        body["deadLetterSinkUri"] = desired.sink.uri
        trust = {"deadLetterSinkCACerts": desired.sink.ca_certs, "deadLetterSinkAudience": desired.sink.audience}
        body.update({key: value for key, value in trust.items() if value})
    return body


def removal_refused_status(parent: Mapping[str, Any], words: str, now: datetime) -> dict[str, Any]:
    """The status of a channel that can't go yet."""
    refused = Condition("Ready", False, "RemovalRefused", f"NATS refused to remove what is this channel's: {words}")
    return {**_previous(parent), "conditions": stamp((refused,), parent, now)}


def resync_after(result: Result, numbers: timedelta | None = None) -> float:
    """Seconds until the channel should be looked at again although nothing changed; zero for never.

    Args:
        numbers: how long until the numbers in the status have to be written again; None for no need.
    """
    waits = [leaver.left for leaver in result.leavers if leaver.left > timedelta()]
    refused = result.problems or result.refusals or any(binding.refusal for binding in result.bindings or ())
    if refused or result.questions:
        waits.append(RETRY_REFUSED)
    if any(binding.of_peer for binding in result.bindings or ()):
        waits.append(LOOK_AT_PEER)
    # Nothing notifies us of an edit of the list of tenants.
    if result.named is not None:
        waits.append(LOOK_AT_WAITING if result.named.informative else RETRY_REFUSED)
    # Discarded events never come back, and events stored by others go only with an edit.
    if any(not trouble.holds and trouble.type not in (DISCARDED, UNSEEN) for trouble in result.troubles):
        waits.append(LOOK_AGAIN)
    # And nothing notifies us of a stream of others that closes a ring, in which one event becomes hundreds.
    if (result.observed.stream or {}).get("republish"):
        waits.append(LOOK_AGAIN)
    if result.functions.crowded or result.beyond:
        waits.append(LOOK_FOR_ROOM)
    if result.health is not None and result.health.waiting:
        waits.append(LOOK_AT_WAITING)
    if numbers is not None:
        waits.append(numbers)
    # A little after the exact moment: a clock that rounds down would cost one more round.
    return round(min(waits).total_seconds() + 0.1, 1) if waits else 0


def _conditions(desired: Desired, result: Result) -> tuple[Condition, ...]:
    problem = result.problems[0] if result.problems else None
    message = "; ".join(problem.message for problem in result.problems)
    conditions = [
        *([result.named] if result.named else []),
        Condition("StreamReady", problem is None, problem.reason if problem else "", message),
        _consumers_ready(result),
        _addressable(desired, result),
    ]
    match desired.sink:
        case Unresolved(reason, message):
            conditions.append(Condition("DeadLetterSinkResolved", False, reason, message))
        case Destination():
            conditions.append(Condition("DeadLetterSinkResolved", True))
    encrypted = addresses.lacking(desired.url, result.functions)
    plain = (encrypted,) if encrypted is not None and encrypted.informative else ()
    of_peer = peer.condition(binding.of_peer for binding in result.bindings or () if binding.of_peer)
    limits = granted.condition(result.lowered)
    beyond = bounded.condition(
        (*(row.beyond for row in desired.rows if row.beyond), *result.beyond, *result.functions.beyond)
    )
    return (*conditions, *plain, *result.functions.conditions, *of_peer, *limits, *beyond, *result.troubles)


def _consumers_ready(result: Result) -> Condition:
    if result.bindings is None:
        return Condition("ConsumersReady", False, "StreamNotReady", "consumers wait for the stream")
    missing = [
        binding
        for binding in result.bindings
        if (binding.subscriber is None and not (binding.undecided or binding.prune)) or _refusal(binding, result)
    ]
    if not missing and not result.refusals:
        return Condition("ConsumersReady", True)
    # One refused subscriber does not make the channel useless for the others: it is not ready, the channel is.
    message = "; ".join((result.refusals or {}).values()) or "see status.subscribers"
    count = f"{len(missing)} of {len(result.bindings)} subscribers have no consumer as wanted: "
    return Condition("ConsumersReady", False, "ConsumersRefused", count + message, informative=True)


def _addressable(desired: Desired, result: Result) -> Condition:
    stream: Config = result.observed.stream or {}
    if not _mirrors(desired, result) and not captures(stream, desired.wanted.place.channel.subject):
        message = f"no stream takes the subject {desired.wanted.place.channel.subject}"
        return Condition("Addressable", False, "SubjectNotCaptured", message)
    if result.bindings is None:
        return Condition("Addressable", False, "StreamNotReady", "see the condition StreamReady")
    if (lacking := addresses.lacking(desired.url, result.functions)) and not lacking.informative:
        return lacking
    if _mirrors(desired, result):
        message = "events come from the stream that is mirrored; the address refuses them"
        return Condition("Addressable", True, "MirrorIsReadOnly", message)
    return Condition("Addressable", True)


def _subscribers(desired: Desired, result: Result) -> list[dict[str, Any]]:
    if result.bindings is None:
        message = "; ".join(problem.message for problem in result.problems)
        return [_subscriber(row.uid, row.generation, row.problem or message) for row in desired.rows]
    found = []
    for binding in result.bindings:
        refused = _refusal(binding, result)
        state = binding.subscriber.state if binding.subscriber else SubscriberState.REFUSED
        reason = binding.subscriber.reason if binding.subscriber else binding.problem
        if binding.undecided:
            found.append(_subscriber(binding.uid, binding.generation, binding.problem, ready="Unknown"))
        elif refused or state is SubscriberState.REFUSED:
            found.append(_subscriber(binding.uid, binding.generation, refused or reason))
        elif without := _without_tokens(binding, result):
            found.append(_subscriber(binding.uid, binding.generation, without))
        else:
            delivers = result.functions.readiness.get(binding.durable, SubscriberReadiness())
            message = delivers.message or binding.drift
            found.append(_subscriber(binding.uid, binding.generation, message, ready=delivers.ready))
    return found


def _without_tokens(binding: Binding, result: Result) -> str:
    """Why no event can be sent with the tokens that the addresses ask for; empty where it can."""
    if binding.subscriber is None or not binding.subscriber.audiences:
        return ""
    return identities.ELSEWHERE if result.elsewhere else result.tokens.get(binding.durable, "")


def _consumers(parent: Mapping[str, Any], result: Result) -> list[Any]:
    if result.bindings is None:
        # Their functions stay, too.
        return list(_previous(parent).get("consumers") or ())
    numbers = result.health.counts if result.health else {}
    return [
        {
            "uid": binding.uid,
            "name": binding.subscriber.name,
            "durable": binding.durable,
            **_forward(result.functions.forwards.get(binding.durable)),
            **(numbers[binding.durable].to_json() if binding.durable in numbers else {}),
        }
        for binding in result.bindings
        if binding.subscriber is not None and not _refusal(binding, result)
    ]


def _forward(forward: Forward | None) -> dict[str, Any]:
    if forward is None:
        return {}
    return {"forward": forward.url, **({"pulls": True} if forward.pulls else {})}


def _mirrors(desired: Desired, result: Result) -> bool:
    stream = result.observed.stream
    return bool(desired.manifest.spec.stream.config.mirror if stream is None else stream.get("mirror"))


def _subscriber(uid: str, generation: int, message: str, *, ready: str = "False") -> dict[str, Any]:
    body = {"uid": uid, "observedGeneration": generation, "ready": ready}
    return {**body, "message": plain_lines(message)} if message else body


def _refusal(binding: Binding, result: Result) -> str:
    return binding.refusal or (result.refusals or {}).get(binding.durable, "")


def _generation(parent: Mapping[str, Any]) -> int:
    generation = parent["metadata"].get("generation")
    return generation if type(generation) is int and abs(generation) <= LARGEST else 0


def _previous(parent: Mapping[str, Any]) -> dict[str, Any]:
    before = parent.get("status")
    return dict(before) if isinstance(before, dict) else {}
