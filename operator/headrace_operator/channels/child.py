"""One wanted child of a channel: whose it is, what is sent to the API server, and whether that is there already.

This module is pure. Labels say whose a child is and, in the channel's own namespace, an ownerReference does; a shared
child belongs to every channel that wants it and goes with the last of them. No label proves that it is ours at all,
since Knative copies the labels of our Knative Services to all that it makes for them. Called by
`headrace_operator.channels.children`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.channel.child_marks import (
    CHANNEL_ANNOTATION,
    DIGEST_ANNOTATION,
    MANAGED_BY,
    SHARED_LABEL,
    UID_LABEL,
    US,
)
from headrace_operator.kube.api import FIELD_MANAGER, Body
from headrace_operator.kube.kinds import CHANNEL, Key, Kind

# The API server and other controllers write these.
NOT_OURS = ("resourceVersion", "generation", "uid", "creationTimestamp", "managedFields")

Spot = tuple[Kind, Key]
"""Where a child is: its kind, its namespace and name."""


def title(spot: Spot) -> str:
    """For people: `Service.v1 shop/orders`."""
    kind, place = spot
    return f"{kind.title} {'/'.join(place)}"


@dataclass(frozen=True, slots=True)
class Child:
    """A child as it is applied, without its ownerReferences."""

    kind: Kind
    place: Key
    body: Body
    shared: bool

    @property
    def spot(self) -> Spot:
        return self.kind, self.place

    @property
    def title(self) -> str:
        return title(self.spot)

    @property
    def digest(self) -> str:
        """A digest that changes when the wanted object does."""
        text: str = self.body["metadata"]["annotations"][DIGEST_ANNOTATION]
        return text


def wanted(parent: Mapping[str, Any], answer: Mapping[str, Any], kind: Kind) -> Child:
    """One child of the hook's answer, marked as ours."""
    metadata = dict(answer.get("metadata") or {})
    namespace = (metadata.get("namespace") or parent["metadata"]["namespace"]) if kind.namespaced else ""
    labels = {**(metadata.get("labels") or {}), MANAGED_BY: US}
    shared = labels.get(SHARED_LABEL) == "true"
    annotations = dict(metadata.get("annotations") or {})
    if not shared:
        labels[UID_LABEL] = parent["metadata"]["uid"]
        annotations[CHANNEL_ANNOTATION] = "/".join((parent["metadata"]["namespace"], parent["metadata"]["name"]))
    body = {
        **{name: value for name, value in answer.items() if name not in ("status", "metadata")},
        "metadata": {
            **{name: value for name, value in metadata.items() if name not in (*NOT_OURS, "ownerReferences")},
            **({"namespace": namespace} if namespace else {}),
            "labels": labels,
            "annotations": annotations,
        },
    }
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:16]
    annotations[DIGEST_ANNOTATION] = digest
    return Child(kind, (namespace, str(metadata["name"])), body, shared)


def strip(live: Body) -> Body:
    """The object as the hook sees it: without its owners and without the notes of who wrote which field."""
    metadata = {
        name: value for name, value in live["metadata"].items() if name not in ("managedFields", "ownerReferences")
    }
    return {**live, "metadata": metadata}


def title_and_name(answer: Mapping[str, Any]) -> tuple[str, str]:
    """The title of the kind and the name of an object in the answer, even of one that is no valid child."""
    return f"{answer.get('kind')}.{answer.get('apiVersion')}", str((answer.get("metadata") or {}).get("name"))


def may_own(child: Child, parent: Mapping[str, Any]) -> bool:
    """May the channel own it? Across namespaces the garbage collector would delete the child."""
    return bool(child.place[0] == parent["metadata"]["namespace"])


def owner(parent: Mapping[str, Any], *, shared: bool) -> Body:
    reference = {
        "apiVersion": CHANNEL.api_version,
        "kind": CHANNEL.kind,
        "name": parent["metadata"]["name"],
        "uid": parent["metadata"]["uid"],
    }
    return reference if shared else {**reference, "controller": True}


