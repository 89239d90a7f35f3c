"""Which consumer serves which entry of `spec.subscribers`.

The list of entries lies: live entries vanish for a moment, dead ones stay, old generations come back, and a changed
Trigger is deleted and made again under its name with a new uid (ADR 005). So a consumer is found by uid or else by
name, and keeps its position and its durable name for ever. Where the Subscriptions themselves are known, they decide
(ADR 023). Consumers that nobody wants are the matter of `headrace.core.channel.leaving`. Pure: the time is an argument.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from headrace.core import names
from headrace.core.channel import peer, truth
from headrace.core.channel.consumer import ALL_SUBJECTS, BEGIN, FILTERS, FIXED_AT_BIRTH, OBEYED, Row, config
from headrace.core.channel.hook import Reference
from headrace.core.channel.leaving import Leaver, LeavingTerms, forget, see_off
from headrace.core.channel.own_consumer import OwnConsumer, owned
from headrace.core.channel.truth import Truth
from headrace.core.delivery import order_spec
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.nats.action import Action, CreateConsumer, DeleteConsumer, UpdateConsumer
from headrace.core.nats.stream import ChannelStream, Owner
from headrace.core.raw_config import Config, differs, merged


@dataclass(frozen=True, slots=True)
class Binding:
    """One entry and the consumer that serves it.

    Attributes:
        generation: the entry's, or a newer one that its consumer knows already.
        subscriber: its consumer's metadata, now or soon; None when there is no consumer for this entry.
        problem: why there is none, for people.
        drift: settings of the template that NATS can't give to a consumer that exists, for people.
        undecided: it is not known yet whether events are to be delivered to this entry.
        question: the object to ask the API server for, so that this can be decided.
        prune: the entry is a leftover and is to be taken out of `spec.subscribers`.
        refusal: why the consumer is not made, or not changed, as wanted, for people.
        of_peer: full name of the Subscription while the Go channel still delivers to it; else empty.
    """

    uid: str
    generation: int
    subscriber: Subscriber | None
    durable: str = ""
    actions: tuple[Action, ...] = ()
    problem: str = ""
    drift: str = ""
    undecided: bool = False
    question: Reference | None = None
    prune: bool = False
    refusal: str = ""
    of_peer: str = ""


def consumers(
    rows: Sequence[Row], observed: Iterable[Config], terms: LeavingTerms
) -> tuple[tuple[Binding, ...], tuple[Leaver, ...]]:
    """Bind every entry to a consumer, in the order of the entries, and see off leftover consumers.

    The bindings of live Subscriptions without an entry, which a consumer of ours still serves, come last.

    Args:
        observed: the configurations of all consumers of the stream; only ours and the Go channel's are touched.
    """
    everything = {str(config["name"]): config for config in observed}
    ours = _ours(everything, terms.place.owner)
    by_uid = {consumer.subscriber.uid: consumer for consumer in reversed(ours)}
    wanted = [row for row in rows if row.subscriber is not None and not terms.truth.misses(row.uid)]
    serving = _match(wanted, ours, terms.truth)
    bindings = [
        _leftover(row, row.subscriber, by_uid.get(row.uid), terms)
        if row.subscriber is not None and terms.truth.misses(row.uid)
        else _bind(row, serving.get(row.uid), everything, terms)
        for row in rows
    ]
    # A live Subscription keeps its consumer even if the list does not name it.
    living = {uid: one for uid, one in by_uid.items() if uid not in serving and terms.truth.lives(uid)}
    entries = {row.uid for row in rows}
    bindings += [_keep(living[uid], everything, terms) for uid in sorted(living) if uid not in entries]
    serving |= living
    kept = {consumer.durable for consumer in serving.values()}
    leavers = [see_off(one, terms, spare=one.subscriber.uid in serving) for one in ours if one.durable not in kept]
    return tuple(bindings), tuple(sorted(leavers, key=lambda leaver: leaver.durable))


def removal(observed: Iterable[Config], place: ChannelStream) -> tuple[Action, ...]:
    durables = sorted(str(config["name"]) for config in observed if owned(config, place.owner) is not None)
    return tuple(DeleteConsumer(place.stream, durable) for durable in durables)


def _ours(everything: dict[str, Config], owner: Owner) -> list[OwnConsumer]:
    """The consumers of this channel, by name; those on their way out come last, so that the others are taken first."""
    ours = [
        OwnConsumer(durable, config, subscriber)
        for durable, config in sorted(everything.items())
        if (subscriber := owned(config, owner)) is not None
    ]
    return sorted(ours, key=lambda consumer: consumer.subscriber.state is SubscriberState.GONE)


def _match(rows: list[Row], ours: list[OwnConsumer], truth: Truth) -> dict[str, OwnConsumer]:
    """The consumer that serves each row, by the row's uid: found by uid, or else taken over by name."""
    serving = _by_uid(rows, ours)
    newcomers = [row for row in rows if row.uid not in serving]
    taken = {consumer.durable for consumer in serving.values()}
    free = [
        consumer
        for consumer in ours
        if consumer.durable not in taken
        and consumer.subscriber.uid not in serving
        and consumer.subscriber.uid not in truth.subscriptions
    ]
    return serving | _by_name(newcomers, free)


