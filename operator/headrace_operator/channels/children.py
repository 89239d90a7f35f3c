"""The children of all channels in the cluster: what there is of them, and making it what the hook wants.

Every child kind is watched by our label. Of the objects that bear it only ours are looked at; the rest Knative and
others make for our children, with the labels of these. A child that is as it was applied is not applied again, so that
an idle operator asks for nothing; a child that somebody has changed is healed. An operator of one namespace watches no
other: at each pass it looks up the children that it has in another one. The hook says which children there are to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

from headrace.core.channel import guests
from headrace.core.channel.child_marks import MANAGED_BY, UID_LABEL, US
from headrace.core.channel.guests import Guests
from headrace.core.channel.hook import CERT_MANAGER_API, KEDA_API, SERVING_API
from headrace.core.errors import Refused
from headrace.io.process import clock, log
from headrace.io.process.calculation import in_slices
from headrace_operator.channels import channel_object
from headrace_operator.channels import child as children_of
from headrace_operator.channels.child import Child, Spot
from headrace_operator.channels.child_records import ChildProblem, ChildRecords, ChildrenOutcome
from headrace_operator.channels.claims import Indexed, Wants, belonging, is_of_one_namespace, is_shared, may_share
from headrace_operator.channels.removal import Removal
from headrace_operator.kube.api import Body, KubeApi, NamespaceGoing
from headrace_operator.kube.kinds import DEPLOYMENT, Discovery, Kind, key
from headrace_operator.kube.watch import Cache, Watch

CERTIFICATE = Kind(CERT_MANAGER_API, "Certificate", "certificates")
KINDS = (
    Kind("v1", "Service", "services"),
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    DEPLOYMENT,
    Kind(SERVING_API, "Service", "services"),
    Kind(KEDA_API, "ScaledObject", "scaledobjects"),
    CERTIFICATE,
)
"""The kinds of children in the hook's answers; a kind of an optional API is watched once the cluster serves it."""
# A child that is being deleted must be gone before it can be made anew.
GOING_SECONDS = 1.0

_log = log.get("children")


