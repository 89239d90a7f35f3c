"""The story of `reconcile`: parse the hook's request, decide, make it so in NATS, answer what came of it.

Decisions are `headrace.core`'s; this module knows their order only: the streams before the consumers, and every
subscriber for itself. Idempotent: a second run with the same request changes nothing. Effects arrive as an argument.
Over 300 lines because it has the port to NATS and all three verbs of the hook, whose order is read together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Protocol

from headrace.core import (
    binding,
    channel_defaults,
    children,
    connection_spec,
    counts,
    credentials_gone,
    health,
    hook,
    manifest,
    peer,
    plan,
    related,
    stream_config,
    truth,
)
from headrace.core.action import Action, Outcome, PurgeSubjects, Rejected
from headrace.core.channel_defaults import Defaults
from headrace.core.children import Access, Cluster, Functions
from headrace.core.conditions import Condition, added
from headrace.core.desired import Desired, desired
from headrace.core.errors import InvalidSpec, NotLetIn, Refused
from headrace.core.health import Health
from headrace.core.hook import HookRequest, HookResponse
from headrace.core.leaving import Terms
from headrace.core.plan import Observed, Progress
from headrace.core.raw_config import Config
from headrace.core.settings import ReconcileSettings
from headrace.core.status import (
    RETRY_REFUSED,
    Result,
    invalid_status,
    removal_refused_status,
    resync_after,
    status,
)
from headrace.core.stream import Place
from headrace.core.stream_config import Wanted

# Forgetting takes a request each; the rest follows with the next call.
MOST_LOST = 200
SETTINGS = "NatsSettingsRead"
"""The condition that tells of a broken edit, while the last good one counts."""
VERBS = ("sync", "finalize", "customize")


class Administration(Protocol):
    """What `reconcile` needs of NATS; `headrace.io.admin.Admin` is it. All raise Unavailable when NATS is away."""

    async def stream(self, name: str) -> Config | None:
        """The configuration of a stream; None when there is none."""

    async def count(self, stream: str, subjects: str) -> int:
        """How many subjects that match a filter hold messages."""

    async def consumers(self, stream: str) -> list[Config]:
        """The configurations of all consumers of a stream; of none when there is no stream."""

    async def info(self, stream: str, subjects: str = "") -> Mapping[str, Any] | None:
        """STREAM.INFO, with the subjects that match a filter in its state; None when there is no stream."""

    async def consumer_infos(self, stream: str) -> Sequence[Mapping[str, Any]]:
        """CONSUMER.LIST, whole."""

    async def number(self, stream: str, subject: str) -> int:
        """The number that a subject holds; zero without one."""

    async def add(self, stream: str, subject: str, number: int) -> None:
        """Add to that number; raises Refused when there is no room."""

    async def carry_out(self, action: Action) -> Outcome:
        """Do one thing; what is gone already counts as deleted."""


async def reconcile(
    verb: str,
    body: bytes,
    *,
    api: Administration,
    settings: ReconcileSettings,
    now: datetime,
    defaults: Defaults | None = None,
    settings_problem: str = "",
) -> dict[str, Any]:
    """Serve one call of the hook.

    Args:
        verb: one of VERBS; the last part of the path.
        api: what NATS has and does; `headrace.io.admin.Admin`.
        now: with its timezone; the clock of graces and of conditions.
        defaults: of channels whose authors say nothing; None where nobody keeps any.
        settings_problem: why what is mounted of NATS' address and credentials is not what counts; empty when it is.

    Raises:
        InvalidSpec: with the field `body` or `verb`; what came is not a call of the hook. What is wrong in the channel
            itself is not an error but a condition.
        Unavailable: NATS is away.
    """
    request = hook.parse(body)
    match verb:
        case "sync" if not request.finalizing:
            response = await sync(request, api, settings, now, defaults, settings_problem)
        case "sync" | "finalize":
            response = await finalize(request, api=api, settings=settings, now=now)
        case "customize":
            return {"relatedResources": related.rules(request.parent)}
        case _:
            raise InvalidSpec(f"the verb {verb!r} is unknown: call {' or '.join(VERBS)}", field="verb")
    return response.to_json()


async def sync(
    request: HookRequest,
    api: Administration,
    settings: ReconcileSettings,
    now: datetime,
    defaults: Defaults | None,
    settings_problem: str,
) -> HookResponse:
    """Make streams and consumers as the channel asks for, or as the defaults of its namespace do for it."""
    merged = channel_defaults.merged(request.parent, defaults or Defaults())
    request = replace(request, parent=merged.parent)

    def told(body: dict[str, Any]) -> dict[str, Any]:
        body = merged.told(body, now)
        if not settings_problem:
            return body
        broken = Condition(SETTINGS, False, "SettingsBroken", settings_problem, informative=True)
        return added(body, broken, request.parent, now)

    wish = desired(request.parent, settings, request.related, truth.read(request))
    if isinstance(wish, InvalidSpec):
        body = told(invalid_status(request.parent, merged.blamed(wish), now))
        return HookResponse(body, _remaining(request, settings))
    if defaults is not None:
        wish = replace(wish, wanted=replace(wish.wanted, unsaid=merged.unsaid))
    try:
        return await _make_so(request, wish, api, settings, now, told)
    except NotLetIn as error:
        body = told(credentials_gone.status(request.parent, str(error), now))
        wait = credentials_gone.LOOK_AGAIN.total_seconds()
        return HookResponse(body, _remaining(request, settings), resync_after_seconds=wait)


async def _make_so(
    request: HookRequest,
    wish: Desired,
    api: Administration,
    settings: ReconcileSettings,
    now: datetime,
    told: Callable[[dict[str, Any]], dict[str, Any]],
) -> HookResponse:
    progress = await _streams(wish.wanted, api)
    if progress.stopped:
        result = Result(progress.observed, progress.problems)
    else:
        result = await _consumers(wish, progress, api, settings, now)
        result = replace(result, health=await _health(wish.wanted.place, api))
    result = replace(result, functions=_functions(wish, result, request, settings))
    fresh = told(status(request.parent, wish, result, now))
    written = counts.calm(request.parent.get("status"), fresh, now)
    return HookResponse(
        written,
        children=result.functions.objects,
        resync_after_seconds=resync_after(result, counts.look_again(fresh, written, now)),
        verify=result.questions,
        prune=result.leftovers,
    )


async def finalize(
    request: HookRequest, *, api: Administration, settings: ReconcileSettings, now: datetime
) -> HookResponse:
    """Take away what is this channel's: its consumers, its stream, and its aside unless events are parked there."""
    before = request.parent.get("status") or None
    try:
        identity = manifest.parse_identity(request.parent)
        place = stream_config.place(identity.metadata, identity.spec.stream.override_name, settings.cluster)
    except InvalidSpec:
        # A channel whose very name is wrong never had anything.
        return HookResponse(before, finalized=True)
    retain = stream_config.retained(identity.metadata)
    try:
        return await _take_away(request, place, api, now, retain=retain)
    except NotLetIn as error:
        return credentials_gone.leaving(
            request.parent, place, str(error), now=now, patience=settings.orphan_grace, retained=retain
        )


