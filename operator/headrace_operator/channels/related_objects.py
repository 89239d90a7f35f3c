"""The objects that the hook wants to see beside the channel and its children, each kind watched once for all channels.

The rules of `customize` become watches here, and the objects of these become the `related` of a request: each is kept
as JSON, ready to be sent. Of thousands of Subscriptions only those that concern the channel are sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import Any

from headrace.core.channel.customize import RelatedRule
from headrace.core.channel.truth import channel_of
from headrace.io.process import log
from headrace_operator.channels import channel_object
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.kinds import Discovery, Key, Kind, key
from headrace_operator.kube.watch import Watch

LIST_SECONDS = 15.0
# Of these kinds there are many objects, or objects that not everybody may see: only named ones are watched.
BY_NAME = ("ConfigMap", "Secret")
# Of a Secret only that goes on which is none: the authority of a certificate.
PUBLIC = "ca.crt"

_log = log.get("related")

Spawn = Callable[[Coroutine[Any, Any, None]], object]


Source = tuple[Kind, str, str]
"""Kind, namespace and name of the objects of one watch."""


class ObjectTexts:
    """The objects of one watch as members of a JSON object; in the parent's namespace by their bare names."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._texts: dict[Key, bytes] = {}
        self._by_uid: dict[str, Key] = {}
        self._by_channel: dict[Key, set[Key]] = {}
        watch.cache.listeners.append(self._on_change)

    def members(self, rule: RelatedRule, parent: Body) -> Iterator[bytes]:
        """The members for the objects that a rule takes."""
        for of, name in self._concerning(parent) if rule.concerning else self._texts:
            if _takes(rule, of, name):
                place = name if of in (parent["metadata"]["namespace"], "") else f"{of}/{name}"
                yield json.dumps(place).encode() + b":" + self._texts[of, name]

    def _concerning(self, parent: Body) -> list[Key]:
        """Those that name the channel, and of its own namespace those that it mentions.

        Who may write a channel may write any uid into it, and is told nothing of other namespaces' objects by that.
        """
        mentioned = {self._by_uid[uid] for uid in channel_object.mentioned(parent) if uid in self._by_uid}
        own = {place for place in mentioned if place[0] == parent["metadata"]["namespace"]}
        return sorted(own | self._by_channel.get(key(parent), set()))

    def _on_change(self, old: Body | None, new: Body | None) -> None:
        if old is not None:
            place = key(old)
            self._texts.pop(place, None)
            self._by_uid.pop(str(old["metadata"].get("uid")), None)
            named = channel_of(old)
            if others := self._by_channel.get(named):
                others.discard(place)
                if not others:
                    del self._by_channel[named]
        if new is not None:
            place = key(new)
            self._texts[place] = json.dumps(new).encode()
            self._by_uid[str(new["metadata"].get("uid"))] = place
            self._by_channel.setdefault(channel_of(new), set()).add(place)


