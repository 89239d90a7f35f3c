"""The channels of manifest files, as an API server would have them: with their subscribers, every address resolved.

This module knows which kinds a laptop serves, and refuses what is wrong in them before `reconcile` sees it. It knows no
process and no server. `headrace_cli.laptop.up` calls it at the start and on SIGHUP.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.core import names
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from headrace.core.manifest.own_address import GROUP, KIND
from headrace.core.quoting import cut, quoted
from headrace_cli.laptop.resolver import ReferenceResolver
from headrace_cli.manifests import documents, kinds, our_annotations
from headrace_cli.manifests.documents import Document
from headrace_cli.manifests.kinds import CHANNEL_KINDS, LONGEST_NAME
from headrace_operator.kube.kinds import Key

# Each kind with the one version of it that is served.
SERVED = {KIND: "v1alpha1", "Channel": "v1", "Subscription": "v1"}


@dataclass(frozen=True, slots=True)
class FileChannels:
    """The channels that the files ask for.

    Attributes:
        channels: whole NatsJetStreamChannel objects, `spec.subscribers` filled.
        ignored: one sentence for each document that is not ours.
    """

    channels: Mapping[Key, Mapping[str, Any]]
    ignored: tuple[str, ...] = ()


def load(paths: Sequence[str], base: str) -> FileChannels:
    """Read files and directories.

    Args:
        base: URL of `receive`, under which every channel has its path.

    Raises:
        InvalidSpec: the message names file, document, field and value.
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
    channels = {key: document for (kind, key), document in ours.items() if kind == KIND}
    if not channels:
        found = "".join(f"\n  {sentence}" for sentence in ignored)
        raise InvalidSpec(f"there is no {KIND} in {', '.join(paths)}: add one{found}", field="-f")
    resolver = ReferenceResolver(base.rstrip("/"), channels)
    parents = {key: resolver.channel(document, key) for key, document in channels.items()}
    for key, document in channels.items():
        _check(document, parents[key])
    for (kind, key), document in ours.items():
        if kind == "Subscription":
            resolver.subscribe(document, key, parents)
    return FileChannels(parents, tuple(ignored))


def _unserved(document: Document) -> str:
    body = document.body
    if not body.get("kind") or not body.get("apiVersion"):
        return "this is no Kubernetes object, since it has no apiVersion or no kind; it is left alone"
    what = cut(f"{body['apiVersion']} {body['kind']}", LONGEST_NAME)
    return f"{what} is nothing that a laptop serves; it is left alone"


def _kind(document: Document) -> str | None:
    """The kind that a document is served as; None: not ours.

    Raises:
        InvalidSpec: it would be ours but for a typo, or is of another version.
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
    return KIND if kind in CHANNEL_KINDS else kind


def _refuse_typos(document: Document, group: str, kind: str) -> None:
    """Refuse a kind or group that is nearly ours: ignored, it would be missed only when events don't arrive."""
    near = difflib.get_close_matches(kind, SERVED, n=1, cutoff=0.8)
    # Other groups have kinds of the same names, such as the Subscription of operators.coreos.com.
    if group != GROUP and near and (not group or difflib.SequenceMatcher(None, group, GROUP).ratio() > 0.8):
        wanted = f"{GROUP}/{SERVED[near[0]]}"
        problem = f"apiVersion is {quoted(document.body.get('apiVersion'))}: a {near[0]} has {quoted(wanted)}"
        raise document.fault(problem, field="apiVersion")
    if group != GROUP or kind in SERVED:
        return
    if near:
        raise document.fault(f"kind is {quoted(kind)}: did you mean {quoted(near[0])}?", field="kind")
    # Knative's other channels belong to this group, too.
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
    """Refuse here, where file and document are known, an object that `reconcile` would refuse later."""
    our_annotations.of_channel(document, parent["metadata"].get("annotations") or {})
    try:
        manifest.parse(parent)
        for index, entry in enumerate(parent["spec"].get("subscribers") or ()):
            manifest.parse_entry(entry, index)
    except InvalidSpec as error:
        raise document.fault(str(error), field=error.field) from None