class Children:
    """The children of all channels.

    Attributes:
        listeners: called with the uid of a channel of which a child has changed, and with the child's namespace.
        system_namespace: where channels have children beside their own namespaces; empty while it is unknown.
        own_namespace: the only namespace that is watched; empty: all of them.
    """

    def __init__(
        self,
        api: KubeApi,
        discovery: Discovery,
        channels: Cache,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        own_namespace: str = "",
    ) -> None:
        self.listeners: list[Callable[[str, str], None]] = []
        self.system_namespace = ""
        self._api = api
        self._discovery = discovery
        self._channels = channels
        self._spawn = spawn
        self.own_namespace = own_namespace
        self._watches: dict[Kind, Watch] = {}
        self._index = Indexed()
        self._applied = ChildRecords()
        self._removing = Removal(api, self._applied, lambda kind: self._watch(kind).cache)
        self._wants = Wants()
        self._writing: dict[Spot, asyncio.Lock] = {}
        self._lacking: dict[str, dict[str, str]] = {}
        channels.listeners.append(self._on_channel)

    def begin(self) -> None:
        """Forget the wants of all channels: another operator may have led meanwhile."""
        self._wants.clear()

    async def watch_what_is_served(self) -> None:
        """Begin to watch the kinds that the cluster serves; returns when all of them are listed.

        Certificates are for a flag that few set: an operator that lacks the right to see them goes on without.
        """
        for kind in KINDS:
            if self._discovery.serves(kind.api_version):
                self._watch(kind)
        await asyncio.gather(
            *(
                watch.answered.wait() if kind == CERTIFICATE else watch.cache.wait_until_listed()
                for kind, watch in self._watches.items()
            )
        )
        if self._blind_to_certificates:
            _log.warning("the operator may not list certificates.cert-manager.io, and has none made: see docs/rbac.md")

    @property
    def apis(self) -> frozenset[str]:
        """Which optional APIs the cluster serves, and shows to us."""
        served = frozenset(filter(self._discovery.serves, (SERVING_API, KEDA_API, CERT_MANAGER_API)))
        return served - {CERT_MANAGER_API} if self._blind_to_certificates else served

    @property
    def _blind_to_certificates(self) -> bool:
        watch = self._watches.get(CERTIFICATE)
        return watch is not None and not watch.cache.listed

    def all(self) -> Iterator[tuple[Spot, Body]]:
        for kind, watch in self._watches.items():
            for body in watch.cache:
                yield (kind, key(body)), body

    def channel_of(self, body: Body) -> str | None:
        """The uid of the channel that a child belongs to; None for a shared one."""
        found: str | None = (body["metadata"].get("labels") or {}).get(UID_LABEL)
        return found

    def is_at_home(self, namespace: str, parents: str) -> bool:
        """May a channel in the namespace `parents` have children here?

        A tenant can make an object in his own namespace that bears the uid of any channel (ADR 052).
        """
        return namespace == parents or self.system_namespace in ("", namespace)

    def observed(self, parent: Mapping[str, Any]) -> dict[str, dict[str, Body]]:
        """The channel's children as the hook sees them."""
        found: dict[str, dict[str, Body]] = {}
        for (kind, place), body in self._of(parent):
            own = place[0] == parent["metadata"]["namespace"]
            found.setdefault(kind.title, {})[place[1] if own else "/".join(place)] = body
        return found

    def shared(self, parent: Mapping[str, Any]) -> dict[str, dict[str, Body]]:
        """The children that the channel may share with others, as the hook sees them."""
        found: dict[str, dict[str, Body]] = {}
        for kind, place in self._index.shared:
            body, own = self._watch(kind).cache.get(place), place[0] == parent["metadata"]["namespace"]
            at_home = own or self.is_at_home(place[0], "")
            if body is not None and at_home and may_share(body, parent["metadata"]["namespace"]):
                found.setdefault(kind.title, {})[place[1] if own else "/".join(place)] = children_of.strip(body)
        return found

    def guests(self, parent: Mapping[str, Any]) -> dict[str, Guests]:
        """The functions of other channels of the channel's namespace, by the other namespace where they are."""
        spots = self._index.guests.get(parent["metadata"]["namespace"], ())
        found = (self._watch(kind).cache.get(place) for kind, place in spots if self.is_at_home(place[0], ""))
        return guests.of((one for one in found if one is not None), "/".join(key(parent)))

    def lacking(self, parent: Mapping[str, Any]) -> Mapping[str, str]:
        """The namespaces in which we lacked a right for the channel's children in the last pass, and our account."""
        return self._lacking.get(parent["metadata"]["uid"], {})

    async def make_so(
        self, parent: Mapping[str, Any], answers: Iterable[Mapping[str, Any]], check: Callable[[], None] = lambda: None
    ) -> ChildrenOutcome:
        """Apply the wanted children that are not there, and delete those that are there and not wanted.

        Args:
            check: called before each change; raises Unavailable when the hook's answer does not count any more.

        Raises:
            Unavailable: the API server did not answer.
        """
        problems: list[ChildProblem] = []
        waits: list[float] = []
        ending = False
        uid = parent["metadata"]["uid"]
        wanted: dict[Spot, Child] = {}
        # Objects of a kind that the cluster does not serve, perhaps at this moment only: they are left alone.
        unread: set[tuple[str, str]] = set()
        async for answer in in_slices(answers):
            found = await self._parse(parent, answer)
            if isinstance(found, str):
                problems.append(ChildProblem(found))
                unread.add(children_of.title_and_name(answer))
            else:
                wanted[found.spot] = found
        shared = [spot for spot, child in wanted.items() if child.shared]
        self._wants.add(uid, shared)
        async for child in in_slices(wanted.values()):
            try:
                wait = await self._apply(parent, child, check)
            except Refused as error:
                # The channel goes with its own namespace.
                if isinstance(error, NamespaceGoing) and child.place[0] == parent["metadata"]["namespace"]:
                    ending = True
                else:
                    problems.append(ChildProblem.of(child.spot, error))
            else:
                waits += [] if wait is None else [wait]
        for spot, live in list(self._of(parent)):
            if spot not in wanted and (spot[0].title, spot[1][1]) not in unread:
                check()
                problems += await self._let_go(parent, spot, live)
        if not unread:
            before = self._wants.of(uid)
            self._wants.set(uid, shared)
            problems += [problem for spot, problem in await self.release() if spot in before]
        self._lacking[uid] = dict(problem.lacks for problem in problems if problem.lacks)
        return ChildrenOutcome(tuple(problems), min(waits, default=None), ending)

    @property
    def unwanted(self) -> list[Spot]:
        """Shared children that no channel owns and, as far as is known, no channel wants."""
        # In a single namespace each channel owns its children; one without owner may be wanted from another namespace.
        if self.own_namespace:
            return []
        return [spot for spot in self._index.shared if not self._wants.by(spot) and not self._owned(spot)]

    async def release(self) -> list[tuple[Spot, ChildProblem]]:
        """Delete the shared children that no channel wants, once all channels were seen; gives the problems.

        Raises:
            Unavailable: the API server did not answer.
        """
        problems: list[tuple[Spot, ChildProblem]] = []
        for spot in self.unwanted:
            async with self._writing.setdefault(spot, asyncio.Lock()):
                live = self._watch(spot[0]).cache.get(spot[1])
                if live is not None and self._knows_all() and spot in self.unwanted:
                    problems += [(spot, problem) for problem in await self._removing.delete(spot, live)]
        return problems

    async def _parse(self, parent: Mapping[str, Any], answer: Mapping[str, Any]) -> Child | str:
        """A child of the answer, or a sentence that says why it can't be one."""
        api_version, name = str(answer.get("apiVersion")), str(answer.get("kind"))
        if not (answer.get("metadata") or {}).get("name"):
            return f"{name}.{api_version}: a child without metadata.name was asked for"
        kind = await self._discovery.by_kind(api_version, name)
        if kind is None:
            return f"{name}.{api_version} {answer['metadata']['name']}: the cluster does not serve this kind"
        self._watch(kind)
        return children_of.wanted(parent, answer, kind)

    async def _apply(self, parent: Mapping[str, Any], child: Child, check: Callable[[], None]) -> float | None:
        """Apply a child unless it is there; gives the seconds to wait when it was healed a moment ago."""
        spot = (child.kind, child.place)
        cache = self._watch(child.kind).cache
        await cache.wait_until_listed()
        async with self._writing.setdefault(spot, asyncio.Lock()):
            if self.own_namespace not in ("", child.place[0]):
                await self._look_up(cache, child)
            live = cache.get(child.place)
            if live is not None and live["metadata"].get("deletionTimestamp"):
                return GOING_SECONDS
            if live is not None and self._applied.is_there(parent, child, live):
                return None
            wait = self._applied.contested(child, clock.monotonic())
            if wait is not None:
                return wait
            path = child.kind.path(*child.place)
            if live is None:
                live = await self._api.get(path)
                if live is not None and children_of.is_foreign(live, child, parent):
                    raise Refused("there is one already that is not of this channel: delete or rename it", status=409)
            references = self._owners(parent, child, live)
            check()
            applied = await self._api.apply(path, children_of.with_owners(child, references))
            cache.note(applied)
            self._applied.note(child, applied, clock.monotonic())
            _log.info("child applied", child=child.title, channel="/".join(key(parent)))
            return None

    async def _look_up(self, cache: Cache, child: Child) -> None:
        """Look up a child that the watch does not cover: the cache has it as of the last pass."""
        known, live = cache.get(child.place), await self._api.get(child.kind.path(*child.place))
        if live is not None:
            cache.put(live)
        elif known is not None:
            cache.remove(known)

    def _owners(self, parent: Mapping[str, Any], child: Child, live: Body | None) -> list[Body]:
        if not children_of.may_own(child, parent):
            return []
        own = children_of.owner(parent, shared=child.shared)
        if not child.shared:
            return [own]
        return list({**children_of.owners(live), own["uid"]: own}.values())

    async def _let_go(self, parent: Mapping[str, Any], spot: Spot, live: Body) -> list[ChildProblem]:
        """Delete a child, or leave a shared one to the others that own it."""
        uid = parent["metadata"]["uid"]
        if is_shared(live):
            others = children_of.owners(live).keys() | self._wants.by(spot)
            owned = self.own_namespace or is_of_one_namespace(live)
            if others - {uid} or not (owned or self._knows_all(but=uid)):
                return await self._removing.disown(spot, live, uid)
        problems = await self._removing.delete(spot, live)
        # Kubernetes deletes what a channel owns with it; for that nobody needs a right.
        owned = channel_object.is_going(parent) and children_of.owners(live).keys() == {uid}
        return [one for one in problems if not (owned and one.lacks)]

    def _knows_all(self, but: str = "") -> bool:
        """Are the wants of every channel known?"""
        uids = {channel["metadata"]["uid"] for channel in self._channels if not channel_object.is_left(channel)}
        return self._channels.complete and self._wants.knows(uids - {but})

    def _owned(self, spot: Spot) -> bool:
        return bool(children_of.owners(self._watch(spot[0]).cache.get(spot[1])))

    def _of(self, parent: Mapping[str, Any]) -> Iterator[tuple[Spot, Body]]:
        spots = self._index.spots.get(parent["metadata"]["uid"], ())
        for spot in sorted(spots, key=lambda each: (each[0].title, each[1])):
            body = self._watch(spot[0]).cache.get(spot[1])
            if body is not None and self.is_at_home(spot[1][0], parent["metadata"]["namespace"]):
                yield spot, body

    def _watch(self, kind: Kind) -> Watch:
        watch = self._watches.get(kind)
        if watch is None:
            watch = Watch(self._api, kind, namespace=self.own_namespace, labels=f"{MANAGED_BY}={US}", quiet=True)
            watch.cache.keeps = children_of.is_ours
            watch.cache.listeners.append(lambda old, new: self._on_change(kind, old, new))
            self._watches[kind] = watch
            self._spawn(watch.run())
        return watch

    def _on_channel(self, old: Body | None, new: Body | None) -> None:
        if old is not None and (new is None or new["metadata"]["uid"] != old["metadata"]["uid"]):
            self._wants.forget(old["metadata"]["uid"])
            self._lacking.pop(old["metadata"]["uid"], None)

    def _on_change(self, kind: Kind, old: Body | None, new: Body | None) -> None:
        body = new or old
        assert body is not None
        spot = (kind, key(body))
        self._index.move(spot, old, new)
        if new is None and spot in self._writing and not self._writing[spot].locked():
            del self._writing[spot]
        if old is not None and new is not None and children_of.signature(old) == children_of.signature(new):
            return
        for uid in (belonging(old) | belonging(new)) | self._wants.by(spot):
            for listener in self.listeners:
                listener(uid, spot[1][0])
