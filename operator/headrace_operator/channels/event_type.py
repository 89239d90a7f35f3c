"""An EventType as Knative makes it by itself of the first event of a kind: the same name, fields and owner.

Knative's channels name it by a digest of type, source and channel, so two that see the same kind make one object. What
Knative's give is given here, too, where it looks odd: `schemadata` is required of events that have no schema. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import md5
from typing import Any

from headrace.core.event.event_kinds import EventKind
from headrace.core.manifest.own_address import API_VERSION, GROUP, KIND
from headrace_operator.kube.api import Body
from headrace_operator.kube.kinds import Key, key

EVENTING = "eventing.knative.dev/v1beta3"
EVENT_TYPE = "EventType"
DESCRIPTION = "Event Type auto-created by controller"
_LONGEST_NAME = 253


def name(channel: Key, kind: EventKind) -> str:
    """The name of the object, as Knative has it for channels with names of up to 217 characters; others are cut."""
    namespace, called = channel
    digest = md5(f"{kind.type}{kind.source}{namespace}{called}".encode(), usedforsecurity=False).hexdigest()
    kept = called[: _LONGEST_NAME - len("et--") - len(digest)].rstrip("-.")
    return f"et-{kept}-{digest}"


def body(channel: Body, kind: EventKind) -> Body:
    """The object to make for a kind of a channel's events."""
    metadata = channel["metadata"]
    place = key(channel)
    return {
        "apiVersion": EVENTING,
        "kind": EVENT_TYPE,
        "metadata": {
            "name": name(place, kind),
            "namespace": place[0],
            "ownerReferences": [
                {"apiVersion": API_VERSION, "kind": KIND, "name": place[1], "uid": metadata["uid"]},
            ],
        },
        "spec": {
            "reference": {"apiVersion": API_VERSION, "kind": KIND, "namespace": place[0], "name": place[1]},
            "description": DESCRIPTION,
            "attributes": [
                _attribute("type", kind.type),
                _attribute("source", kind.source),
                _attribute("schemadata", kind.schema),
                _attribute("specversion", kind.version),
                _attribute("id", ""),
            ],
        },
    }


def told(event_type: Mapping[str, Any]) -> tuple[Key, str, str] | None:
    """Channel, type and source that an EventType of anybody's is for; None for one that is for no channel of ours."""
    spec = event_type.get("spec") or {}
    reference = spec.get("reference") or {}
    own = event_type["metadata"]["namespace"]
    if str(reference.get("apiVersion", "")).partition("/")[0] != GROUP or reference.get("kind") != KIND:
        return None
    if reference.get("namespace") not in (None, "", own):
        return None
    values = {str(one.get("name")): str(one.get("value", "")) for one in spec.get("attributes") or ()}
    return (own, str(reference.get("name"))), values.get("type", ""), values.get("source", "")


def is_brokers(channel: Body) -> bool:
    """Is it the channel of a Broker? The Broker itself makes the EventTypes of its events, for the Broker."""
    first: Mapping[str, Any] = next(iter(channel["metadata"].get("ownerReferences") or ()), {})
    return bool(first.get("kind") == "Broker")


def _attribute(called: str, value: str) -> dict[str, Any]:
    return {"name": called, "required": True} | ({"value": value} if value else {})
