"""The verbs of the hook, each in the NATS account of its channel: `docs/adr/030-connections.md`.

The story knows the order of the steps only; effects arrive as arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any, ParamSpec, TypeVar

from headrace.core.channel import (
    children,
    counts,
    event_policies,
    flags_told,
    identities,
    naming,
    related,
    rights,
    stream_config,
    truth,
    unenforced,
)
from headrace.core.channel.children import Functions, ServedConsumer
from headrace.core.channel.customize import PARENT_ANNOTATIONS, CustomizeAnswer
from headrace.core.channel.desired import Desired, desired
from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.channel.lease_places import LeasePlaces
from headrace.core.channel.naming import Trespass
from headrace.core.channel.own_account import leftovers, lockout
from headrace.core.channel.own_account.lockout import Lockout
from headrace.core.channel.own_consumer import owned
from headrace.core.channel.status import (
    RETRY_REFUSED,
    Result,
    invalid_status,
    removal_refused_status,
    resync_after,
    status,
)
from headrace.core.conditions import added, required
from headrace.core.delivery.subscriber import SubscriberState
from headrace.core.errors import InvalidSpec, NotLetIn, Refused, Unavailable
from headrace.core.installation import channel_defaults
from headrace.core.installation.channel_defaults import Defaults, Merged
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest import channel_status, manifest
from headrace.core.nats.stream import ChannelStream
from headrace.core.quoting import quoted
from headrace.core.security import audience
from headrace.core.security.flags import Flags
from headrace.reconcile import in_nats
from headrace.reconcile.own_account import Account, AccountUnreachable, cluster_of, find, settings_condition
from headrace.reconcile.ports import Around, Ours

VERBS = ("sync", "finalize", "customize")
# The interval of looks at a channel in an account that the operator can't see: nothing notifies us of changes there.
LOOK_APART_SECONDS = 60.0
# The pause while another `reconcile` does not answer. We notice its start earlier, as a change of a child.
STARTING_SECONDS = 10.0

P = ParamSpec("P")
T = TypeVar("T")


async def reconcile(
    verb: str,
    body: bytes,
    *,
    api: Ours,
    settings: ReconcileSettings,
    now: datetime,
    around: Around | None = None,
) -> dict[str, Any]:
    """Serve one call of the hook.

    Args:
        verb: one of VERBS; the last part of the path.
        api: the installation's NATS; `headrace.io.jetstream.admin.Admin`.
        now: with its timezone; the clock of graces and of conditions.

    Raises:
        InvalidSpec: with the field `body` or `verb`: the request is no call of the hook. A fault of the channel itself
            is no error but a condition.
        Unavailable: the installation's NATS is away.
    """
    around = around or Around()
    # A subscriber with all its objects has a few kilobytes.
    things = len(body) // 1024
    request = await around.calculate(things, _read, body)
    if verb not in VERBS:
        raise InvalidSpec(f"the verb {quoted(verb)} is unknown: call {' or '.join(VERBS)}", field="verb")
    if verb == "customize":
        rules = await around.calculate(things, related.rules, request.parent, settings, stock=request.stock)
        ours = () if request.stock else (PARENT_ANNOTATIONS, settings.system_namespace)
        return CustomizeAnswer(tuple(rules), *ours).to_json()
    call = _Call(api, settings, now, around, things)
    going = verb == "finalize" or request.finalizing
    answer = await (call.finalize(request) if going else call.sync(request))
    if not request.stock:
        answer = await around.calculate(things, _with_security, answer, request, now)
    # A stock Metacontroller opens no leases, and does not hear who answers.
    installation, places = (None, None) if request.stock else (around.installation, answer.lease_places)
    return replace(answer, installation=installation, lease_places=places).to_json()


def _with_security(answer: HookResponse, request: HookRequest, now: datetime) -> HookResponse:
    """The answer with whom the channel takes events from, and by what token, whatever else is the matter with it."""
    seen = related.flags(request.related, request.unseen)
    found = event_policies.applied(request.parent, request.related, seen or Flags(), request.unseen)
    body = answer.status
    if body is not None:
        body = audience.addressed(body, request.parent, None if seen is None else seen.oidc)
    if body is not None and found.condition is not None:
        refs = [{"apiVersion": related.EVENT_POLICY_API, "name": name} for name in found.names]
        body = required({**body, "policies": refs} if refs else body, found.condition, request.parent, now)
    return replace(answer, status=body, security=None if found.part is None else dict(found.part))


def _read(body: bytes) -> HookRequest:
    """The request without those parts of our own writing that are damaged: they are written anew."""
    request = HookRequest.from_json(body)
    status = channel_status.legible(request.parent.get("status"))
    shared = None if request.shared is None else children.legible(request.shared)
    parent = {**request.parent, "status": status}
    return replace(request, parent=parent, children=children.legible(request.children), shared=shared)


class _Call:
    """One call of the hook."""

    def __init__(self, own: Ours, settings: ReconcileSettings, now: datetime, around: Around, things: int) -> None:
        self._own = own
        self._settings = settings
        self._now = now
        self._around = around
        self._things = things

    async def sync(self, request: HookRequest) -> HookResponse:
        """Make the streams and consumers that the channel, or the defaults of its namespace, ask for."""
        merged = await self._calculate(self._merged, request.parent)
        request = replace(request, parent=merged.parent)
        try:
            account = await self._account(request)
        except AccountUnreachable as error:
            # The `reconcile` that does not answer may be among the functions that can't be made.
            of_rights = rights.condition(request.lacking)
            words = of_rights.message if of_rights is not None else str(error)
            return self._unreached(request, error.account, words, merged.add_condition)

        def complete(body: dict[str, Any]) -> dict[str, Any]:
            body = merged.add_condition(body, self._now)
            asked = unenforced.condition(
                request.parent, request.related, request.unseen, made=bool(self._settings.image)
            )
            of_rights = rights.condition(request.lacking)
            of_flags = flags_told.condition(request.related)
            for one in (*asked, of_flags, settings_condition(account), self._around.tenants.condition, of_rights):
                body = added(body, one, request.parent, self._now) if one is not None else body
            return body

        wish = await self._calculate(self._wish, request)
        if isinstance(wish, InvalidSpec):
            body = complete(invalid_status(request.parent, merged.blamed(wish), self._now))
            return await self._as_before(request, account, body)
        if self._around.defaults is not None:
            wish = replace(wish, wanted=replace(wish.wanted, unsaid=merged.unsaid))
        if account.apart is None:
            # Who has credentials of his own is bounded by their account.
            listed = self._settings.names == "listed"
            storage = self._around.tenants.storage(wish.manifest.metadata.namespace)
            wish = replace(wish, trespasses=self._trespasses(wish, merged) if listed else (), storage=storage)
        try:
            return await self._make_so(request, wish, account, complete)
        except NotLetIn as error:
            body = complete(lockout.status(request.parent, str(error), self._now))
            wait = lockout.LOOK_AGAIN.total_seconds()
            return HookResponse(body, self._remaining(request, account).objects, resync_after_seconds=wait)
        except (Refused, Unavailable) as error:
            # A fault in another account concerns this channel only; a fault of our own NATS fails the whole call.
            if account.apart is None:
                raise
            return self._unreached(request, account, str(error), lambda body, _: complete(body))

    async def finalize(self, request: HookRequest) -> HookResponse:
        """Remove the channel's consumers, its stream, and its aside stream unless events are parked there."""
        before = request.parent.get("status") or None
        try:
            identity = manifest.parse_identity(request.parent)
            place = stream_config.place(identity.metadata, identity.spec.stream.override_name, self._settings.cluster)
        except InvalidSpec:
            # A channel with a wrong name never had a stream.
            return HookResponse(before, finalized=True)
        merged = self._merged(request.parent)
        retain = stream_config.retained(identity.metadata)
        try:
            account = await self._account(replace(request, parent=merged.parent))
        except AccountUnreachable as error:
            return await self._go_without(request, place, error.account, error, retain=retain)
        apart = account.apart
        try:
            refusal = await in_nats.take_away(place, account.api, self._around.calculate, retain=retain)
        except (NotLetIn, Refused, Unavailable) as error:
            if apart is None and not isinstance(error, NotLetIn):
                raise
            return await self._go_without(request, place, account, error, retain=retain)
        if refusal is None and apart is not None:
            # The installation's account may hold a stream from before the channel had a connection of its own.
            refusal = await in_nats.take_away(place, self._own, self._around.calculate, retain=retain)
        if refusal is None:
            return HookResponse(before, finalized=True)
        return HookResponse(
            removal_refused_status(request.parent, refusal.words, self._now),
            apart.objects if apart is not None else (),
            resync_after_seconds=RETRY_REFUSED.total_seconds(),
            finalized=False,
        )

    async def _go_without(
        self, request: HookRequest, place: ChannelStream, account: Account, error: Exception, *, retain: bool
    ) -> HookResponse:
        """Finalize a channel whose NATS account can't be reached: wait for a while, then leave its streams behind."""
        reason = lockout.REASON if isinstance(error, NotLetIn) else lockout.UNREACHED_REASON
        grace, apart = self._settings.orphan_grace, account.apart
        answer = lockout.leaving(
            request.parent,
            place,
            Lockout(str(error), reason, account.connection),
            now=self._now,
            patience=min(grace, lockout.MOST_PATIENCE_AT_END) if request.ending else grace,
            retained=retain,
        )
        if not answer.finalized:
            # The functions that have the credentials, or will get them again, go last: missing ones are made anew.
            return replace(answer, children=apart.objects if apart is not None else ())
        if apart is not None:
            await in_nats.take_away(place, self._own, self._around.calculate, retain=retain)
        return answer

    async def _calculate(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._around.calculate(self._things, function, *args, **kwargs)

    def _wish(self, request: HookRequest) -> Desired | InvalidSpec:
        seen = (request.related, truth.of_request(request), request.unserved)
        return desired(request.parent, self._settings, *seen, self._around.tenants)

    def _merged(self, parent: dict[str, Any]) -> Merged:
        return channel_defaults.merged(parent, self._around.defaults or Defaults(), self._settings.domain)

    def _trespasses(self, wish: Desired, merged: Merged) -> tuple[Trespass, ...]:
        """The names that are not the author's to use. Defaults are an administrator's words, and may name anything.

        Credentials of the author's own are the wall where he has some: he could do with any client what they allow.
        """
        entries = self._around.tenants.of(wish.manifest.metadata.namespace)
        found = naming.trespasses(wish.manifest.spec, wish.wanted, entries)
        return tuple(one for one in found if not merged.is_default(one.field))

    async def _account(self, request: HookRequest) -> Account:
        return await find(request, self._own, self._settings, self._around)

    async def _make_so(
        self,
        request: HookRequest,
        wish: Desired,
        account: Account,
        complete: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> HookResponse:
        usual = self._own if account.apart is None else None
        result = await in_nats.make_so(wish, account.api, self._settings, self._now, self._around.calculate, usual)
        ours = await self._in_cluster(wish.wanted.place) if account.apart is not None else None
        return await self._calculate(self._answer, request, wish, account, complete, result, ours)

    def _answer(
        self,
        request: HookRequest,
        wish: Desired,
        account: Account,
        complete: Callable[[dict[str, Any]], dict[str, Any]],
        result: Result,
        ours: dict[str, Any] | Unavailable | None,
    ) -> HookResponse:
        before = request.parent.get("status") or {}
        created = result.health.created if result.health is not None else ""
        told_where = account.apart is None or (created != "" and not isinstance(ours, Unavailable))
        elsewhere = account.apart is not None and _elsewhere(before, created, ours)
        cluster = replace(cluster_of(request, self._settings, self._around), elsewhere=elsewhere)
        stream = wish.wanted.place.stream
        functions = children.functions(wish.manifest, stream, result.served, self._settings, account.access, cluster)
        left = leftovers.condition(
            before, wish.wanted.place, account.connection, created, ours if isinstance(ours, dict) else None
        )
        result = replace(
            result,
            functions=replace(functions, conditions=(*functions.conditions, *([left] if left else []))),
            elsewhere=elsewhere,
            tokens=request.tokens or {},
        )
        body = status(request.parent, wish, result, self._now)
        fresh = complete({**body, **leftovers.to_status(before, account.connection, created)})
        written = counts.calm(request.parent.get("status"), fresh, self._now)
        bound = ((one.durable, one.subscriber) for one in result.bindings or () if one.subscriber is not None)
        senders = identities.proved(bound, wish.truth)
        again = resync_after(result, counts.look_again(fresh, written, self._now))
        if account.apart is not None:
            again = min(again or LOOK_APART_SECONDS, LOOK_APART_SECONDS)
        return HookResponse(
            written,
            children=result.functions.objects,
            resync_after_seconds=again,
            verify=result.questions,
            prune=result.leftovers,
            lease_places=LeasePlaces("" if elsewhere else stream, functions.forwards, functions.receive, senders)
            if told_where and result.bindings is not None
            else None,
        )

    async def _in_cluster(self, place: ChannelStream) -> dict[str, Any] | Unavailable | None:
        """The stream of that name in the installation's own account; an error when NATS does not say."""
        try:
            info = await self._own.info(place.stream)
        except (Unavailable, Refused) as error:
            return error if isinstance(error, Unavailable) else Unavailable(str(error))
        return None if info is None else dict(info)

    def _unreached(
        self,
        request: HookRequest,
        account: Account,
        words: str,
        complete: Callable[[dict[str, Any], datetime], dict[str, Any]],
    ) -> HookResponse:
        body = complete(lockout.unreached(request.parent, words, self._now), self._now)
        return HookResponse(body, self._remaining(request, account).objects, resync_after_seconds=STARTING_SECONDS)

    async def _as_before(self, request: HookRequest, account: Account, body: dict[str, Any]) -> HookResponse:
        """The answer for an invalid spec: what there is goes on, as NATS and the children have it."""
        stream, served = await self._served(request, account)
        functions = await self._calculate(self._remaining, request, account, served)
        if not served or (self._settings.image and not functions.forwards.keys() >= {one.durable for one in served}):
            return HookResponse(body, functions.objects)
        # Metadata of consumers proves nothing about identities.
        places = LeasePlaces(stream, functions.forwards, functions.receive, None)
        return HookResponse(body, functions.objects, lease_places=places)

    async def _served(self, request: HookRequest, account: Account) -> tuple[str, tuple[ServedConsumer, ...]]:
        """The stream and the consumers that a channel with an invalid spec has in our NATS; none if it is unknown."""
        if account.apart is not None:
            return "", ()
        try:
            identity = manifest.parse_identity(request.parent)
            place = stream_config.place(identity.metadata, identity.spec.stream.override_name, self._settings.cluster)
            configs = await account.api.consumers(place.stream)
        except (InvalidSpec, Refused, Unavailable):
            return "", ()
        found = ((str(config["name"]), owned(config, place.owner)) for config in configs)
        ready = [ServedConsumer(durable, one) for durable, one in found if one and one.state is SubscriberState.READY]
        return place.stream, tuple(ready)

    def _remaining(self, request: HookRequest, account: Account, served: Iterable[ServedConsumer] = ()) -> Functions:
        """The functions of a channel with an invalid spec, or with a NATS account that is closed to us: they go on."""
        try:
            identity = manifest.parse_identity(request.parent)
        except InvalidSpec:
            return Functions()
        before = request.parent.get("status") or {}
        cluster = replace(
            cluster_of(request, self._settings, self._around),
            elsewhere=account.apart is not None and bool(before.get("elsewhere", True)),
        )
        return children.remaining(
            identity.metadata, self._settings, account.access, cluster, served, addressed=bool(before.get("address"))
        )


def _elsewhere(before: dict[str, Any], created: str, ours: dict[str, Any] | Unavailable | None) -> bool:
    """Is the channel's stream, created at that moment, in another account than the installation's?"""
    if not created or isinstance(ours, Unavailable):
        # Unknown: keep the former answer. The first is yes: a `forward` that pulls by itself serves either account.
        return bool(before.get("elsewhere", True))
    return ours is None or ours.get("created") != created
