"""The writer of the security documents: one for each place with functions, written and pushed when it changes.

What concerns the whole installation comes from Knative's ConfigMaps and from the issuer of tokens; each channel's part
comes with the hook's answer for it. Only the operator that leads writes. Where it can't see something, what it or its
predecessor has written about that still counts: a lost right opens nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from headrace.core.channel import related
from headrace.core.channel.child_marks import COMPONENT_LABEL, NAME_LABEL, US
from headrace.core.channel.hook import HookResponse
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.security import document as form
from headrace.core.security import trust_bundle
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import Flags
from headrace.core.security.issuer import Issuer
from headrace.io.nats.client import Client
from headrace.io.process import clock, log
from headrace.io.process.trouble import Trouble
from headrace_operator.kube.api import Body, KubeApi
from headrace_operator.kube.issuer_keys import IssuerKeys
from headrace_operator.kube.kinds import CONFIG_MAP, Key, key
from headrace_operator.kube.watch import Cache, Watch

# Changes come in crowds: an edit of a flag has every channel passed over.
GATHER_SECONDS = 0.1
LOOK_SECONDS = 10.0
# A pod that starts may be given a mount of before the last change, for as long as the kubelet keeps it.
PUSHED_AGAIN_SECONDS = 180.0
# Somebody may have edited or deleted what is written.
READ_AGAIN_SECONDS = 60.0
# By then every kubelet has brought the document that asks for nothing.
KEPT_EMPTY_SECONDS = 600.0
TOO_LONG = "the security document of its functions' namespace would be too long: see docs/knative-security.md"

_log = log.get("security")


@dataclass(slots=True)
class PlacedPart:
    """One channel's part: where its functions are, and what its policies say; None: none applies to it."""

    places: frozenset[str]
    policies: Mapping[str, Any] | None


@dataclass(slots=True)
class Written:
    """The document of a place as the API server has it, and when it was read and pushed, on the monotonic clock."""

    document: SecurityDocument
    uid: str = ""
    read: float = 0.0
    pushed: float | None = None


