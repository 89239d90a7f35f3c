"""Manifest files in place of the API server: channels with their subscribers, every address resolved.

Knows the kinds that a laptop serves and Knative's rules for what a Subscription inherits. Knows no process
and no server. Called by `headrace_cli.laptop.up` at the start and on SIGHUP.
"""

from __future__ import annotations

import copy
import difflib
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urljoin, urlsplit

from headrace.core import names
from headrace.core.delivery import order_spec
from headrace.core.delivery.subscriber import checked_uri
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest, own_address
from headrace.core.manifest.own_address import OwnAddress
from headrace.core.quoting import cut, quoted
from headrace_cli.manifests import documents, kinds, our_annotations
from headrace_cli.manifests.documents import Document
from headrace_cli.manifests.kinds import CHANNEL, CHANNEL_KINDS, Destination, SubscriptionSpec

GROUP = "messaging.knative.dev"
API_VERSION = f"{GROUP}/v1alpha1"
# Kind and the one version that is served of it.
SERVED = {CHANNEL: "v1alpha1", "Channel": "v1", "Subscription": "v1"}

# Of what strangers call their kinds; names in Kubernetes are no longer.
LONGEST_NAME = 253

Key = tuple[str, str]
"""Namespace and name of a channel."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """What the files ask for.

    Attributes:
        channels: whole NatsJetStreamChannel objects as the API server would have them, `spec.subscribers`
        filled. ignored: one sentence for each document that is not ours.
    """

    channels: Mapping[Key, Mapping[str, Any]]
    ignored: tuple[str, ...] = ()


def read(paths: Sequence[str], base: str) -> Manifests:
    """Read files and directories.

    Args:
        base: URL of `receive`, under which every channel has its path.

    Raises:
        InvalidSpec: naming file, document, field and value.
    """
    ours: dict[tuple[str, Key], Document] = {}
    ignored: list[str] = []
    for document in documents.read_files(paths):
        kind = _kind(document)
        if kind is None:
            ignored.append(f"{document.where}: {_unserved(document)}")
            continue
        kinds.refuse_typos_around(document)
        key = _key(document)
        earlier = ours.setdefault((kind, key), document)
        if earlier is not document:
            what = f"{kind} {key[0]}/{key[1]}"
            raise document.fault(f"{what} is also in {earlier.where}: keep one", field="metadata.name")
    channels = {key: document for (kind, key), document in ours.items() if kind == CHANNEL}
    if not channels:
        found = "".join(f"\n  {sentence}" for sentence in ignored)
        raise InvalidSpec(f"there is no {CHANNEL} in {', '.join(paths)}: add one{found}", field="-f")
    reader = _Reader(base.rstrip("/"), channels)
    parents = {key: reader.channel(document, key) for key, document in channels.items()}
    for key, document in channels.items():
        _check(document, parents[key])
    for (kind, key), document in ours.items():
        if kind == "Subscription":
            reader.subscribe(document, key, parents)
    return Manifests(parents, tuple(ignored))


def numbered(new: Manifests, old: Manifests | None, now_ms: int) -> Manifests:
    """Give every object that brings no generation of its own one that grows when it changes.

    Milliseconds of the wall clock: greater than any that an earlier run has written to the server, with
    nothing to be kept between runs.
    """
    before = {} if old is None else dict(_numbers(old))
    channels = copy.deepcopy(dict(new.channels))
    for parent in channels.values():
        for entry in parent["spec"].get("subscribers") or ():
            given = entry.pop("generation", None)
            entry["generation"] = given or _generation(before.get(entry["uid"]), entry, now_ms)
        metadata = parent["metadata"]
        given = metadata.pop("generation", None)
        metadata["generation"] = given or _generation(before.get(metadata["uid"]), parent["spec"], now_ms)
    return Manifests(channels, new.ignored)


class _Reader:
    """Resolves what manifests refer to; `channels` are all that can be referred to."""

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
        metadata.setdefault("uid", _uid(CHANNEL, key))
        return {"apiVersion": API_VERSION, "kind": CHANNEL, "metadata": metadata, "spec": spec}

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
        default = order_spec.read(parent["metadata"].get("annotations") or {})
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

    def _address(self, document: Document, destination: Destination, namespace: str, field: str) -> str:
        """The URI of a destination, as Knative's resolver would have it."""
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