async def _take_away(
    request: HookRequest, place: Place, api: Administration, now: datetime, *, retain: bool
) -> HookResponse:
    before = request.parent.get("status") or None
    observed = await _observe(place, api)
    if not plan.may_remove(place, observed):
        return HookResponse(before, finalized=True)
    refusal = await _all(binding.removal(await api.consumers(place.stream), place), api)
    if refusal is None:
        parked = await api.count(place.aside, place.parked)
        actions = plan.removal(place, observed, retain=retain, parked=parked)
        refusal = await _all(actions, api)
    if refusal is not None:
        return HookResponse(
            removal_refused_status(request.parent, refusal.words, now),
            resync_after_seconds=RETRY_REFUSED.total_seconds(),
            finalized=False,
        )
    return HookResponse(before, finalized=True)


def _functions(wish: Desired, result: Result, request: HookRequest, settings: ReconcileSettings) -> Functions:
    return children.functions(
        wish.manifest,
        wish.wanted.place.stream,
        result.served,
        settings,
        _access(request, settings),
        Cluster(request.apis, request.children),
    )


def _access(request: HookRequest, settings: ReconcileSettings) -> Access:
    return children.with_own(children.by_settings(settings), connection_spec.own_secret(request.parent))


def _remaining(request: HookRequest, settings: ReconcileSettings) -> tuple[dict[str, Any], ...]:
    """The functions of a channel that makes no sense: they deliver what it has."""
    cluster, access = Cluster(request.apis, request.children), _access(request, settings)
    try:
        identity = manifest.parse_identity(request.parent)
    except InvalidSpec:
        return ()
    addressed = bool((request.parent.get("status") or {}).get("address"))
    return children.remaining(identity.metadata, settings, access, cluster, addressed=addressed)


