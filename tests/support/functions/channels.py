"""Channels and their entries as the API server would have them, with only the fields that a test cares about."""

from __future__ import annotations

from typing import Any

UID = "5d0a2f1c-0000-4000-8000-000000000001"


def channel(
    *entries: dict[str, Any],
    name: str = "orders",
    namespace: str = "shop",
    uid: str = UID,
    generation: int = 1,
    annotations: dict[str, str] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """A NatsJetStreamChannel; `spec` are the members of its spec beside the subscribers."""
    parent: dict[str, Any] = {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "metadata": {"name": name, "namespace": namespace, "uid": uid, "generation": generation},
        "spec": {"subscribers": list(entries), **spec},
    }
    if annotations is not None:
        parent["metadata"]["annotations"] = annotations
    if status is not None:
        parent["status"] = status
    return parent


def stream(**config: Any) -> dict[str, Any]:
    """`spec.stream` with these members of its config."""
    return {"config": config}


def entry(uid: str = "aaaa-1", name: str = "billing", generation: int = 1, **fields: Any) -> dict[str, Any]:
    """One of `spec.subscribers`; a subscriberUri is given unless the test gives an address itself."""
    body: dict[str, Any] = {"uid": uid, "name": name, "generation": generation}
    if not {"subscriberUri", "replyUri"} & fields.keys():
        body["subscriberUri"] = f"http://{name}.shop.svc.cluster.local/"
    return {**body, **fields}