class SecurityWriter:
    """Writes while `run` runs.

    Attributes:
        watches: those of Knative's ConfigMaps.
        on_flags: called with the flags, at first and after each edit, while `run` runs.
    """

    def __init__(
        self,
        api: KubeApi,
        client: Client,
        channels: Cache,
        key_of: Callable[[str], bytes],
    ) -> None:
        """Args:
        key_of: the key of a place, by which its functions know what we push.
        """
        self._features = Watch(
            api,
            CONFIG_MAP,
            namespace=related.EVENTING,
            fields=f"metadata.name={related.FEATURES}",
            quiet=True,
        )
        self._bundles = Watch(api, CONFIG_MAP, namespace=related.EVENTING, labels=trust_bundle.SELECTOR, quiet=True)
        self.watches = self._features, self._bundles
        self.on_flags: list[Callable[[Flags], None]] = []
        self._api = api
        self._client = client
        self._channels = channels
        self._key_of = key_of
        self._keys = IssuerKeys(api, self.changed)
        self._parts: dict[Key, PlacedPart] = {}
        self._written: dict[str, Written] = {}
        self._places: set[str] = set()
        self._changed = asyncio.Event()
        self._trouble: dict[str, Trouble] = {}
        for cache in (self._features.cache, self._bundles.cache):
            cache.listeners.append(lambda _old, _new: self._on_knative())
        channels.listeners.append(self._on_channel)

    @property
    def flags(self) -> Flags:
        """The flags as they are now."""
        found = self._features.cache.get((related.EVENTING, related.FEATURES))
        data = found.get("data") if found is not None else None
        return Flags.read(data)[0] if isinstance(data, Mapping) else Flags()

    @property
    def trust(self) -> str:
        """The certificates of all trust bundles."""
        return trust_bundle.authorities(self._bundles.cache)

    def changed(self) -> None:
        """Look again at what is to be written."""
        self._changed.set()

    def hear(self, channel: Key, answer: HookResponse) -> None:
        """Take a channel's part from the hook's answer."""
        # While a channel moves, or can't be read, it has functions in two namespaces.
        places = frozenset(
            one["metadata"]["namespace"]
            for one in answer.children
            if (one["metadata"].get("labels") or {}).get(COMPONENT_LABEL) in ("receive", "forward")
        )
        part = PlacedPart(places, answer.security)
        if places and (self._parts.get(channel) != part or not places <= self._places):
            self._parts[channel] = part
            self._places |= places
            self.changed()

    async def watch(self) -> None:
        """Watch Knative's ConfigMaps until cancelled, also in an operator that does not lead."""
        await asyncio.gather(*(one.run() for one in self.watches))

    async def run(self) -> None:
        """Fetch the issuer's keys, write and push until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._keys.run(self._issuer_wanted), name="issuer-keys")
            tasks.create_task(self._write_for_ever(), name="security-documents")

    async def _write_for_ever(self) -> None:
        # Another operator may have led meanwhile: what it has written counts until each channel is heard of again.
        self._written.clear()
        self._parts.clear()
        await self._channels.wait_until_listed()
        for one in self.watches:
            await one.answered.wait()
        told: Flags | None = None
        while True:
            if (flags := self.flags) != told:
                told = flags
                for listener in self.on_flags:
                    listener(flags)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._changed.wait()
                    await asyncio.sleep(GATHER_SECONDS)
            self._changed.clear()
            for place in sorted(self._places):
                await self._bring(place)

    async def _bring(self, place: str) -> None:
        trouble = self._trouble.setdefault(place, Trouble())
        try:
            await self._write(place)
            trouble.over()
        except HeadraceError as error:
            if isinstance(error, Refused) and error.status == 404:
                # The namespace is gone; a channel that has functions there anew is heard of.
                for gone in (self._written, self._trouble):
                    gone.pop(place, None)
                self._places.discard(place)
                return
            words = "the security document of a namespace can't be written, trying again"
            write = _log.warning if trouble.note(str(error)) else _log.debug
            write(words, namespace=place, error=str(error))

    async def _write(self, place: str) -> None:
        now = clock.monotonic()
        known = self._written.get(place)
        if known is None or (known.uid and now > known.read + READ_AGAIN_SECONDS):
            known = self._written[place] = await self._read(place, known, now)
        wanted = self._wanted(place, known.document)
        if wanted != replace(known.document, revision=0):
            # Before it is written: a place that we may not write in still hears of it.
            revision = max(known.document.revision + 1, round(clock.wall() * 1000))
            known.document, known.pushed = replace(wanted, revision=revision), None
            await self._push(place, known)
            known.uid = ""
        if known.document.revision and not known.uid:
            await self._store(place, known)
        age = clock.wall() - known.document.revision / 1000
        if known.uid and known.document.asks_for_nothing and age > KEPT_EMPTY_SECONDS:
            await self._api.delete(CONFIG_MAP.path(place, form.CONFIG_MAP), known.uid)
            self._written[place] = Written(SecurityDocument(), read=now)
        elif known.document.revision and (
            known.pushed is None or (age < PUSHED_AGAIN_SECONDS and now >= known.pushed + LOOK_SECONDS)
        ):
            await self._push(place, known)

    def _wanted(self, place: str, before: SecurityDocument) -> SecurityDocument:
        """The document that a place should have, as far as we see, without a revision.

        Args:
            before: the last one; of a channel that was not heard of yet, what it says still counts.
        """
        here = {"/".join(channel): part.policies for channel, part in self._parts.items() if place in part.places}
        unheard = {
            name: policies
            for name, policies in before.channels.items()
            if (channel := _key(name)) not in self._parts and self._channels.get(channel) is not None
        }
        if not here and not unheard:
            return SecurityDocument()
        flags = _obeyed(self.flags) if self._features.cache.listed else before.flags
        trust = self.trust if self._bundles.cache.listed else before.trust
        found = SecurityDocument(flags=flags, trust=trust)
        if flags.oidc:
            of = self._keys.current or Issuer(before.issuer, before.algorithms, before.keys)
            applying = {name: policies for name, policies in here.items() if policies is not None}
            found = replace(found, issuer=of.url, algorithms=of.algorithms, keys=of.keys, channels=unheard | applying)
        return found if len(found.to_json()) <= form.LONGEST else _shortened(found, place)

    async def _read(self, place: str, known: Written | None, now: float) -> Written:
        body = await self._api.get(CONFIG_MAP.path(place, form.CONFIG_MAP))
        text = ((body or {}).get("data") or {}).get(form.KEY) or ""
        before, pushed = (known.document, known.pushed) if known is not None else (SecurityDocument(), None)
        try:
            found = SecurityDocument.from_json(text)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            # Deleted, or edited by hand: it is written anew.
            return Written(before, read=now, pushed=pushed)
        uid = str((body or {})["metadata"]["uid"])
        if found.revision < before.revision:
            uid = ""
            found = before
        return Written(found, uid, now, pushed)

    async def _store(self, place: str, known: Written) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": form.CONFIG_MAP,
                "namespace": place,
                "labels": {NAME_LABEL: US, COMPONENT_LABEL: "security"},
            },
            "data": {form.KEY: known.document.to_json().decode()},
        }
        stored = await self._api.apply(CONFIG_MAP.path(place, form.CONFIG_MAP), body)
        known.uid, known.read = str(stored["metadata"]["uid"]), clock.monotonic()
        _log.info("security document is written", namespace=place, revision=known.document.revision)

    async def _push(self, place: str, known: Written) -> None:
        """Push it; where NATS is away or refuses, the mount counts, and we try again."""
        message = form.sealed(known.document.to_json(), place, self._key_of(place))
        with suppress(Refused, Unavailable):
            await self._client.publish(form.subject(place), message)
            known.pushed = clock.monotonic()

    def _issuer_wanted(self) -> tuple[str, str] | None:
        flags = self.flags
        return (flags.oidc_discovery_url, self.trust) if flags.oidc else None

    def _on_knative(self) -> None:
        self._keys.ask()
        self.changed()

    def _on_channel(self, old: Body | None, new: Body | None) -> None:
        if new is None and old is not None and self._parts.pop(key(old), None) is not None:
            self.changed()


def _key(name: str) -> Key:
    namespace, _, rest = name.partition("/")
    return namespace, rest


def _obeyed(flags: Flags) -> Flags:
    """Those of the flags that functions obey: with the others alone, there is nothing to tell them."""
    mode = flags.default_mode if flags.oidc else Flags().default_mode
    return Flags(
        transport_encryption=flags.transport_encryption,
        oidc=flags.oidc,
        default_mode=mode,
        auto_create_types=flags.auto_create_types,
    )


def _shortened(found: SecurityDocument, place: str) -> SecurityDocument:
    """A document that fits: whole namespaces are closed, those with the most policies first.

    Nobody knows who may send to a channel whose policies have no room. Who writes policies without end closes his own
    channels, and not his neighbours'.
    """
    sizes: Counter[str] = Counter()
    for name, policies in found.channels.items():
        sizes[_key(name)[0]] += len(json.dumps(policies))
    channels, closed = dict(found.channels), []
    for namespace, _ in sizes.most_common():
        closed.append(namespace)
        channels |= {name: {"unreadable": TOO_LONG} for name in channels if _key(name)[0] == namespace}
        if len(replace(found, channels=channels).to_json()) <= form.LONGEST:
            break
    words = "the security document of a namespace is too long: channels of these take no events"
    _log.error(words, namespace=place, closed=closed[:10])
    shorter = replace(found, channels=channels)
    return shorter if len(shorter.to_json()) <= form.LONGEST else replace(shorter, trust="")
