"""A channel's objects as the cluster has them: their legible parts, and how to want the objects unchanged.

Every object passes through `legible` before it is read here. `state` says whether a function works.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from headrace.core.channel.child_marks import COMPONENT_LABEL, DIGEST_ANNOTATION, OWN_RECONCILE, UID_LABEL
from headrace.core.channel.children.access import NAMED_VOLUME
from headrace.core.channel.hook import SERVING_API
from headrace.core.installation.secret_files import SecretFile
from headrace.core.manifest.own_address import KIND

Place = tuple[str, str, str, str]
_OURS = ("headrace.dev/", "app.kubernetes.io/", "networking.knative.dev/", "messaging.knative.dev/")
# The operator's own marks, which it adds to each object.
_OPERATORS = (DIGEST_ANNOTATION, UID_LABEL)
_REVISIONS = ("latestReadyRevisionName", "latestCreatedRevisionName")
# The server gives these, so we don't ask for them; replicas are an autoscaler's, or a person's.
_ALLOCATED = (
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "internalTrafficPolicy",
    "sessionAffinity",
    "replicas",
    "traffic",
)


def legible(children: Mapping[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """The objects that have the form of one, by kind and name; a damaged one counts as missing.

    All are of our own making, and a missing one is made again. `spec` is not looked into. An object that an object of
    another kind controls was made for one of ours, by a controller that copies labels, and is left out.
    """
    groups = {kind: group if isinstance(group, Mapping) else {} for kind, group in children.items()}
    read = {kind: {name: _legible(one) for name, one in group.items()} for kind, group in groups.items()}
    return {kind: {name: one for name, one in group.items() if one is not None} for kind, group in read.items()}


def _legible(one: Any) -> dict[str, Any] | None:
    metadata = one.get("metadata") if isinstance(one, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(one.get("spec", {}), Mapping):
        return None
    names = (one.get("apiVersion"), one.get("kind"), metadata.get("namespace"), metadata.get("name"))
    if not all(isinstance(name, str) and name for name in names):
        return None
    if any(owner.get("controller") and owner.get("kind") != KIND for owner in _listed(metadata.get("ownerReferences"))):
        return None
    texts = {key: _texts(metadata.get(key)) for key in ("labels", "annotations") if key in metadata}
    told = {"conditions": _listed(_within(one, "status", "conditions")), **_status_members(_within(one, "status"))}
    return {**one, "metadata": {**metadata, **texts}, **({"status": told} if "status" in one else {})}


def _status_members(status: Any) -> dict[str, Any]:
    """The members of a status that we read, beside its conditions."""
    known = status if isinstance(status, Mapping) else {}
    revisions = {key: known[key] for key in _REVISIONS if isinstance(known.get(key), str)}
    generation = known.get("observedGeneration")
    found = {**revisions, **({"observedGeneration": generation} if type(generation) is int else {})}
    return {**found, "address": _texts(known["address"])} if "address" in known else found


def _texts(found: Any) -> dict[str, str]:
    known = found if isinstance(found, Mapping) else {}
    return {key: value for key, value in known.items() if isinstance(value, str)}


def _within(found: Any, *steps: str) -> Any:
    for step in steps:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _listed(found: Any) -> list[Mapping[str, Any]]:
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def by_place(*groups: Mapping[str, Any] | None) -> dict[Place, Mapping[str, Any]]:
    """All objects, by kind, API, namespace and name."""
    return {place(one): one for children in groups if children is not None for one in _objects(children)}


def lasting(children: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects that are not being deleted."""
    return (one for one in _objects(children) if not one["metadata"].get("deletionTimestamp"))


def functions(children: Mapping[str, Any], namespace: str) -> Iterator[Mapping[str, Any]]:
    """The Deployments and Knative Services in a namespace."""
    for one in lasting(children):
        runs = one["kind"] == "Deployment" or one["apiVersion"] == SERVING_API
        if runs and one["metadata"]["namespace"] == namespace:
            yield one


def named_secrets(children: Mapping[str, Any]) -> tuple[SecretFile, ...]:
    """The Secrets of a ConfigMap that are mounted now; they count until the ConfigMap can be read again."""
    for one in lasting(children):
        # It was called `reconcile` before, like the installation's.
        if one.get("kind") != "Deployment" or labels(one).get(COMPONENT_LABEL) not in (OWN_RECONCILE, "reconcile"):
            continue
        for volume in _listed(_within(one, "spec", "template", "spec", "volumes")):
            if volume.get("name") == NAMED_VOLUME:
                return tuple(_secret_files(_listed(_within(volume, "projected", "sources"))))
    return ()


def _secret_files(sources: Iterable[Mapping[str, Any]]) -> Iterator[SecretFile]:
    for source in sources:
        name = _within(source, "secret", "name")
        for item in _listed(_within(source, "secret", "items")):
            key, file = item.get("key"), item.get("path")
            if isinstance(name, str) and isinstance(key, str) and isinstance(file, str):
                yield SecretFile(name, key, file, optional=True)


def labels(one: Mapping[str, Any]) -> Mapping[str, str]:
    return one["metadata"].get("labels") or {}


def wanted_again(one: Mapping[str, Any]) -> dict[str, Any]:
    """The object as we would ask for it unchanged: without the additions of the server and of autoscalers."""
    metadata: dict[str, Any] = {key: one["metadata"][key] for key in ("name", "namespace")}
    for key in ("labels", "annotations"):
        metadata[key] = {
            name: text
            for name, text in (one["metadata"].get(key) or {}).items()
            if name.startswith(_OURS) and name not in _OPERATORS
        }
    rest = {key: value for key, value in one.items() if key not in ("metadata", "status", "spec")}
    if "spec" in one:
        rest["spec"] = {key: value for key, value in one["spec"].items() if key not in _ALLOCATED}
    return {**rest, "metadata": metadata}


def _objects(children: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for kind in sorted(children):
        for name in sorted(children[kind] or ()):
            yield children[kind][name]


def place(one: Mapping[str, Any]) -> Place:
    metadata = one["metadata"]
    return one["apiVersion"], one["kind"], metadata.get("namespace", ""), metadata["name"]
