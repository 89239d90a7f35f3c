"""The steps in NATS for one channel, in whichever account: the streams first, then each subscriber for itself.

`headrace.core` decides. The steps are idempotent: a second run with the same request changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from headrace.core import subject_pattern
from headrace.core.channel import (
    aside_bound,
    binding,
    counts,
    granted,
    health,
    naming,
    peer,
    plan,
    republish_ring,
    storage_share,
)
from headrace.core.channel.desired import Desired
from headrace.core.channel.health import Health
from headrace.core.channel.leaving import LeavingTerms
from headrace.core.channel.naming import Naming
from headrace.core.channel.own_consumer import owned
from headrace.core.channel.plan import Observed, StreamsDone
from headrace.core.channel.status import Result
from headrace.core.channel.storage_share import StorageShare
from headrace.core.delivery import pull_trouble
from headrace.core.errors import Refused, Unavailable
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.nats.action import PurgeSubjects, Rejected
from headrace.core.nats.stream import ChannelStream
from headrace.core.raw_config import differs
from headrace.reconcile import forgetting, positions
from headrace.reconcile.deeds import Deeds
from headrace.reconcile.ports import Administration, Calculate, Ours, on_the_spot

# To forget a lost event takes two requests; the rest follows with the next call.
MOST_LOST = 200


async def make_so(
    wish: Desired,
    api: Administration,
    settings: ReconcileSettings,
    now: datetime,
    calculate: Calculate,
    ours: Ours | None,
) -> Result:
    """Make streams and consumers as wanted, and read their health.

    Args:
        ours: the installation's account, asked for all streams where it matters what others have; None for a channel
            with credentials of its own, which are its bounds.
    """
    deeds = Deeds(api)
    observed = await _observe(wish.wanted.place, api)
    chooses = plan.adopted(wish.wanted.place, observed) and naming.choose_events(wish.trespasses)
    infos = await api.consumer_infos(wish.wanted.place.stream) if chooses else ()
    named = naming.judged(wish.manifest.spec, wish.wanted, wish.trespasses, observed, infos)
    told = named.condition(settings.system_namespace)
    if named.stopped:
        return Result(observed, (plan.Problem(naming.REFUSED, f"see the condition {naming.TYPE}"),), named=told)
    # Of a stream that is somebody else's, nothing is made as it is wanted.
    asks = republish_ring.asks(named.wanted) or storage_share.asks(named.wanted, wish.storage)
    if ours is not None and asks and not plan.adopted(wish.wanted.place, observed):
        async with ours.streams(to_change=differs(observed.stream, named.wanted.config)) as streams:
            wanted, rings = await calculate(len(streams), republish_ring.opened, named.wanted, streams)
            share = storage_share.judged(wanted, observed, streams, wish.storage)
            progress = await _streams(share, observed, deeds)
            progress = replace(progress, problems=(*rings, *progress.problems))
    else:
        share = StorageShare(named.wanted)
        progress = await _streams(share, observed, deeds)
    if progress.stopped:
        return Result(progress.observed, progress.problems, named=told)
    result = await _consumers(wish, named, progress, deeds, settings, now, calculate)
    health = await _health(wish.wanted.place, progress.observed, api, now, calculate)
    return replace(result, health=health, lowered=tuple(deeds.lowered), named=told, beyond=share.beyond)


async def take_away(
    place: ChannelStream, api: Administration, calculate: Calculate = on_the_spot, *, retain: bool
) -> Rejected | None:
    """Remove the channel's streams and consumers; return the server's refusal, if it refuses.

    Args:
        retain: the author wants to keep the streams.
    """
    observed = await _observe(place, api)
    if not plan.may_remove(place, observed):
        return None
    deeds = Deeds(api)
    known = await api.consumers(place.stream)
    refusal = await deeds.all(await calculate(len(known), binding.removal, known, place))
    if refusal is None:
        parked = await api.count(place.aside, place.parked)
        refusal = await deeds.all(plan.removal(place, observed, retain=retain, parked=parked))
    return refusal


async def _streams(share: StorageShare, observed: Observed, deeds: Deeds) -> StreamsDone:
    wanted = share.wanted
    progress = StreamsDone(wanted.place, observed, (share.problem,) if share.problem else (), stopped=share.stopped)
    if progress.stopped:
        return progress
    actions = plan.streams(wanted, progress.observed)
    if isinstance(actions, plan.Problem):
        return StreamsDone(wanted.place, progress.observed, (actions,), stopped=True)
    for action in actions:
        outcome = await deeds.carry_out(action, wanted.defaults, progress.observed.stream)
        bounded = aside_bound.demanded(action, outcome, wanted.place, progress.observed.stream)
        if bounded is not None:
            action, outcome = bounded, await deeds.carry_out(bounded)
        progress = progress.after(action, outcome)
        if progress.stopped:
            break
    return plan.add_sealed(progress)


async def _consumers(
    wish: Desired,
    named: Naming,
    progress: StreamsDone,
    deeds: Deeds,
    settings: ReconcileSettings,
    now: datetime,
    calculate: Calculate,
) -> Result:
    infos = await deeds.api.consumer_infos(wish.wanted.place.stream)
    # NATS 2.10 leaves the name out of the configuration when an older client made the consumer.
    observed = [{**info["config"], "name": info["name"]} for info in infos]
    terms = _terms(wish, named, progress, infos, settings, now)
    bindings, leavers = await calculate(len(observed) + len(wish.rows), binding.consumers, wish.rows, observed, terms)
    known = {str(config["name"]): config for config in observed}
    refusals: dict[str, str] = {}
    steps = [(each.durable, each.actions) for each in leavers] + [(each.durable, each.actions) for each in bindings]
    for durable, actions in steps:
        defaults = frozenset() if terms.template.max_ack_pending else frozenset({granted.MAX_ACK_PENDING})
        refusal = await deeds.all(actions, defaults, known.get(durable))
        if refusal is not None:
            refusals[durable] = refusal.words
    return Result(progress.observed, progress.problems, bindings, leavers, refusals)


def _terms(
    wish: Desired,
    named: Naming,
    progress: StreamsDone,
    infos: Iterable[Mapping[str, Any]],
    settings: ReconcileSettings,
    now: datetime,
) -> LeavingTerms:
    place = wish.wanted.place
    return LeavingTerms(
        place=place,
        template=named.template,
        subjects=plan.seen_subjects(place, progress.observed, named.additional),
        filters_stay=named.filters_stay,
        grace=settings.gone_grace,
        now=now,
        truth=wish.truth,
        peers=peer.recognize(infos, place),
        retention=str((progress.observed.stream or {}).get("retention", "limits")),
        harm=granted.inherits(progress.observed.stream),
    )


async def _health(
    place: ChannelStream, observed: Observed, api: Administration, now: datetime, calculate: Calculate
) -> Health | None:
    stream, aside = await api.info(place.stream), await api.info(place.aside, place.stages)
    if stream is None or aside is None:
        # They were deleted this moment: the next call makes them anew.
        return None
    subjects = aside["state"].get("subjects") or {}
    noted = await calculate(len(subjects), health.noted, subjects)
    lost = health.gone(noted, stream)
    for consumer, sequences in lost.items():
        await _count_lost(place, consumer, sequences[:MOST_LOST], api)
    counted = sorted({*noted.counted, *lost})
    infos = await api.consumer_infos(place.stream)
    return Health(
        aside=aside,
        windows={str(info["name"]): health.window(info) for info in infos},
        stuck=noted.stuck,
        waiting=bool(noted.records),
        discarded={each: await api.number(place.aside, place.channel.discarded_subject(each)) for each in counted},
        counts=await calculate(len(infos), counts.counted, infos, await _parked(place, aside, api)),
        created=str(stream.get("created", "")),
        forgotten=await forgetting.see_to(place, health.without(noted, lost), infos, api, now),
        unseen=await _unseen(place, stream, infos, api) if plan.adopted(place, observed) else {},
        pulls=await _vain_pulls(place, noted.troubled, infos, api),
        ahead=await positions.see_to(place, noted, stream, infos, api, now),
        stream=stream,
        **await _room(place, api),
    )


async def _room(place: ChannelStream, api: Administration) -> dict[str, Any]:
    """The server's room, as fields of `Health`; none if it does not say, so that this hides no other trouble."""
    try:
        no_room = await api.no_room(place.channel.probe_subject)
        return {"no_room": no_room, "max_payload": await api.max_payload()}
    except (Refused, Unavailable):
        return {}