async def _streams(wanted: Wanted, api: Administration) -> Progress:
    progress = Progress(wanted.place, await _observe(wanted.place, api))
    actions = plan.streams(wanted, progress.observed)
    if isinstance(actions, plan.Problem):
        return Progress(wanted.place, progress.observed, (actions,), stopped=True)
    for action in actions:
        progress = progress.after(action, await api.carry_out(action))
        if progress.stopped:
            break
    return plan.told(progress)


async def _consumers(
    wish: Desired, progress: Progress, api: Administration, settings: ReconcileSettings, now: datetime
) -> Result:
    spec, place = wish.manifest.spec, wish.wanted.place
    infos = await api.consumer_infos(place.stream)
    terms = Terms(
        place=place,
        template=spec.consumer_config_template,
        subjects=plan.seen_subjects(place, progress.observed, spec.stream.config.additional_subjects),
        grace=settings.gone_grace,
        now=now,
        truth=wish.truth,
        peers=peer.read(infos, place),
        retention=str((progress.observed.stream or {}).get("retention", "limits")),
    )
    # NATS 2.10 leaves the name out of the configuration when an older client made the consumer.
    observed = [{**info["config"], "name": info["name"]} for info in infos]
    bindings, leavers = binding.consumers(wish.rows, observed, terms)
    refusals: dict[str, str] = {}
    steps = [(each.durable, each.actions) for each in leavers] + [(each.durable, each.actions) for each in bindings]
    for durable, actions in steps:
        refusal = await _all(actions, api)
        if refusal is not None:
            refusals[durable] = refusal.words
    return Result(progress.observed, progress.problems, bindings, leavers, refusals)


async def _health(place: Place, api: Administration) -> Health | None:
    stream, aside = await api.info(place.stream), await api.info(place.aside, place.stages)
    if stream is None or aside is None:
        # Deleted this moment: the next call makes them anew.
        return None
    noted = health.noted(aside["state"].get("subjects") or {})
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
        counts=counts.counted(infos, await _parked(place, aside, api)),
    )


async def _parked(place: Place, aside: Mapping[str, Any], api: Administration) -> Iterable[str] | None:
    """The subjects of parked events; None when they are too many to be listed."""
    events = health.parked(aside)
    if not health.countable(events):
        return () if events == 0 else None
    info = await api.info(place.aside, place.parked)
    return () if info is None else info["state"].get("subjects") or ()


async def _count_lost(place: Place, consumer: str, sequences: Iterable[int], api: Administration) -> None:
    """Count events that were discarded while they waited, and forget that they did.

    Forgotten first: a crash in between counts too few, and never one twice.
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


async def _observe(place: Place, api: Administration) -> Observed:
    return Observed(await api.stream(place.stream), await api.stream(place.aside))


async def _all(actions: Iterable[Action], api: Administration) -> Rejected | None:
    """Carry out in order, up to the first that the server refuses."""
    for action in actions:
        outcome = binding.verified(action, await api.carry_out(action))
        if isinstance(outcome, Rejected):
            return outcome
    return None
