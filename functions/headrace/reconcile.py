"""The story of `reconcile`: parse the hook's request, decide, make it so in NATS, answer what came of it.

Decisions are `headrace.core`'s; this module knows their order only: the streams before the consumers, and every
subscriber for itself. Idempotent: a second run with the same request changes nothing. Effects arrive as an argument.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from headrace.core import binding, hook, manifest, plan, stream_config
from headrace.core.action import Action, Outcome, Rejected
from headrace.core.desired import (
    RETRY_REFUSED,
    Desired,
    Result,
    desired,
    invalid_status,
    removal_refused_status,
    resync_after,
    status,
)
from headrace.core.errors import InvalidSpec
from headrace.core.hook import HookRequest, HookResponse
from headrace.core.plan import Observed, Progress
from headrace.core.raw_config import Config
from headrace.core.settings import ReconcileSettings
from headrace.core.stream import Place
from headrace.core.stream_config import Wanted

VERBS = ("sync", "finalize", "customize")


class Administration(Protocol):
    """What `reconcile` needs of NATS; `headrace.io.admin.Admin` is it. All raise Unavailable when NATS is away."""

    async def stream(self, name: str) -> Config | None:
        """The configuration of a stream; None when there is none."""

    async def count(self, stream: str, subjects: str) -> int:
        """How many subjects that match a filter hold messages."""

    async def consumers(self, stream: str) -> list[Config]:
        """The configurations of all consumers of a stream; of none when there is no stream."""

    async def carry_out(self, action: Action) -> Outcome:
        """Do one thing; what is gone already counts as deleted."""


async def reconcile(
    verb: str, body: bytes, *, api: Administration, settings: ReconcileSettings, now: datetime
) -> dict[str, Any]:
    """Serve one call of the hook.

    Args:
        verb: one of VERBS; the last part of the path.
        api: what NATS has and does; `headrace.io.admin.Admin`.
        now: with its timezone; the clock of graces and of conditions.

    Raises:
        InvalidSpec: with the field `body` or `verb`; what came is not a call of the hook. What is wrong in the channel
            itself is not an error but a condition.
        Unavailable: NATS is away.
    """
    request = hook.parse(body)
    match verb:
        case "sync" if not request.finalizing:
            response = await sync(request, api=api, settings=settings, now=now)
        case "sync" | "finalize":
            response = await finalize(request, api=api, settings=settings, now=now)
        case "customize":
            return {"relatedResources": []}
        case _:
            raise InvalidSpec(f"the verb {verb!r} is unknown: call {' or '.join(VERBS)}", field="verb")
    return response.to_json()


async def sync(
    request: HookRequest, *, api: Administration, settings: ReconcileSettings, now: datetime
) -> HookResponse:
    """Make streams and consumers as the channel asks for."""
    wish = desired(request.parent, settings)
    if isinstance(wish, InvalidSpec):
        return HookResponse(invalid_status(request.parent, wish, now))
    progress = await _streams(wish.wanted, api)
    if progress.stopped:
        result = Result(progress.observed, progress.problems)
    else:
        result = await _consumers(wish, progress, api, settings, now)
    return HookResponse(status(request.parent, wish, result, now), resync_after_seconds=resync_after(result))


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
    observed = await _observe(place, api)
    if not plan.may_remove(place, observed):
        return HookResponse(before, finalized=True)
    refusal = await _all(binding.removal(await api.consumers(place.stream), place), api)
    if refusal is None:
        parked = await api.count(place.aside, place.parked)
        retain = stream_config.retained(identity.metadata)
        actions = plan.removal(place, observed, retain=retain, parked=parked)
        refusal = await _all(actions, api)
    if refusal is not None:
        return HookResponse(
            removal_refused_status(request.parent, refusal.words, now),
            resync_after_seconds=RETRY_REFUSED.total_seconds(),
            finalized=False,
        )
    return HookResponse(before, finalized=True)


async def _streams(wanted: Wanted, api: Administration) -> Progress:
    progress = Progress(wanted.place, await _observe(wanted.place, api))
    actions = plan.streams(wanted, progress.observed)
    if isinstance(actions, plan.Problem):
        return Progress(wanted.place, progress.observed, (actions,), stopped=True)
    for action in actions:
        progress = progress.after(action, await api.carry_out(action))
        if progress.stopped:
            break
    return progress


async def _consumers(
    wish: Desired, progress: Progress, api: Administration, settings: ReconcileSettings, now: datetime
) -> Result:
    spec, place = wish.manifest.spec, wish.wanted.place
    terms = binding.Terms(
        place=place,
        template=spec.consumer_config_template,
        subjects=plan.seen_subjects(place, progress.observed, spec.stream.config.additional_subjects),
        grace=settings.gone_grace,
        now=now,
    )
    bindings, leavers = binding.consumers(wish.rows, await api.consumers(place.stream), terms)
    refusals: dict[str, str] = {}
    steps = [(each.durable, each.actions) for each in leavers] + [(each.durable, each.actions) for each in bindings]
    for durable, actions in steps:
        refusal = await _all(actions, api)
        if refusal is not None:
            refusals[durable] = refusal.words
    return Result(progress.observed, progress.problems, bindings, leavers, refusals)


async def _observe(place: Place, api: Administration) -> Observed:
    return Observed(await api.stream(place.stream), await api.stream(place.aside))


async def _all(actions: Iterable[Action], api: Administration) -> Rejected | None:
    """Carry out in order, up to the first that the server refuses."""
    for action in actions:
        outcome = binding.verified(action, await api.carry_out(action))
        if isinstance(outcome, Rejected):
            return outcome
    return None
