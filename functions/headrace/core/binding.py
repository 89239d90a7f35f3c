"""Which consumer serves which entry of `spec.subscribers`, and what becomes of the consumers that no entry wants.

The list of entries lies: live ones vanish for a moment, old generations come back, a changed Trigger is deleted and
made again under its name with a new uid (ADR 005). So a consumer is found by uid or else by name, keeps its
position and its durable name for ever, and goes only after a grace. Pure: the time is an argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from headrace.core import names, order_spec
from headrace.core.action import (
    Action,
    CreateConsumer,
    DeleteConsumer,
    Done,
    Outcome,
    PurgeSubjects,
    Rejected,
    UpdateConsumer,
)
from headrace.core.consumer import FIXED_AT_BIRTH, Row, config, owned
from headrace.core.consumer_spec import ConsumerTemplate
from headrace.core.raw_config import Config, differs, merged
from headrace.core.stream import Place
from headrace.core.subscriber import Subscriber, SubscriberState


@dataclass(frozen=True, slots=True)
class Binding:
    """One entry and the consumer that serves it.

    Attributes:
        generation: of the entry, or a newer one that its consumer knows already.
        subscriber: what the consumer's metadata says, or will; None when there is no consumer for this entry.
        problem: why, then.
        drift: what the template asks for and an existing consumer can't become, for people.
    """

    uid: str
    generation: int
    subscriber: Subscriber | None
    durable: str = ""
    actions: tuple[Action, ...] = ()
    problem: str = ""
    drift: str = ""


@dataclass(frozen=True, slots=True)
class Leaver:
    """A consumer of ours that no entry wants; `left` is what remains of its grace, zero when it goes now.

    Attributes:
        subscriber: whom it serves until then, as its metadata says; None when it goes now.
    """

    durable: str
    actions: tuple[Action, ...]
    left: timedelta
    subscriber: Subscriber | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all consumers of a channel.

    Attributes:
        subjects: what they see of the stream; empty for all of it.
        grace: how long a consumer outlives its entry.
    """

    place: Place
    template: ConsumerTemplate
    subjects: tuple[str, ...]
    grace: timedelta
    now: datetime


@dataclass(frozen=True, slots=True)
class _Consumer:
    durable: str
    config: Config
    subscriber: Subscriber


def consumers(
    rows: Sequence[Row], observed: Iterable[Config], terms: Terms
) -> tuple[tuple[Binding, ...], tuple[Leaver, ...]]:
    """Bind every entry, in their order, and see off the consumers that are left over.

    Args:
        observed: the configurations of all consumers of the stream; those that are not ours are not touched.
    """
    everything = {str(config["name"]): config for config in observed}
    ours = [
        _Consumer(durable, config, subscriber)
        for durable, config in sorted(everything.items())
        if (subscriber := owned(config, terms.place.owner)) is not None
    ]
    serving = _match([row for row in rows if row.subscriber is not None], ours)
    bindings = tuple(_bind(row, serving.get(row.uid), everything, terms) for row in rows)
    kept = {consumer.durable for consumer in serving.values()}
    leavers = tuple(_see_off(consumer, terms) for consumer in ours if consumer.durable not in kept)
    return bindings, leavers


def removal(observed: Iterable[Config], place: Place) -> tuple[Action, ...]:
    """Delete all consumers of the channel."""
    durables = sorted(str(config["name"]) for config in observed if owned(config, place.owner) is not None)
    return tuple(DeleteConsumer(place.stream, durable) for durable in durables)


def verified(action: Action, outcome: Outcome) -> Outcome:
    """What came of an action, once it is known that the server has kept what it cannot do without."""
    match action, outcome:
        case ((CreateConsumer(_, asked) | UpdateConsumer(_, asked)), Done(got)):
            problem = order_spec.too_old(asked, got)
            return Rejected(problem) if problem else outcome
    return outcome


