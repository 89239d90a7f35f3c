"""Consumers of ours that nobody wants: they are marked at once, kept for a grace, and deleted after it.

Where the Subscriptions are known, a consumer is deleted only when the API server itself has said that its Subscription
is no more (ADR 023). Called by `headrace.core.channel.binding`. Pure: the time is an argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from headrace.core.channel import truth
from headrace.core.channel.consumer import config
from headrace.core.channel.hook import Reference
from headrace.core.channel.own_consumer import OwnConsumer
from headrace.core.channel.peer import Peer
from headrace.core.channel.truth import Truth
from headrace.core.delivery.subscriber import Subscriber, SubscriberState
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.nats.action import Action, DeleteConsumer, PurgeSubjects, UpdateConsumer
from headrace.core.nats.stream import ChannelStream
from headrace.core.raw_config import merged


@dataclass(frozen=True, slots=True)
class LeavingTerms:
    """The terms for all consumers of a channel.

    Attributes:
        subjects: the subjects of the stream that they see; empty for all of them.
        filters_stay: those that exist go on seeing the subjects that they have seen.
        grace: how long a consumer outlives its entry.
        truth: the known facts about the Subscriptions.
        peers: consumers of the Go channel, by durable name.
        retention: of the stream, as the server writes it.
        harm: the harm that a created or changed consumer would inherit from the stream, for people; empty for none.
    """

    place: ChannelStream
    template: ConsumerTemplate
    subjects: tuple[str, ...]
    grace: timedelta
    now: datetime
    truth: Truth = field(default_factory=Truth)
    peers: Mapping[str, Peer] = field(default_factory=dict)
    retention: str = "limits"
    harm: str = ""
    filters_stay: bool = False


@dataclass(frozen=True, slots=True)
class Leaver:
    """A consumer of ours that no Subscription wants.

    Attributes:
        left: the rest of its grace period; zero when it may go.
        subscriber: the subscriber that it serves until then, by its metadata; None when it goes now.
        question: the object to ask the API server for before the consumer may go.
    """

    durable: str
    actions: tuple[Action, ...]
    left: timedelta
    subscriber: Subscriber | None = None
    question: Reference | None = None


def see_off(consumer: OwnConsumer, terms: LeavingTerms, *, spare: bool = False) -> Leaver:
    """The next step of a consumer on its way out.

    Args:
        spare: another consumer serves its Subscription.
    """
    since = _moment(consumer.subscriber.gone_since) if consumer.subscriber.state is SubscriberState.GONE else None
    if since is not None and since > terms.now:
        # The clock of the program that marked it was ahead of ours: its grace begins now.
        since = None
    left = terms.grace - (terms.now - since) if since is not None else terms.grace
    if left <= timedelta():
        return _go(consumer, terms, spare=spare)
    if since is not None:
        return Leaver(consumer.durable, (), left, consumer.subscriber)
    gone = replace(consumer.subscriber, state=SubscriberState.GONE, gone_since=terms.now.isoformat())
    marked = config(gone, consumer.durable, terms.template, ())["metadata"]
    update = UpdateConsumer(terms.place.stream, merged(consumer.config, {"metadata": marked}))
    return Leaver(consumer.durable, (update,), left, gone)


def forget(place: ChannelStream, durable: str) -> PurgeSubjects:
    """Delete the stage records of a consumer."""
    return PurgeSubjects(place.aside, f"{place.stages.removesuffix('>')}{durable}.>")


def _go(consumer: OwnConsumer, terms: LeavingTerms, *, spare: bool) -> Leaver:
    known, asked = consumer.subscriber, terms.truth
    if asked.complete and not spare:
        namespace = known.subscription_namespace or known.namespace
        if asked.has_successor((known.namespace, known.channel), namespace, known.name):
            # The new Subscription's entry is on its way, and takes the consumer over with its position.
            return Leaver(consumer.durable, (), timedelta(), known)
        # A Subscription whose uid was damaged can't be asked for; the check just above found none of its name.
        if known.uid and known.name and not asked.denies(known.uid):
            question = truth.reference(known.uid, namespace, known.name)
            return Leaver(consumer.durable, (), timedelta(), known, question)
    delete = DeleteConsumer(terms.place.stream, consumer.durable)
    return Leaver(consumer.durable, (delete, forget(terms.place, consumer.durable)), timedelta())


def _moment(text: str | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text or "")
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else None