def _unserved(document: Document) -> str:
    body = document.body
    if not body.get("kind") or not body.get("apiVersion"):
        return "this is no Kubernetes object, since it has no apiVersion or no kind; it is left alone"
    what = cut(f"{body['apiVersion']} {body['kind']}", LONGEST_NAME)
    return f"{what} is nothing that a laptop serves; it is left alone"


def _kind(document: Document) -> str | None:
    """The kind that a document is served as; None: not ours.

    Raises:
        InvalidSpec: it is ours but for a typo, or of another version.
    """
    group, _, version = str(document.body.get("apiVersion") or "").rpartition("/")
    kind = str(document.body.get("kind") or "")
    _refuse_typos(document, group, kind)
    if group != GROUP or kind not in SERVED:
        return None
    if version != SERVED[kind]:
        given = cut(f"{group}/{version}", LONGEST_NAME)
        problem = f"apiVersion is {given}: a {kind} is served as {group}/{SERVED[kind]}"
        raise document.fault(problem, field="apiVersion")
    return CHANNEL if kind in CHANNEL_KINDS else kind


def _refuse_typos(document: Document, group: str, kind: str) -> None:
    """A kind or group that is nearly ours: passed over, it would be missed only when events don't arrive."""
    near = difflib.get_close_matches(kind, SERVED, n=1, cutoff=0.8)
    # Others have a kind of the same name, as operators.coreos.com has a Subscription.
    if group != GROUP and near and (not group or difflib.SequenceMatcher(None, group, GROUP).ratio() > 0.8):
        wanted = f"{GROUP}/{SERVED[near[0]]}"
        problem = f"apiVersion is {quoted(document.body.get('apiVersion'))}: a {near[0]} has {quoted(wanted)}"
        raise document.fault(problem, field="apiVersion")
    if group != GROUP or kind in SERVED:
        return
    if near:
        raise document.fault(f"kind is {quoted(kind)}: did you mean {quoted(near[0])}?", field="kind")
    # Other channels are of this group, too.
    if not kind.endswith("Channel"):
        problem = f"kind is {quoted(kind)}, which {GROUP} does not have: {', '.join(SERVED)} are served"
        raise document.fault(problem, field="kind")


def _key(document: Document) -> Key:
    body = document.body
    if not isinstance(body.get("metadata"), dict):
        raise document.fault("metadata is missing: give it a name", field="metadata")
    given = {**body["metadata"], "namespace": body["metadata"].get("namespace") or "default"}
    metadata = kinds.parse(document, manifest.Metadata, given, "metadata")
    try:
        names.channel(metadata.namespace, metadata.name)
        if metadata.uid:
            names.durable(metadata.uid)
    except InvalidSpec as error:
        raise document.fault(str(error), field=error.field) from None
    return metadata.namespace, metadata.name


def _check(document: Document, parent: Mapping[str, Any]) -> None:
    """What `reconcile` would refuse later is refused here, where file and document are known."""
    our_annotations.of_channel(document, parent["metadata"].get("annotations") or {})
    try:
        manifest.parse(parent)
        for index, entry in enumerate(parent["spec"].get("subscribers") or ()):
            manifest.parse_entry(entry, index)
    except InvalidSpec as error:
        raise document.fault(str(error), field=error.field) from None


def _uid(kind: str, key: Key) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{GROUP}/{kind}/{key[0]}/{key[1]}"))


def _numbers(numbered: Manifests) -> Iterator[tuple[str, tuple[Mapping[str, Any], int]]]:
    for parent in numbered.channels.values():
        yield parent["metadata"]["uid"], (parent["spec"], parent["metadata"]["generation"])
        for entry in parent["spec"].get("subscribers") or ():
            content = {name: value for name, value in entry.items() if name != "generation"}
            yield entry["uid"], (content, entry["generation"])


def _generation(before: tuple[Mapping[str, Any], int] | None, content: Mapping[str, Any], now_ms: int) -> int:
    if before is None:
        return now_ms
    return before[1] if before[0] == content else max(before[1] + 1, now_ms)