def owners(live: Mapping[str, Any] | None) -> dict[str, Body]:
    """The channels that own an object, by uid."""
    references = (live or {}).get("metadata", {}).get("ownerReferences") or ()
    return {one["uid"]: one for one in references if _is_channel(one)}


def is_ours(live: Mapping[str, Any]) -> bool:
    """Was the object made for a channel? No if its controller is of another kind, yes if a channel is among its owners.

    Where no channel can own the object, the API server's note of our server-side apply says yes: labels and annotations
    are copied from object to object, that note never is.

    Args:
        live: the object as the API server has it, with its managedFields.
    """
    metadata = live["metadata"]
    if any(one.get("controller") and not _is_channel(one) for one in metadata.get("ownerReferences") or ()):
        return False
    notes = metadata.get("managedFields") or ()
    applied = any(one.get("manager") == FIELD_MANAGER and one.get("operation") == "Apply" for one in notes)
    return applied or bool(owners(live))


def is_foreign(live: Mapping[str, Any], child: Child, parent: Mapping[str, Any]) -> bool:
    """Has somebody else made an object of that name, so that it is not ours to write? `live` is as for `is_ours`."""
    labels = live["metadata"].get("labels") or {}
    uid = parent["metadata"]["uid"]
    if not is_ours(live):
        return True
    if labels.get(MANAGED_BY) == US:
        return bool(not child.shared and labels.get(UID_LABEL) not in (uid, None))
    # The Go channel's objects have no such labels, but the same owner.
    return uid not in owners(live)


def _is_channel(owner: Mapping[str, Any]) -> bool:
    """Does this ownerReference name one of our channels, in whatever version?"""
    group = str(owner.get("apiVersion")).partition("/")[0]
    return bool(owner.get("kind") == CHANNEL.kind and group == CHANNEL.api_version.partition("/")[0])


def with_owners(child: Child, references: Iterable[Body]) -> Body:
    """The body that is applied: the child's, with these ownerReferences."""
    return {**child.body, "metadata": {**child.body["metadata"], "ownerReferences": list(references)}}


def fingerprint(live: Mapping[str, Any]) -> str:
    """A digest that changes with every part of an object that its writers set, and not with its status."""
    metadata = {name: value for name, value in live["metadata"].items() if name not in NOT_OURS}
    rest = {name: value for name, value in live.items() if name not in ("status", "metadata")}
    return hashlib.sha256(json.dumps([metadata, rest], sort_keys=True).encode()).hexdigest()[:16]


def covers(live: object, part: object) -> bool:
    """Is everything of a wanted value there? Others may have added members to objects and to the items of lists."""
    if isinstance(part, Mapping):
        return isinstance(live, Mapping) and all(
            value is None or (name in live and covers(live[name], value)) for name, value in part.items()
        )
    if isinstance(part, list):
        return isinstance(live, list) and len(live) == len(part) and all(map(covers, live, part))
    return bool(live == part)


def signature(live: Mapping[str, Any]) -> object:
    """A value that changes when the hook should see the object anew: with its fields and with its conditions."""
    status = live.get("status")
    status = status if isinstance(status, Mapping) else {}
    conditions = [
        (one.get("type"), one.get("status"), one.get("reason"), one.get("message"))
        for one in status.get("conditions") or ()
        if isinstance(one, Mapping)
    ]
    metadata = dict(live["metadata"])
    if (metadata.get("labels") or {}).get(SHARED_LABEL) == "true":
        # One more owner is no news for the other channels that want the object, which may be a thousand.
        metadata.pop("ownerReferences", None)
    told = [status.get(name) for name in ("url", "address", "latestReadyRevisionName", "latestCreatedRevisionName")]
    return fingerprint({**live, "metadata": metadata}), conditions, told
