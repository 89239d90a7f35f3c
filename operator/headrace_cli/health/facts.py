"""All that NATS says of channels and of their Subscriptions, gathered once, as values. It decides nothing."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from headrace.core.channel import health
from headrace.core.delivery import forgotten, pull_trouble, stage_record
from headrace.core.delivery.stage_record import StageRecord
from headrace.core.delivery.sunk import Sunk
from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.stored_message import read_stored
from headrace.core.subject_pattern import filters
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel, channels
from headrace_cli.catalog.names import ChannelScope
from headrace_cli.catalog.subscriptions import CatalogSubscription, subscriptions, sunk_of
from headrace_cli.view import units

# So many stage records of each consumer show what goes wrong.
RECORDS = 3
SUSPECTS = 20
# Each filter costs one search for the oldest event.
MOST_FILTERS = 16


@dataclass(frozen=True, slots=True)
class SubscriptionFacts:
    """One consumer.

    Attributes:
        retrying: events that wait for another attempt.
        records: the stage records of some of these, the newest first.
        stuck: sequences of events that can be neither delivered nor parked.
        discarded: events that the server discarded before this subscriber had them.
        forgotten: sequences of some of the events that wait for a retry that NATS will never make.
        vain_pulls: why pulls bring no events now, in the server's words; empty when they do.
        parked: events that the subscriber did not take and that are kept aside.
        sunk: events that its dead letter sink took in its place; None for none.
        oldest: when the oldest event was stored that has not been handed out; None: not known, or there is none.
    """

    subscription: CatalogSubscription
    retrying: int = 0
    records: tuple[StageRecord, ...] = ()
    stuck: tuple[int, ...] = ()
    discarded: int = 0
    forgotten: tuple[int, ...] = ()
    vain_pulls: str = ""
    parked: int = 0
    sunk: Sunk | None = None
    oldest: datetime | None = None

    def idle_since(self, now: datetime) -> datetime:
        """Since when an event could have been handed out, and none was."""
        known = self.subscription
        moments = (self.oldest, known.delivered_at, units.moment(known.info.get("created")))
        return max((each for each in moments if each is not None), default=now)


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """One channel.

    Attributes:
        parked: includes events that are parked for Subscriptions that are gone.
        subjects: the subjects of its stream, with the number of events on each.
        subscribers: how many entries spec.subscribers has; None where the object was not looked at.
        last: the sequence with which its stream ends, seen after the consumers were; None: it is gone.
    """

    channel: CatalogChannel
    subscriptions: tuple[SubscriptionFacts, ...]
    parked: int = 0
    subjects: Mapping[str, int] = field(default_factory=dict)
    subscribers: int | None = None
    last: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts, at one moment.

    Attributes:
        account: limits and usage of the account.
        max_payload: bytes that the server takes in one message; 0: not asked.
        no_room: why the server or the account has no room for any message, in its words; empty where it has.
        at: the time of the wall clock; `clock`: that of a clock which is only good for differences.
    """

    account: Mapping[str, Any]
    channels: tuple[ChannelFacts, ...]
    at: datetime
    clock: float
    max_payload: int = 0
    no_room: str = ""


async def gather(session: Session, scope: ChannelScope) -> Facts:
    """Ask for all facts about the channels of a scope.

    Raises:
        Unavailable: NATS does not answer, or not with all facts. Refused: 403, one of them is forbidden; 404, there is
            no such channel.
    """
    account = await session.api.call("INFO")
    chosen = [channel for channel in await channels(session.api) if scope.covers(channel.ref)]
    if scope.channel is not None and not chosen:
        problem = f"there is no channel {scope.channel}: `kn jetstream channel list -A` shows what there is"
        raise Refused(problem, status=404)
    found = [await _channel(session, channel) for channel in chosen]
    room = await _no_room(session, chosen)
    return Facts(account, tuple(found), datetime.now(UTC), time.monotonic(), await session.admin.max_payload(), room)


async def _no_room(session: Session, chosen: list[CatalogChannel]) -> str:
    """Ask one aside stream of each kind of storage for room; a refusal to answer proves nothing."""
    by_storage = {str(one.aside["config"].get("storage")): one for one in chosen if one.aside is not None}
    for one in by_storage.values():
        with suppress(Refused, Unavailable):
            if words := await session.admin.no_room(one.names.probe_subject):
                return words
    return ""


def beside_objects(known: Facts, bodies: Iterable[Mapping[str, Any]]) -> Facts:
    """The same facts, with the number of subscribers in each channel's object."""
    counts = {
        (body["metadata"].get("namespace"), body["metadata"]["name"]): len(
            (body.get("spec") or {}).get("subscribers") or ()
        )
        for body in bodies
    }
    channels = (
        replace(each, subscribers=counts.get((each.channel.namespace, each.channel.name))) for each in known.channels
    )
    return replace(known, channels=tuple(channels))


