"""The objects that conversions make: channels, Brokers with the template of their channel, Triggers.

Knows Knative's shapes, and no other system's. Called by the modules of each system.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.core.manifest.own_address import API_VERSION, KIND

CHANNEL = {"apiVersion": API_VERSION, "kind": KIND}
# The limit of a DNS label. A Trigger's name has to be one, since it becomes part of a Subscription's.
_LONGEST_NAME = 63


def channel(namespace: str, name: str, spec: Mapping[str, Any], metadata: Mapping[str, Any] | None = None) -> Any:
    return {**CHANNEL, "metadata": {**(metadata or {}), "namespace": namespace, "name": name}, "spec": dict(spec)}


def broker(
    namespace: str, name: str, spec: Mapping[str, Any], delivery: Mapping[str, Any] | None = None
) -> tuple[Any, Any]:
    """A Broker whose channel is a NatsJetStreamChannel with that spec, and the ConfigMap that holds the spec.

    Only Triggers filter events: a channel hands every event to every subscriber.
    """
    config = f"{name}-channel"
    template = {"apiVersion": CHANNEL["apiVersion"], "kind": CHANNEL["kind"], **({"spec": spec} if spec else {})}
    place = {"namespace": namespace, "name": config}
    return (
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": place,
            "data": {"channel-template-spec": _yaml(template)},
        },
        {
            "apiVersion": "eventing.knative.dev/v1",
            "kind": "Broker",
            "metadata": {
                "namespace": namespace,
                "name": name,
                "annotations": {"eventing.knative.dev/broker.class": "MTChannelBasedBroker"},
            },
            "spec": {
                "config": {"apiVersion": "v1", "kind": "ConfigMap", **place},
                **({"delivery": dict(delivery)} if delivery else {}),
            },
        },
    )


def trigger(
    namespace: str,
    name: str,
    of_broker: str,
    uri: str,
    filters: Sequence[Mapping[str, Any]],
    delivery: Mapping[str, Any] | None = None,
) -> Any:
    """A Trigger to an address; all filters must hold."""
    spec: dict[str, Any] = {"broker": of_broker, "filters": [dict(one) for one in filters], "subscriber": {"uri": uri}}
    if delivery:
        spec["delivery"] = dict(delivery)
    metadata = {"namespace": namespace, "name": legal(name)}
    return {"apiVersion": "eventing.knative.dev/v1", "kind": "Trigger", "metadata": metadata, "spec": spec}


def one_of(attribute: str, values: Sequence[str]) -> dict[str, Any]:
    """A filter: the attribute has one of these values."""
    exact = [{"exact": {attribute: value}} for value in values]
    return exact[0] if len(exact) == 1 else {"any": exact}


def legal(name: str) -> str:
    """The name as a DNS label; a name that had to be changed gets a hash, so that two never become one."""
    plain = re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-")
    if plain == name and len(plain) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{plain[: _LONGEST_NAME - 9].rstrip('-') or 'x'}-{mark}"


def _yaml(template: Mapping[str, Any]) -> str:
    # Imported here, since a command that only lists channels needs no YAML.
    import yaml

    return yaml.safe_dump(template, sort_keys=False)