class RelatedObjects:
    """All related objects of all channels.

    Attributes:
        listeners: called with the uid of an object that has changed, and with the channels that ask for it by name.
    """

    def __init__(
        self,
        api: KubeApi,
        discovery: Discovery,
        spawn: Spawn,
        own_namespace: str = "",
        patience: float = LIST_SECONDS,
    ) -> None:
        """Args:
        own_namespace: the namespace to look in where a rule names none; empty: all of them.
        patience: seconds that a channel waits for the objects that it asks for.
        """
        self.listeners: list[Callable[[str, frozenset[Key]], None]] = []
        self._api = api
        self._discovery = discovery
        self._spawn = spawn
        self._own_namespace = own_namespace
        self._patience = patience
        self._sources: dict[Source, ObjectTexts] = {}
        self._rules: dict[Key, tuple[RelatedRule, ...]] = {}
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._named: dict[tuple[str, str], set[Key]] = {}
        # The watches that were not listed within the patience, and the channels that go on without them.
        self._late: dict[Watch, set[Key]] = {}

    async def ask_for(self, channel: Key, rules: Iterable[RelatedRule]) -> None:
        """Watch the objects that a channel wants to see; returns when they are listed, or the patience ends."""
        self.forget(channel)
        wanted = self._rules[channel] = tuple(rules)
        for rule in wanted:
            for name in _told_by(rule):
                self._named.setdefault((_which(rule), name), set()).add(channel)
        new = [source for rule in wanted for source in await self._sources_of(rule) if source not in self._sources]
        for source in new:
            self._begin(source)
        watches = [texts.watch for texts in self._texts_of(wanted)]
        needed = {texts.watch for texts in self._texts_of(one for one in wanted if not one.optional)}
        answers = [
            one.cache.wait_until_listed() if one in needed else one.answered.wait()
            for one in watches
            if not self._is_vain(one)
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(self._patience):
                await asyncio.gather(*answers)
        for one in watches:
            if not one.cache.listed:
                # Perhaps we may not see them. The channel goes on without, and hears if they are listed after all.
                self._late.setdefault(one, set()).add(channel)

    def _is_vain(self, watch: Watch) -> bool:
        """Has a channel waited in vain for objects that we may not see? A thousand others would each wait again."""
        return watch in self._late and watch.refused

    def forget(self, channel: Key) -> None:
        for rule in self._rules.pop(channel, ()):
            for name in _told_by(rule):
                self._named.get((_which(rule), name), set()).discard(channel)
        for late in self._late.values():
            late.discard(channel)

    def write(self, channel: Body) -> bytes:
        """The `related` of a request for a channel."""
        groups: dict[str, list[bytes]] = {}
        for rule in self._rules.get(key(channel), ()):
            for (kind, *_), texts in self._of(rule):
                # An object that we may not see is not said to be missing.
                if rule.names and not texts.watch.cache.listed:
                    continue
                groups.setdefault(kind.title, []).extend(texts.members(rule, channel))
        members = (json.dumps(title).encode() + b":{" + b",".join(found) + b"}" for title, found in groups.items())
        return b"{" + b",".join(members) + b"}"

    def complete(self, channel: Key) -> frozenset[str]:
        """Kinds of which `related` holds every object of the cluster, or every one that concerns the channel."""
        found = set()
        for rule in self._rules.get(channel, ()):
            if rule.namespace or rule.names:
                continue
            for (kind, namespace, name), texts in self._of(rule):
                if not namespace and not name and texts.watch.cache.complete:
                    found.add(kind.title)
        return frozenset(found)

    def unserved(self, channel: Key) -> frozenset[str]:
        """Kinds that the channel wants to see and the cluster does not serve."""
        rules = self._rules.get(channel, ())
        missing = (rule for rule in rules if rule.kind and (rule.api_version, rule.kind) not in self._kinds)
        return frozenset(f"{rule.kind}.{rule.api_version}" for rule in missing)

    def unseen(self, channel: Key) -> frozenset[str]:
        """Objects that we lacked the right or the time to look for, as `ConfigMap.v1/NAMESPACE/NAME`."""
        return frozenset(
            "/".join((kind.title, *filter(None, (rule.namespace, name))))
            for rule in self._rules.get(channel, ())
            for name in rule.names or ("",)
            for (kind, *_), texts in self._of(rule)
            if not texts.watch.cache.listed
        )

    async def appeared(self) -> bool:
        """Does the cluster now serve a kind that it did not when a channel asked for it? Raises as `Discovery`."""
        wanted = {(rule.api_version, _which(rule)): rule for rules in self._rules.values() for rule in rules}
        missing = [rule for which, rule in wanted.items() if which not in self._kinds]
        return any([await self._kind_of(rule) for rule in missing])

    def _of(self, rule: RelatedRule) -> Iterator[tuple[Source, ObjectTexts]]:
        kind = self._kinds.get((rule.api_version, _which(rule)))
        for source in self._planned(kind, rule) if kind else ():
            if source in self._sources:
                yield source, self._sources[source]

    def _texts_of(self, rules: Iterable[RelatedRule]) -> list[ObjectTexts]:
        return [texts for rule in rules for _, texts in self._of(rule)]

    async def _sources_of(self, rule: RelatedRule) -> list[Source]:
        kind = self._kinds.get((rule.api_version, _which(rule))) or await self._kind_of(rule)
        if kind is None:
            _log.debug("a related kind is not served", api_version=rule.api_version, wanted=_which(rule))
            return []
        self._kinds[rule.api_version, _which(rule)] = kind
        return list(self._planned(kind, rule))

    async def _kind_of(self, rule: RelatedRule) -> Kind | None:
        if rule.kind:
            return await self._discovery.by_kind(rule.api_version, rule.kind)
        return await self._discovery.by_plural(rule.api_version, rule.resource)

    def _planned(self, kind: Kind, rule: RelatedRule) -> Iterator[Source]:
        namespace = rule.namespace or self._own_namespace
        if kind.kind in BY_NAME:
            yield from ((kind, namespace, name) for name in rule.names or ("",))
        else:
            yield kind, self._own_namespace, ""

    def _begin(self, source: Source) -> ObjectTexts:
        if source in self._sources:
            return self._sources[source]
        kind, namespace, name = source
        fields = f"metadata.name={name}" if name else ""
        watch = Watch(self._api, kind, namespace=namespace, fields=fields)
        if kind.kind == "Secret":
            watch.cache.trim = without_secrets
        texts = self._sources[source] = ObjectTexts(watch)
        watch.cache.listeners.append(lambda old, new: self._on_change(watch, old, new))
        self._spawn(watch.run())
        self._spawn(self._tell_late_ones(watch))
        return texts

    async def _tell_late_ones(self, watch: Watch) -> None:
        await watch.cache.wait_until_listed()
        late = frozenset(self._late.pop(watch, ()))
        for listener in self.listeners if late else ():
            listener("", late)

    def _on_change(self, watch: Watch, old: Body | None, new: Body | None) -> None:
        # A channel that has asked waits for the first list anyway.
        if not watch.cache.listed or (old is not None and new is not None and not is_news(old, new)):
            return
        body = new or old
        assert body is not None
        which, place = (watch.cache.kind.kind, watch.cache.kind.plural), key(body)
        asking = {
            channel
            for each in which
            for name in (place[1], "")
            for channel in self._named.get((each, name), ())
            if any(_which(one) in which and _takes(one, *place) for one in self._rules.get(channel, ()))
        }
        uids = {str(each["metadata"].get("uid") or "") for each in (old, new) if each is not None}
        for uid in uids:
            for listener in self.listeners:
                listener(uid, frozenset(asking))


def without_secrets(secret: Body) -> None:
    """Leave of a Secret only what everybody may know."""
    data = secret.pop("data", None)
    secret.pop("stringData", None)
    if isinstance(data, dict) and PUBLIC in data:
        secret["data"] = {PUBLIC: data[PUBLIC]}


def _takes(rule: RelatedRule, namespace: str, name: str) -> bool:
    return rule.namespace in ("", namespace) and (not rule.names or name in rule.names)


def _told_by(rule: RelatedRule) -> tuple[str, ...]:
    """Names of the objects whose changes count, "" for any; of a whole kind, only those that the channel mentions."""
    return rule.names or (("",) if rule.namespace else ())


def _which(rule: RelatedRule) -> str:
    """The kind if it is known, else its plural."""
    return rule.kind or rule.resource


def is_news(old: Body, new: Body) -> bool:
    """Should the hook see this change at once? The status of a Subscription is our own echo, but for its account."""
    if "generation" not in new["metadata"]:
        return True
    before, after = old.get("status") or {}, new.get("status") or {}
    if new.get("kind") == "Subscription":
        # Knative writes it a moment after the entry of `spec.subscribers`.
        before, after = before.get("auth"), after.get("auth")
    if before != after:
        return True
    keys = ("uid", "generation", "labels", "annotations", "deletionTimestamp")
    return any(old["metadata"].get(each) != new["metadata"].get(each) for each in keys)
