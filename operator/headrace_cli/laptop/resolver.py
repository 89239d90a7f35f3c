"""Where a manifest refers to something else, what stands in the channel object: every address, and each Subscription.

This module knows what a Subscription inherits, by Knative's rules, and which objects have an address on a laptop.
`headrace_cli.laptop.file_channels` calls it.
"""

from __future__ import annotations

import difflib
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin, urlsplit

from headrace.core import names
from headrace.core.delivery import order_spec
from headrace.core.delivery.subscriber import checked_uri
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import own_address
from headrace.core.manifest.own_address import API_VERSION, GROUP, KIND, OwnAddress
from headrace.core.quoting import cut, quoted
from headrace_cli.manifests import kinds, our_annotations
from headrace_cli.manifests.documents import Document
from headrace_cli.manifests.kinds import (
    CHANNEL_KINDS,
    LONGEST_NAME,
    DestinationFields,
    SubscriptionSpec,
)
from headrace_operator.kube.kinds import Key


class ReferenceResolver:
    """Resolves the references of manifests; only `channels` can be referred to."""

    def __init__(self, base: str, channels: Mapping[Key, Document]) -> None:
        self._base = base
        self._channels = channels

    def channel(self, document: Document, key: Key) -> dict[str, Any]:
        """The channel as an object of the API server, without Subscriptions yet."""
        body = document.body
        spec = kinds.channel_spec(document)
        kinds.refuse_typos(document, spec)
        delivery = spec.get("delivery")
        if delivery:
            parsed = kinds.parse(document, kinds.Delivery, delivery, "spec.delivery")
            spec["delivery"] = self._delivery(document, delivery, parsed, key[0], key)
        metadata = {**(body.get("metadata") or {}), "namespace": key[0], "name": key[1]}
        metadata.setdefault("uid", _uid(KIND, key))
        return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}

    def subscribe(self, document: Document, key: Key, parents: Mapping[Key, dict[str, Any]]) -> None:
        """Add the entry of one Subscription to its channel."""
        raw = document.body.get("spec")
        spec = kinds.parse(document, SubscriptionSpec, raw, "spec")
        target = (key[0], spec.channel.name)
        if spec.channel.kind not in CHANNEL_KINDS:
            problem = f"spec.channel.kind is {quoted(spec.channel.kind)}: only {' and '.join(CHANNEL_KINDS)} are served"
            raise document.fault(problem, field="spec.channel.kind")
        if spec.channel.namespace not in ("", key[0]):
            problem = (
                f"spec.channel.namespace is {quoted(spec.channel.namespace)}: links between namespaces are Knative's, "
                f"and not served on a laptop, where a Subscription is for a channel of its own, here {quoted(key[0])}"
            )
            raise document.fault(problem, field="spec.channel.namespace")
        if target not in parents:
            given = spec.channel.name
            here = [name for namespace, name in parents if namespace == key[0]]
            hint = "".join(f": did you mean {quoted(name)}?" for name in difflib.get_close_matches(given, here, n=1))
            problem = f"spec.channel.name is {quoted(given)}, but no file holds that channel in {quoted(key[0])}{hint}"
            raise document.fault(problem, field="spec.channel.name")
        entry = self._entry(document, key, spec, raw, target, parents[target])
        target_spec = parents[target]["spec"]
        others = [other for other in target_spec.get("subscribers") or () if other["uid"] != entry["uid"]]
        target_spec["subscribers"] = [*others, entry]

    def _entry(
        self, document: Document, key: Key, spec: SubscriptionSpec, raw: Any, target: Key, parent: Mapping[str, Any]
    ) -> dict[str, Any]:
        metadata = document.body["metadata"]
        entry: dict[str, Any] = {"name": key[1], "uid": metadata.get("uid") or _uid("Subscription", key)}
        if "generation" in metadata:
            entry["generation"] = metadata["generation"]
        default = order_spec.from_annotations(parent["metadata"].get("annotations") or {})
        if ours := our_annotations.of_subscription(document, metadata.get("annotations") or {}, default):
            entry["annotations"] = ours
        for role, destination, why in (
            ("subscriber", spec.subscriber, own_address.SUBSCRIBER),
            ("reply", spec.reply, own_address.REPLY),
        ):
            if destination is not None:
                uri = self._address(document, destination, key[0], f"spec.{role}")
                self._refuse_own(document, target, uri, f"spec.{role}", why)
                entry[f"{role}Uri"] = uri
                entry |= destination.trust(prefix=role)
        inherited = parent["spec"].get("delivery") or {}
        if spec.delivery is None:
            delivery = dict(inherited)
        else:
            own = self._delivery(document, raw["delivery"], spec.delivery, key[0], target)
            sink = {name: value for name, value in inherited.items() if name == "deadLetterSink"}
            delivery = {**sink, **own}
        # Knative does not copy it, either (knative/eventing 8cf4c4b6, measured).
        delivery.pop("format", None)
        return {**entry, "delivery": delivery} if delivery else entry

    def _delivery(
        self, document: Document, raw: Mapping[str, Any], parsed: kinds.Delivery, namespace: str, target: Key
    ) -> dict[str, Any]:
        delivery = {name: value for name, value in raw.items() if value is not None}
        if parsed.dead_letter_sink is not None:
            sink = parsed.dead_letter_sink
            uri = self._address(document, sink, namespace, "spec.delivery.deadLetterSink")
            self._refuse_own(document, target, uri, "spec.delivery.deadLetterSink", own_address.DEAD_LETTER)
            delivery["deadLetterSink"] = {"uri": uri, **sink.trust()}
        return delivery

    def _refuse_own(self, document: Document, target: Key, uri: str, field: str, why: str) -> None:
        """Refuse an address that leads back to the channel that delivers."""
        own = OwnAddress(*target, urls=(self._base + names.path(*target),))
        try:
            own.refuse(uri, why, field=field)
        except InvalidSpec as error:
            raise document.fault(str(error), field=field) from None

    def _address(self, document: Document, destination: DestinationFields, namespace: str, field: str) -> str:
        """The URI of a destination, as Knative's resolver would give it."""
        ref, uri = destination.ref, destination.uri
        if ref is None:
            try:
                return checked_uri(uri or "", field=f"{field}.uri")
            except InvalidSpec as error:
                raise document.fault(str(error), field=error.field) from None
        target = (ref.namespace or namespace, ref.name)
        if ref.kind not in CHANNEL_KINDS or target not in self._channels:
            name = cut(f"{ref.kind} {target[0]}/{target[1]}", LONGEST_NAME)
            problem = f"{field}.ref is {name}, which can't be resolved on a laptop: give a uri"
            raise document.fault(problem, field=f"{field}.ref")
        if uri and urlsplit(uri).netloc:
            problem = f"{field}.uri is {quoted(uri)}: beside a ref it is a path below the object's own address"
            raise document.fault(problem, field=f"{field}.uri")
        address = f"{self._base}{names.path(*target)}"
        return urljoin(f"{address}/", uri.lstrip("/")) if uri else address


def _uid(kind: str, key: Key) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{GROUP}/{kind}/{key[0]}/{key[1]}"))
