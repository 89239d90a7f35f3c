"""Everything that the operator does to the API server, deed by deed, in an order in which it can be done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from tests.support.kube.kube_api import CHANNELS, Answer, Api

SYSTEM = "knative-eventing"
Deed = Callable[[Api], Awaitable[Answer]]
CHILDREN: dict[str, dict[str, Any]] = {
    "/api/v1/namespaces/{}/services": {
        "apiVersion": "v1",
        "kind": "Service",
        "spec": {"type": "ExternalName", "externalName": "receive.knative-eventing.svc.cluster.local"},
    },
    "/api/v1/namespaces/{}/serviceaccounts": {"apiVersion": "v1", "kind": "ServiceAccount"},
    "/apis/apps/v1/namespaces/{}/deployments": {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "forward", "image": "headrace"}]},
            },
        },
    },
    "/apis/serving.knative.dev/v1/namespaces/{}/services": {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "spec": {},
    },
    "/apis/keda.sh/v1alpha1/namespaces/{}/scaledobjects": {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "spec": {
            "scaleTargetRef": {"name": "forward"},
            "triggers": [
                {"type": "nats-jetstream", "metadata": {"account": "$G", "stream": "KN_A__B", "consumer": "KN_SUB_1"}}
            ],
        },
    },
    "/apis/cert-manager.io/v1/namespaces/{}/certificates": {
        "apiVersion": "cert-manager.io/v1",
        "kind": "Certificate",
        "spec": {"secretName": "child", "issuerRef": {"name": "knative-eventing-ca-issuer", "kind": "ClusterIssuer"}},
    },
}
# The functions of cluster-scoped channels; each Deployment has a Service, as channels have in their own namespaces.
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["billing"]}}
OF_THE_SYSTEM = ("deployments", "services", "scaledobjects", "certificates")


def deeds(namespace: str) -> Iterator[tuple[str, Deed]]:
    """Everything that the operator does to the API server, in an order in which it can be done."""
    channels = CHANNELS.format(namespace=namespace)
    one = f"{channels}/orders"
    yield "look at a channel", lambda api: api.get(one)
    yield from _watched(CHANNELS.replace("/namespaces/{namespace}", ""))
    yield "hold a channel", lambda api: api.merge(one, {"metadata": {"finalizers": ["headrace.dev/nats"]}})
    yield "write its status", lambda api: api.merge(f"{one}/status", {"status": {"stream": "S"}})
    yield from _watched("/apis/messaging.knative.dev/v1/subscriptions")
    yield (
        "ask whether a Subscription is still there",
        lambda api: _or_404(api.get(f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions/gone")),
    )
    yield from _watched("/apis/eventing.knative.dev/v1alpha1/eventpolicies")
    types = "/apis/eventing.knative.dev/v1beta3{}/eventtypes"
    yield from _watched(types.format(""))
    made = {"apiVersion": "eventing.knative.dev/v1beta3", "kind": "EventType", "metadata": {"name": "et-orders-1"}}
    yield "make an EventType", lambda api: api.create(types.format(f"/namespaces/{namespace}"), made)
    for path, body in CHILDREN.items():
        yield from _child(path.format(namespace), {**body, "metadata": {"name": "child", "namespace": namespace}})
        yield from _watched(path.replace("/namespaces/{}", ""))
        if path.split("/")[-1] in OF_THE_SYSTEM and not path.startswith("/api/v1"):
            yield from _child(path.format(SYSTEM), {**body, "metadata": {"name": "child", "namespace": SYSTEM}})
    yield from _event(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", namespace)
    yield from _lease(f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases")
    autoscaler = "/api/v1/namespaces/knative-serving/configmaps"
    yield from _watched(autoscaler, fieldSelector="metadata.name=config-autoscaler")
    config_maps = "/api/v1/namespaces/{}/configmaps"
    yield from _watched(config_maps.format(SYSTEM), fieldSelector="metadata.name=config-features")
    yield from _watched(config_maps.format(SYSTEM), labelSelector="networking.knative.dev/trust-bundle=true")
    for place in (namespace, SYSTEM):
        yield from _security(f"{config_maps.format(place)}/headrace-security")
    secrets = f"/api/v1/namespaces/{SYSTEM}/secrets"
    yield from _watched(secrets, fieldSelector="metadata.name=headrace-receive-plain-tls")
    yield "let a channel go", lambda api: api.merge(one, {"metadata": {"finalizers": None}})


def _watched(path: str, **selection: str) -> Iterator[tuple[str, Deed]]:
    query = "".join(f"&{name}={value}" for name, value in selection.items())
    yield f"list {path}", lambda api: api.get(f"{path}?limit=1{query}")
    yield f"watch {path}", lambda api: api.watch(path, **selection)


def _child(path: str, body: dict[str, Any]) -> Iterator[tuple[str, Deed]]:
    # Applying what is not there yet takes the right to create it beside that to patch it.
    yield f"create {path}", lambda api: api.create(path, body)
    yield f"apply {path}", lambda api: api.apply(f"{path}/child", body, manager="headrace")
    yield f"look at {path}", lambda api: api.get(f"{path}/child")
    if path.endswith("/serviceaccounts"):
        yield "have a token made", lambda api: api.create(f"{path}/child/token", TOKEN)
    yield f"delete {path}", lambda api: api.delete(f"{path}/child")


def _security(path: str) -> Iterator[tuple[str, Deed]]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "headrace-security"}}
    yield f"look at {path}", lambda api: _or_404(api.get(path))
    # There is none yet: that takes the right to create it, too, and the name of what is applied is known.
    yield f"make {path}", lambda api: api.apply(path, body, manager="headrace")
    yield f"change {path}", lambda api: api.apply(path, {**body, "data": {"a": "b"}}, manager="headrace")
    yield f"delete {path}", lambda api: api.delete(path)


def _event(path: str, namespace: str) -> Iterator[tuple[str, Deed]]:
    body = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "orders.1", "namespace": namespace},
        "eventTime": "2026-01-31T12:00:00.000000Z",
        "reportingController": "headrace.dev/operator",
        "reportingInstance": "operator-0",
        "action": "Reconcile",
        "reason": "StreamOrphaned",
        "type": "Warning",
        "regarding": {
            "apiVersion": "messaging.knative.dev/v1alpha1",
            "kind": "NatsJetStreamChannel",
            "name": "orders",
            "namespace": namespace,
        },
    }
    series = {"series": {"count": 2, "lastObservedTime": "2026-01-31T12:01:00.000000Z"}}
    yield "tell of something", lambda api: api.create(path, body)
    yield "look whether it was told already", lambda api: api.get(f"{path}/orders.1")
    yield "tell of it again", lambda api: api.merge(f"{path}/orders.1", series)


def _lease(path: str) -> Iterator[tuple[str, Deed]]:
    body = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "headrace-operator", "namespace": SYSTEM},
        "spec": {"holderIdentity": "operator-0", "leaseDurationSeconds": 15},
    }
    yield "take the Lease", lambda api: api.create(path, body)
    yield "look at it", lambda api: api.get(f"{path}/headrace-operator")
    yield from _watched(path, fieldSelector="metadata.name=headrace-operator")

    async def renew(api: Api) -> Answer:
        found = await api.get(f"{path}/headrace-operator")
        return await api.replace(f"{path}/headrace-operator", found.body if found.accepted else body)

    yield "renew it", renew


async def _or_404(asking: Awaitable[Answer]) -> Answer:
    answer = await asking
    return Answer(200) if answer.status == 404 else answer