async def _unseen(
    place: ChannelStream, stream: Mapping[str, Any], infos: Iterable[Mapping[str, Any]], api: Administration
) -> dict[str, int]:
    """The subjects of an adopted stream that no consumer of the channel gets; none while it has no consumers."""
    ours = [info["config"] for info in infos if owned(info["config"], place.owner) is not None]
    if not ours or not 0 < int(stream["state"].get("num_subjects") or 0) <= health.MOST_SUBJECTS:
        return {}
    info = await api.info(place.stream, ">")
    subjects = (info or {"state": {}})["state"].get("subjects") or {}
    return subject_pattern.unseen(subjects, (one for each in ours for one in subject_pattern.filters(each)))


async def _vain_pulls(
    place: ChannelStream, noted: Iterable[str], infos: Iterable[Mapping[str, Any]], api: Administration
) -> dict[str, str]:
    """Why pulls bring nothing, by consumer; for the consumers whose note still holds."""
    known, found = {str(info["name"]): info for info in infos}, {}
    for consumer in noted:
        text = await api.text(place.aside, place.channel.pull_trouble_subject(consumer))
        note = pull_trouble.from_json((text or "").encode())
        if note is not None and consumer in known and note.holds(known[consumer]):
            found[consumer] = note.words
    return found


async def _parked(place: ChannelStream, aside: Mapping[str, Any], api: Administration) -> Iterable[str] | None:
    """The subjects of parked events; None when there are too many to list."""
    events = health.parked(aside)
    if not health.countable(events):
        return () if events == 0 else None
    info = await api.info(place.aside, place.parked)
    return () if info is None else info["state"].get("subjects") or ()


async def _count_lost(place: ChannelStream, consumer: str, sequences: Iterable[int], api: Administration) -> None:
    """Count events that were discarded while they waited, and delete their records.

    The records are deleted first: a crash in between loses a few from the count, but counts none twice.
    """
    forgotten = 0
    for sequence in sequences:
        for subject in (
            place.channel.stage_subject(consumer, sequence),
            place.channel.stuck_subject(consumer, sequence),
        ):
            await api.carry_out(PurgeSubjects(place.aside, subject))
        forgotten += 1
    with suppress(Refused):
        await api.add(place.aside, place.channel.discarded_subject(consumer), forgotten)


async def _observe(place: ChannelStream, api: Administration) -> Observed:
    return Observed(await api.stream(place.stream), await api.stream(place.aside))