def _by_uid(rows: list[Row], ours: list[OwnConsumer]) -> dict[str, OwnConsumer]:
    found = {consumer.subscriber.uid: consumer for consumer in reversed(ours)}
    # A consumer whose mark was damaged by hand is still known by its own name, which is the uid that it was born with.
    born = {consumer.durable: consumer for consumer in ours if not consumer.subscriber.uid}
    for row in rows:
        for durable in (names.durable(row.uid), peer.successor(names.durable(row.uid))):
            if row.uid not in found and durable in born:
                found[row.uid] = born[durable]
    return {row.uid: found[row.uid] for row in rows if row.uid in found}


def _by_name(newcomers: list[Row], free: list[OwnConsumer]) -> dict[str, OwnConsumer]:
    """The consumers that rows without one take over by name.

    The name must be that of one newcomer alone: two Subscriptions from two namespaces may have the same, and an entry
    does not tell its namespace.
    """
    called = Counter(_name(row.subscriber) for row in newcomers)
    first = {_name(consumer.subscriber): consumer for consumer in reversed(free)}
    names_of = ((row, _name(row.subscriber)) for row in newcomers)
    return {row.uid: first[name] for row, name in names_of if name in first and called[name] == 1 and name[1]}


def _name(subscriber: Subscriber | None) -> tuple[str, str]:
    if subscriber is None:
        return "", ""
    return subscriber.subscription_namespace or subscriber.namespace, subscriber.name


def _leftover(row: Row, subscriber: Subscriber, known: OwnConsumer | None, terms: LeavingTerms) -> Binding:
    """An entry without a Subscription: it gets no events, and is taken out once the API server itself has said so.

    The watch may be a moment behind the entry of a new Subscription.
    """
    # The consumer may know the namespace better than the entry.
    namespace, name = _name(known.subscriber if known else subscriber)
    binding = Binding(row.uid, row.generation, None)
    if terms.truth.denies(row.uid):
        problem = f"there is no Subscription with the uid {row.uid}: this entry is a leftover, and is taken out"
        return replace(binding, problem=problem, prune=True)
    if not name:
        advice = "give the entry its name, or take it out"
        return replace(binding, problem=f"there is no Subscription with the uid {row.uid}: {advice}")
    return replace(
        binding,
        problem=f"no Subscription with the uid {row.uid} is known yet",
        undecided=True,
        question=truth.reference(row.uid, namespace, name),
    )


def _keep(serving: OwnConsumer, everything: dict[str, Config], terms: LeavingTerms) -> Binding:
    """A live Subscription goes on as it was while the list has no entry for it."""
    known = serving.subscriber
    row = Row(known.uid, known.generation, _revived(known))
    return _bind(row, serving, everything, terms)


def _bind(row: Row, serving: OwnConsumer | None, everything: dict[str, Config], terms: LeavingTerms) -> Binding:
    if row.subscriber is None:
        return Binding(row.uid, row.generation, None, problem=row.problem)
    if serving is None:
        return _create(row, row.subscriber, everything, terms)
    if problem := _by_hand(serving.config, terms):
        return Binding(row.uid, row.generation, None, problem=problem)
    subscriber = _newest(row.subscriber, serving.subscriber)
    wanted = config(subscriber, serving.durable, terms.template, terms.subjects)
    wanted |= order_spec.undone(serving.config, wanted)
    taken = peer.TAKEN_KEY in (serving.config.get("metadata") or {})
    if terms.filters_stay or (taken and terms.subjects and not terms.template.subjects):
        # In a stream that is not ours alone, it goes on seeing the subjects that it saw before it was ours.
        wanted = {key: value for key, value in wanted.items() if key not in FILTERS}
    if any(serving.config.get(key) for key in FILTERS) and not any(wanted.get(key, True) for key in FILTERS):
        # A consumer whose filters are taken away is deaf: the server (2.15.1) counts nothing new for it and serves no
        # waiting pull, until it starts again. One that is to see all is heard.
        wanted["filter_subject"] = ALL_SUBJECTS
    fixed = {key: wanted.pop(key) for key in FIXED_AT_BIRTH}
    changed = differs(serving.config, {key: value for key, value in wanted.items() if key not in OBEYED})
    # A change would make it inherit the harm; without one, it goes on as it is.
    refusal = terms.harm if changed else ""
    update = (UpdateConsumer(terms.place.stream, merged(serving.config, wanted)),) if changed and not refusal else ()
    replaced = terms.peers.get(names.durable(row.uid))
    if replaced is not None and replaced.push and not replaced.busy and replaced.durable != serving.durable:
        # This one was left over when a take-over broke off.
        update = (*update, DeleteConsumer(terms.place.stream, replaced.durable))
    if taken:
        # The consumer begins where the Go channel's ended, whatever the template says.
        fixed = {key: value for key, value in fixed.items() if key not in BEGIN}
    return Binding(
        uid=row.uid,
        generation=subscriber.generation,
        subscriber=subscriber,
        durable=serving.durable,
        actions=update,
        refusal=refusal,
        drift=_drift(serving.config, fixed),
    )