def _match(rows: list[Row], ours: list[_Consumer]) -> dict[str, _Consumer]:
    """By uid; else by name, from those whose uid no entry has, and only where the name says it clearly."""
    # One that is delivered to comes before one that is on its way out.
    ours = sorted(ours, key=lambda consumer: consumer.subscriber.state is SubscriberState.GONE)
    found = {consumer.subscriber.uid: consumer for consumer in reversed(ours)}
    serving = {row.uid: found[row.uid] for row in rows if row.uid in found}
    free = [consumer for consumer in ours if consumer.subscriber.uid not in serving]
    newcomers = [row for row in rows if row.uid not in serving]
    called = [_name(row.subscriber) for row in newcomers]
    for row, name in zip(newcomers, called, strict=True):
        # Two links from two namespaces may bear one name, and an entry does not tell its namespace.
        same = [consumer for consumer in free if _name(consumer.subscriber) == name]
        if same and called.count(name) == 1 and name[1]:
            serving[row.uid] = same[0]
    return serving


def _name(subscriber: Subscriber | None) -> tuple[str, str]:
    if subscriber is None:
        return "", ""
    return subscriber.subscription_namespace or subscriber.namespace, subscriber.name


def _bind(row: Row, serving: _Consumer | None, everything: dict[str, Config], terms: Terms) -> Binding:
    if row.subscriber is None:
        return Binding(row.uid, row.generation, None, problem=row.problem)
    if serving is None:
        return _create(row, row.subscriber, everything, terms)
    subscriber = _newest(row.subscriber, serving.subscriber)
    wanted = config(subscriber, serving.durable, terms.template, terms.subjects)
    wanted |= order_spec.undone(serving.config, wanted)
    fixed = {key: wanted.pop(key) for key in FIXED_AT_BIRTH}
    changed = differs(serving.config, wanted)
    return Binding(
        uid=row.uid,
        generation=subscriber.generation,
        subscriber=subscriber,
        durable=serving.durable,
        actions=(UpdateConsumer(terms.place.stream, merged(serving.config, wanted)),) if changed else (),
        drift=_drift(serving.config, fixed),
    )


def _create(row: Row, subscriber: Subscriber, everything: dict[str, Config], terms: Terms) -> Binding:
    durable = names.durable(row.uid)
    if durable in everything:
        holder = owned(everything[durable], terms.place.owner)
        problem = (
            f"consumer {durable} exists without the mark of Headrace: delete it, or make the Subscription anew"
            if holder is None
            else f"consumer {durable} now serves {holder.name!r} with the uid {holder.uid}: this entry is out of date"
        )
        return Binding(row.uid, row.generation, None, problem=problem)
    return Binding(
        uid=row.uid,
        generation=row.generation,
        subscriber=subscriber,
        durable=durable,
        # A consumer of this name may have been here before, with other sequences.
        actions=(
            _forget(terms.place, durable),
            CreateConsumer(terms.place.stream, config(subscriber, durable, terms.template, terms.subjects)),
        ),
    )


def _newest(entry: Subscriber, known: Subscriber) -> Subscriber:
    """The entry, unless the consumer has seen a later generation of it: then the list is stale."""
    if entry.uid != known.uid or entry.generation >= known.generation:
        return entry
    # While it was GONE its reason was kept, and tells what it was before.
    state = SubscriberState.REFUSED if known.reason else SubscriberState.READY
    return replace(known, state=state, gone_since=None)


def _see_off(consumer: _Consumer, terms: Terms) -> Leaver:
    subscriber, stream = consumer.subscriber, terms.place.stream
    since = _moment(subscriber.gone_since) if subscriber.state is SubscriberState.GONE else None
    left = terms.grace - (terms.now - since) if since is not None else terms.grace
    if left <= timedelta():
        delete = DeleteConsumer(stream, consumer.durable)
        return Leaver(consumer.durable, (delete, _forget(terms.place, consumer.durable)), timedelta())
    if since is not None:
        return Leaver(consumer.durable, (), left, subscriber)
    gone = replace(subscriber, state=SubscriberState.GONE, gone_since=terms.now.isoformat())
    marked = config(gone, consumer.durable, terms.template, ())["metadata"]
    update = UpdateConsumer(stream, merged(consumer.config, {"metadata": marked}))
    return Leaver(consumer.durable, (update,), left, gone)


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else None


def _forget(place: Place, durable: str) -> PurgeSubjects:
    return PurgeSubjects(place.aside, f"{place.stages.removesuffix('>')}{durable}.>")


def _drift(observed: Config, fixed: Config) -> str:
    changes = [
        f"{key} stays {observed.get(key)!r}, since NATS can't make it {value!r} on a consumer that exists"
        for key, value in fixed.items()
        if differs(observed, {key: value})
    ]
    return "; ".join(changes)
