"""The objects that the hook wants to see beside the channel and its children, each kind watched once for all channels.

What `customize` asks for becomes watches here, and what these hold becomes the `related` of a request. Most channels
ask for the same thousands of Subscriptions, so every object is kept as JSON, ready to be sent.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.io import log
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.kinds import Discovery, Key, Kind, key
from headrace_operator.kube.watch import Watch

LIST_SECONDS = 15.0
# Many, or not for everyone: only those that are named are watched.
BY_NAME = ("ConfigMap", "Secret")
# Some MiB each, where there are thousands of Subscriptions.
MOST_JOINED = 4
SECRET_PARTS = ("data", "stringData")

_log = log.get("related")

Spawn = Callable[[Coroutine[Any, Any, None]], object]


@dataclass(frozen=True, slots=True)
class Rule:
    """One of `relatedResources`; empty means any."""

    api_version: str
    plural: str
    namespace: str = ""
    names: tuple[str, ...] = ()
    labels: str = ""

    @property
    def told_by(self) -> tuple[str, ...]:
        """Names of objects whose changes are told; "" for any. Of a whole kind what the channel mentions counts."""
        return self.names or (("",) if self.labels or self.namespace else ())

    def takes(self, namespace: str, name: str) -> bool:
        """By place; labels are the watch's."""
        return self.namespace in ("", namespace) and (not self.names or name in self.names)


Source = tuple[Kind, str, str, str]
"""What one watch is about: kind, namespace, name, labels."""