async def _channel(session: Session, channel: CatalogChannel) -> ChannelFacts:
    found = await subscriptions(session.admin, channel)
    info = await session.admin.info(channel.stream, ">")
    state = (info or {"state": {}})["state"]
    subjects, last = state.get("subjects") or {}, state.get("last_seq")
    if channel.aside is None:
        return ChannelFacts(channel, tuple(map(SubscriptionFacts, found)), subjects=subjects, last=last)
    aside = await session.admin.info(channel.aside_name, ">") or channel.aside
    kept = aside["state"].get("subjects") or {}
    noted = health.noted(kept)
    parked = Counter(subject.split(".")[4] for subject in kept if "._knative_aside.parked." in subject)
    facts = []
    for subscription in found:
        consumer = subscription.consumer
        waiting = noted.records.get(consumer, ())
        facts.append(
            SubscriptionFacts(
                subscription,
                retrying=len(waiting),
                records=await _records(session, channel, consumer, waiting[-RECORDS:]),
                stuck=noted.stuck.get(consumer, ()),
                discarded=await _discarded(session, channel, consumer) if consumer in noted.counted else 0,
                forgotten=await _forgotten(session, subscription, waiting),
                vain_pulls=await _vain_pulls(session, subscription) if consumer in noted.troubled else "",
                parked=parked[consumer],
                sunk=await sunk_of(session.admin, subscription) if consumer in noted.sunk else None,
                oldest=await _oldest(session, subscription),
            )
        )
    return ChannelFacts(channel, tuple(facts), parked.total(), subjects, last=last)


async def _records(
    session: Session, channel: CatalogChannel, consumer: str, sequences: tuple[int, ...]
) -> tuple[StageRecord, ...]:
    found = []
    for sequence in reversed(sequences):
        subject = channel.names.stage_subject(consumer, sequence)
        newest = await session.api.find(f"STREAM.MSG.GET.{channel.aside_name}", {"last_by_subj": subject})
        # The event was settled meanwhile, and its record forgotten.
        data = b"" if newest is None else read_stored(newest["message"]).data
        if (record := stage_record.from_json(data)) is not None:
            found.append(record)
    return tuple(found)


async def _oldest(session: Session, one: CatalogSubscription) -> datetime | None:
    """When the first event was stored that a consumer has still to hand out."""
    if not one.pending or one.state != "ready":
        return None
    after, found = int((one.info.get("delivered") or {}).get("stream_seq") or 0) + 1, []
    for pattern in filters(one.config)[:MOST_FILTERS]:
        with suppress(Refused, Unavailable):
            asked = {"seq": after, "next_by_subj": pattern}
            if (first := await session.api.find(f"STREAM.MSG.GET.{one.channel.stream}", asked)) is not None:
                found.append(read_stored(first["message"]).time)
    return min(found, default=None)


async def _discarded(session: Session, channel: CatalogChannel, consumer: str) -> int:
    return await session.admin.number(channel.aside_name, channel.names.discarded_subject(consumer))


async def _forgotten(session: Session, one: CatalogSubscription, waiting: tuple[int, ...]) -> tuple[int, ...]:
    suspects, names, dues = forgotten.suspects(waiting, one.info), one.channel.names, {}
    for sequence in suspects.sequences[:SUSPECTS] if suspects.most else ():
        text = await session.admin.text(one.channel.aside_name, names.stage_subject(one.consumer, sequence))
        if text is not None:
            dues[sequence] = forgotten.due_of(text)
    return tuple(sorted(forgotten.overdue(dues, suspects.most, datetime.now(UTC))))


async def _vain_pulls(session: Session, one: CatalogSubscription) -> str:
    text = await session.admin.text(one.channel.aside_name, one.channel.names.pull_trouble_subject(one.consumer))
    note = pull_trouble.from_json((text or "").encode())
    return note.words if note is not None and note.holds(one.info) else ""


def used(info: Mapping[str, Any]) -> tuple[float, str]:
    """How full a stream is, from 0 to 1, and by which limit; 0 without limits."""
    config, state = info["config"], info["state"]
    shares = [
        (int(state[count]) / most, words)
        for count, limit, words in (("messages", "max_msgs", "maxMsgs"), ("bytes", "max_bytes", "maxBytes"))
        if (most := int(config.get(limit, -1))) > 0
    ]
    return max(shares, default=(0.0, ""))


def account_used(account: Mapping[str, Any]) -> tuple[float, str]:
    """How full the account is, from 0 to 1, and by which limit; of several tiers the fullest."""
    tiers = [account, *(account.get("tiers") or {}).values()]
    shares = [
        (int(tier.get(count, 0)) / most, words)
        for tier in tiers
        for count, limit, words in (
            ("storage", "max_storage", "file storage"),
            ("memory", "max_memory", "memory"),
            ("streams", "max_streams", "streams"),
            ("consumers", "max_consumers", "consumers"),
        )
        if (most := int((tier.get("limits") or {}).get(limit, -1))) > 0
    ]
    return max(shares, default=(0.0, ""))