def _create(row: Row, subscriber: Subscriber, everything: dict[str, Config], terms: LeavingTerms) -> Binding:
    durable = names.durable(row.uid)
    if terms.harm:
        return Binding(row.uid, row.generation, None, problem=terms.harm, refusal=terms.harm)
    if durable in terms.peers:
        return _take_over(row, subscriber, terms.peers[durable], everything, terms)
    if problem := _by_hand(everything.get(durable), terms):
        return Binding(row.uid, row.generation, None, problem=problem)
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
            forget(terms.place, durable),
            CreateConsumer(terms.place.stream, config(subscriber, durable, terms.template, terms.subjects)),
        ),
    )


def _by_hand(observed: Config | None, terms: LeavingTerms) -> str:
    """Why a push consumer with our name, or even our mark, that somebody has made by hand can't serve.

    The Go channel's are known by their deliver subject and taken over; NATS can't make one a pull consumer.
    """
    deliver = (observed or {}).get("deliver_subject")
    if observed is None or not deliver:
        return ""
    name, stream = observed["name"], terms.place.stream
    return (
        f"consumer {name} is a push consumer, which delivers to the subject {deliver!r}: somebody has made it by hand "
        "in the place of ours, which pulls, so nothing is delivered by Headrace. Delete it "
        f"(nats consumer rm {stream} {name}), and ours is made; where it begins deliverPolicy says"
    )


def _take_over(
    row: Row, subscriber: Subscriber, theirs: peer.Peer, everything: dict[str, Config], terms: LeavingTerms
) -> Binding:
    """Make the Go channel's consumer ours, or put one of ours into its place."""
    if theirs.busy:
        problem = f"the Go channel's dispatcher still delivers from {theirs.durable}: {peer.ADVICE}"
        return Binding(row.uid, row.generation, None, problem=problem, undecided=True, of_peer=subscriber.full_name)
    if not theirs.push:
        adopted = {**theirs.config, "metadata": {**(theirs.config.get("metadata") or {}), peer.TAKEN_KEY: "peer"}}
        return _bind(row, OwnConsumer(theirs.durable, adopted, subscriber), everything, terms)
    durable = theirs.durable if terms.retention == "workqueue" else peer.successor(theirs.durable)
    wanted = config(subscriber, durable, terms.template, peer.sees(theirs) if terms.subjects else ())
    wanted["metadata"] = {**wanted["metadata"], peer.TAKEN_KEY: "peer"}
    return Binding(
        uid=row.uid,
        generation=row.generation,
        subscriber=subscriber,
        durable=durable,
        actions=peer.replacement(theirs, terms.place, wanted, forget(terms.place, durable), terms.retention),
    )


def _newest(entry: Subscriber, known: Subscriber) -> Subscriber:
    """The entry, unless the consumer knows a later generation of it: then the list is stale."""
    if entry.uid != known.uid or entry.generation >= known.generation:
        return entry
    return _revived(known)


def _revived(known: Subscriber) -> Subscriber:
    """The subscriber as it was before it was GONE: REFUSED if it had a reason, which was kept."""
    state = SubscriberState.REFUSED if known.reason else SubscriberState.READY
    return replace(known, state=state, gone_since=None)


def _drift(observed: Config, fixed: Config) -> str:
    changes = [
        f"{key} stays {observed.get(key)!r}, since NATS can't make it {value!r} on a consumer that exists"
        for key, value in fixed.items()
        if differs(observed, {key: value})
    ]
    return "; ".join(changes)