class Texts:
    """The objects of one watch as members of a JSON object; those of the parent's namespace without theirs."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self._texts: dict[Key, bytes] = {}
        # The same for all channels of a namespace, until something changes.
        self._joined: dict[tuple[Rule, str], bytes] = {}
        watch.cache.listeners.append(self._on_change)

    def members(self, rule: Rule, namespace: str) -> bytes:
        """Those that a rule takes, with commas between them."""
        if rule.names:
            return b",".join(self._members(rule, namespace))
        joined = self._joined.get((rule, namespace))
        if joined is None:
            if len(self._joined) >= MOST_JOINED:
                self._joined.clear()
            joined = self._joined[rule, namespace] = b",".join(self._members(rule, namespace))
        return joined

    def _members(self, rule: Rule, namespace: str) -> Iterator[bytes]:
        for (of, name), text in self._texts.items():
            if rule.takes(of, name):
                place = name if of in (namespace, "") else f"{of}/{name}"
                yield json.dumps(place).encode() + b":" + text

    def _on_change(self, old: Body | None, new: Body | None) -> None:
        self._joined.clear()
        if new is not None:
            self._texts[key(new)] = json.dumps(new).encode()
        elif old is not None:
            self._texts.pop(key(old), None)


class Related:
    """All related objects of all channels.

    Attributes:
        listeners: called with the uid of an object that has changed, and with the channels that ask for it by name.
    """

    def __init__(self, api: KubeApi, discovery: Discovery, spawn: Spawn, own_namespace: str = "") -> None:
        """Args:
        own_namespace: where to look where a rule names no namespace; empty: everywhere.
        """
        self.listeners: list[Callable[[str, frozenset[Key]], None]] = []
        self._api = api
        self._discovery = discovery
        self._spawn = spawn
        self._own_namespace = own_namespace
        self._sources: dict[Source, Texts] = {}
        self._rules: dict[Key, tuple[Rule, ...]] = {}
        self._kinds: dict[tuple[str, str], Kind] = {}
        self._named: dict[tuple[str, str], set[Key]] = {}
        self._late: set[Key] = set()

    async def ask_for(self, channel: Key, rules: Iterable[Rule]) -> None:
        """Watch what a channel wants to see from now on; returns when it can be seen, or does not come."""
        self.forget(channel)
        wanted = self._rules[channel] = tuple(rules)
        for rule in wanted:
            for name in rule.told_by:
                self._named.setdefault((rule.plural, name), set()).add(channel)
        new = [source for rule in wanted for source in await self._sources_of(rule) if source not in self._sources]
        waits = [self._begin(source).watch.cache.wait_until_listed() for source in dict.fromkeys(new)]
        waits += [texts.watch.cache.wait_until_listed() for texts in self._texts_of(wanted)]
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await asyncio.gather(*waits)
        except TimeoutError:
            # Not ours to see, perhaps; the channel goes on without, and is told should they be listed after all.
            self._late.add(channel)

    def forget(self, channel: Key) -> None:
        for rule in self._rules.pop(channel, ()):
            for name in rule.told_by:
                self._named.get((rule.plural, name), set()).discard(channel)

    def written(self, channel: Key) -> bytes:
        """The `related` of a request for it."""
        groups: dict[str, list[bytes]] = {}
        for rule in self._rules.get(channel, ()):
            for (kind, *_), texts in self._of(rule):
                groups.setdefault(kind.title, []).append(texts.members(rule, channel[0]))
        members = (
            json.dumps(title).encode() + b":{" + b",".join(filter(None, found)) + b"}"
            for title, found in groups.items()
        )
        return b"{" + b",".join(members) + b"}"

    def complete(self, channel: Key) -> list[str]:
        """Kinds of which that holds every object of the cluster."""
        found = set()
        for rule in self._rules.get(channel, ()):
            if rule.namespace or rule.names or rule.labels:
                continue
            for (kind, namespace, name, _), texts in self._of(rule):
                if not namespace and not name and texts.watch.cache.complete:
                    found.add(kind.title)
        return sorted(found)

    def _of(self, rule: Rule) -> Iterator[tuple[Source, Texts]]:
        kind = self._kinds.get((rule.api_version, rule.plural))
        for source in self._planned(kind, rule) if kind else ():
            if source in self._sources:
                yield source, self._sources[source]

    def _texts_of(self, rules: Iterable[Rule]) -> list[Texts]:
        return [texts for rule in rules for _, texts in self._of(rule)]

    async def _sources_of(self, rule: Rule) -> list[Source]:
        if (rule.api_version, rule.plural) not in self._kinds:
            kind = await self._discovery.by_plural(rule.api_version, rule.plural)
            if kind is None:
                _log.debug("a related kind is not served", api_version=rule.api_version, resource=rule.plural)
                return []
            self._kinds[rule.api_version, rule.plural] = kind
        return list(self._planned(self._kinds[rule.api_version, rule.plural], rule))

    def _planned(self, kind: Kind, rule: Rule) -> Iterator[Source]:
        namespace = rule.namespace or self._own_namespace
        if kind.kind in BY_NAME:
            yield from ((kind, namespace, name, rule.labels) for name in rule.names or ("",))
        else:
            yield kind, self._own_namespace, "", rule.labels

    def _begin(self, source: Source) -> Texts:
        if source in self._sources:
            return self._sources[source]
        kind, namespace, name, labels = source
        fields = f"metadata.name={name}" if name else ""
        watch = Watch(self._api, kind, namespace=namespace, labels=labels, fields=fields)
        if kind.kind == "Secret":
            watch.cache.without = SECRET_PARTS
        texts = self._sources[source] = Texts(watch)
        watch.cache.listeners.append(lambda old, new: self._on_change(watch, old, new))
        self._spawn(watch.run())
        self._spawn(self._tell_late_ones(watch))
        return texts

    async def _tell_late_ones(self, watch: Watch) -> None:
        await watch.cache.wait_until_listed()
        late = frozenset(self._late)
        self._late.clear()
        for listener in self.listeners if late else ():
            listener("", late)

    def _on_change(self, watch: Watch, old: Body | None, new: Body | None) -> None:
        # Who has asked waits for the first list anyway.
        if not watch.cache.listed or (old is not None and new is not None and not _tells(old, new)):
            return
        body = new or old
        assert body is not None
        asking = {
            channel
            for name in (body["metadata"]["name"], "")
            for channel in self._named.get((watch.cache.kind.plural, name), ())
        }
        uids = {str(each["metadata"].get("uid") or "") for each in (old, new) if each is not None}
        for uid in uids:
            for listener in self.listeners:
                listener(uid, frozenset(asking))


def rule(wanted: Mapping[str, Any]) -> Rule:
    """Read one of `relatedResources`."""
    return Rule(
        str(wanted["apiVersion"]),
        str(wanted["resource"]),
        str(wanted.get("namespace") or ""),
        tuple(map(str, wanted.get("names") or ())),
        _selector(wanted.get("labelSelector") or {}),
    )


def _selector(selector: Mapping[str, Any]) -> str:
    """A label selector as the API server takes it in a query."""
    terms = [f"{label}={text}" for label, text in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        label, values = one["key"], ",".join(one.get("values") or ())
        terms.append(
            {
                "In": f"{label} in ({values})",
                "NotIn": f"{label} notin ({values})",
                "Exists": label,
                "DoesNotExist": f"!{label}",
            }[one["operator"]]
        )
    return ",".join(terms)


def _tells(old: Body, new: Body) -> bool:
    """Is it a change that the hook should see at once? The status of a Subscription is our own echo."""
    if "generation" not in new["metadata"]:
        return True
    if new.get("kind") != "Subscription" and old.get("status") != new.get("status"):
        return True
    keys = ("uid", "generation", "labels", "annotations", "deletionTimestamp")
    return any(old["metadata"].get(each) != new["metadata"].get(each) for each in keys)
