"""The world of passes that an API server makes: its channels, their children, and what the hook asks to see.

The hook is asked what it wants to see of a channel once for each generation of it, and again after `ask_again`. A patch
carries the version or the uid that it is meant for, so that it never hits another object of the same name.
`headrace_operator.channels.one_channel` calls this, and has the order of a pass.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.core.channel.customize import CustomizeAnswer
from headrace.core.channel.hook import HookRequest, Reference
from headrace.core.errors import Refused
from headrace_operator.channels import channel_object
from headrace_operator.channels.channel_object import FINALIZER
from headrace_operator.channels.children import Children
from headrace_operator.channels.kube_events import EventWriter
from headrace_operator.channels.related_objects import RelatedObjects
from headrace_operator.kube.api import Body, Conflict, KubeApi
from headrace_operator.kube.kinds import CHANNEL, Discovery, Key, is_name, key
from headrace_operator.kube.watch import Cache

Customize = Callable[[Body], Awaitable[CustomizeAnswer]]
"""Asks the hook which other objects are to be observed for a channel, and which annotations it is to have."""


@dataclass(slots=True)
class Wishes:
    """The hook's wishes for one channel; it is asked for them before anything else.

    Attributes:
        of: the uid, generation and round that the wishes are for.
        annotations: those that the channel should have.
        annotated: the annotations that the channel was given, and for which uid and generation: people may take them
            off.
    """

    of: tuple[str, int, int] | None = None
    annotations: Mapping[str, str] = field(default_factory=dict)
    annotated: tuple[tuple[str, int], Mapping[str, str]] | None = None


class ClusterWorld:
    """The channels of a cluster, or of one namespace. All methods raise as `KubeApi`.

    Attributes:
        without_tokens: says why there are no tokens for a channel's consumers, by consumer.
    """

    def __init__(
        self,
        api: KubeApi,
        discovery: Discovery,
        channels: Cache,
        children: Children,
        related: RelatedObjects,
        events: EventWriter,
        customize: Customize,
    ) -> None:
        self.api = api
        self.discovery = discovery
        self.channels = channels
        self.children = children
        self.related = related
        self.make_so = children.make_so
        self.tell = events
        self._events = events
        self._customize = customize
        self.without_tokens: Callable[[Key], Mapping[str, str]] = lambda _: {}
        self._wishes: dict[Key, Wishes] = {}
        self._round = 0

    def ask_again(self) -> None:
        """Ask the hook again: the cluster may serve other kinds now, or another hook may wish for something else.

        An answer that is on its way belongs to the round before.
        """
        self._round += 1

    async def prepare(self, channel: Body) -> Body:
        wishes = self._wishes.setdefault(key(channel), Wishes())
        await self._look_around(channel, wishes)
        return channel if channel_object.is_going(channel) else await self._hold(channel, wishes)

    def request(self, channel: Body, *, finalizing: bool, ending: bool) -> tuple[HookRequest, bytes]:
        related, children, place = self.related, self.children, key(channel)
        request = HookRequest(
            channel,
            children=children.observed(channel),
            finalizing=finalizing,
            complete=related.complete(place),
            unserved=related.unserved(place),
            unseen=related.unseen(place),
            ending=ending,
            apis=children.apis,
            shared=children.shared(channel),
            watched=children.own_namespace,
            lacking=dict(children.lacking(channel)),
            guests=children.guests(channel),
            tokens=dict(self.without_tokens(place)),
        )
        return request, related.write(channel)

    async def absent(self, references: Sequence[Reference]) -> frozenset[str]:
        """The uids of the objects that the API server does not have under their names."""
        found = set()
        for one in references:
            kind = await self.discovery.by_kind(one.api_version, one.kind)
            # An entry may have any text for a name.
            if kind is None or not is_name(one.name):
                continue
            live = await self.api.get(kind.path(one.namespace, one.name))
            if live is None or live["metadata"]["uid"] != one.uid:
                found.add(one.uid)
        return frozenset(found)

    async def prune(self, channel: Body, kept: list[Any]) -> Body:
        return self._noted(await self._swap(channel, {"op": "replace", "path": "/spec/subscribers", "value": kept}))

    async def write_status(self, channel: Body, status: Mapping[str, Any]) -> Body | None:
        before = channel.get("status") or {}
        if patch := channel_object.difference(before, status):
            # The version does not matter, since nobody else writes the status.
            body = {"metadata": {"uid": channel["metadata"]["uid"]}, "status": patch}
            try:
                channel = self._noted(await self.api.merge(CHANNEL.path(*key(channel), "status"), body))
            except Refused as error:
                if error.status == 404 or isinstance(error, Conflict):
                    # The channel is gone, or another has its name and gets a pass of its own.
                    return None
                raise
        self._events.tell_changes(channel, before, status)
        return channel

    async def let_go(self, channel: Body) -> None:
        # The cache knows the version that our own patches have made; a version that others have written is a Conflict.
        channel = self.channels.get(key(channel)) or channel
        rest = [one for one in channel["metadata"].get("finalizers") or () if one != FINALIZER]
        try:
            await self._swap(channel, {"op": "add", "path": "/metadata/finalizers", "value": rest})
        except Refused as error:
            # Somebody has taken the finalizer off by force.
            if error.status != 404:
                raise

    def forget(self, place: Key) -> None:
        self._wishes.pop(place, None)
        self.related.forget(place)

    async def _look_around(self, channel: Body, wishes: Wishes) -> None:
        """Have the objects watched that the hook wants to see for this generation."""
        version = (*channel_object.version(channel), self._round)
        if wishes.of == version:
            return
        answer = await self._customize(channel)
        await self.related.ask_for(key(channel), answer.rules)
        wishes.of, wishes.annotations = version, answer.annotations
        self.children.system_namespace = answer.system_namespace

    async def _hold(self, channel: Body, wishes: Wishes) -> Body:
        """Give the channel our finalizer and the annotations that it should have, in one patch."""
        given = channel_object.version(channel), wishes.annotations
        lacking = channel_object.lacking(channel, wishes.annotations) if wishes.annotated != given else {}
        metadata = channel["metadata"]
        operations: list[dict[str, Any]] = []
        if not channel_object.is_held(channel):
            held = [*(metadata.get("finalizers") or ()), FINALIZER]
            operations.append({"op": "add", "path": "/metadata/finalizers", "value": held})
        if lacking and "annotations" not in metadata:
            operations.append({"op": "add", "path": "/metadata/annotations", "value": lacking})
        else:
            # One operation for each, since the object also has an annotation that our copy lacks (`kube.watch.NOISE`).
            for name, value in lacking.items():
                path = f"/metadata/annotations/{name.replace('~', '~0').replace('/', '~1')}"
                operations.append({"op": "add", "path": path, "value": value})
        channel = self._noted(await self._swap(channel, *operations)) if operations else channel
        wishes.annotated = given
        return channel

    async def _swap(self, channel: Body, *operations: dict[str, Any]) -> Body:
        return await self.api.swap(CHANNEL.path(*key(channel)), channel, *operations)

    def _noted(self, channel: Body) -> Body:
        self.channels.note(channel)
        return channel
