"""Children of a channel as `reconcile` would answer them, with only the fields that a test cares about."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.core import names
from headrace.core.channel import children, consumer
from headrace.core.channel.children import Cluster, Encryption, Functions, NatsMounts, ServedConsumer
from headrace.core.channel.guests import Guests
from headrace.core.installation.function_bounds import FunctionBounds
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel
from tests.support.kube.kube_api import Api
from tests.support.waiting import until

SECURITY_VOLUME = {
    "name": "security",
    "projected": {"sources": [{"configMap": {"name": "headrace-security", "optional": True}}]},
}
"""In each pod of `receive` and `forward`, whether a flag of Knative asks for it or not."""


def known_by(host: str) -> str:
    """What a function is told of its callers, readable."""
    return f"known by {host.partition('.')[0]}"


IMAGE = "registry.example/headrace@sha256:" + "0" * 64
SERVING, KEDA = "serving.knative.dev/v1", "keda.sh/v1alpha1"
BOTH = frozenset({SERVING, KEDA})


def wanted(
    *entries: dict[str, Any],
    apis: Iterable[str] | None = BOTH,
    observed: Iterable[dict[str, Any]] = (),
    access: NatsMounts | None = None,
    settings: dict[str, Any] | None = None,
    reached: bool = True,
    elsewhere: bool = False,
    shared: Iterable[dict[str, Any]] | None = None,
    zero: bool | None = False,
    worked: bool = False,
    watched: str = "",
    bounds: FunctionBounds | None = None,
    guests: dict[str, Guests] | None = None,
    given: dict[str, Any] | None = None,
    encryption: Encryption | None = None,
    **parts: Any,
) -> Functions:
    """The functions of `channel(*entries, **parts)`, all of whose consumers are there."""
    ours = ReconcileSettings(**{"image": IMAGE, "functions_nats_url": "nats://nats:4222", **(settings or {})})
    parsed = manifest.parse(channel(*entries, **parts))
    stream = names.stream(parsed.metadata.namespace, parsed.metadata.name)
    seen, served = as_observed(observed, parsed.metadata.namespace), served_by(parsed, stream)
    return children.functions(
        parsed,
        stream,
        served if reached else None,
        ours,
        access or children.by_settings(ours, known_by),
        Cluster(
            None if apis is None else frozenset(apis),
            seen,
            elsewhere=elsewhere,
            shared=None if shared is None else as_observed(shared, parsed.metadata.namespace),
            zero=zero,
            worked=worked,
            watched=watched,
            bounds=bounds or FunctionBounds(),
            guests=guests or {},
            given=given or {},
            encryption=encryption or Encryption(),
        ),
    )


def served_by(parsed: manifest.Manifest, stream: str) -> list[ServedConsumer]:
    """The consumers of all entries."""
    rows = consumer.rows(parsed, stream)
    return [ServedConsumer(names.durable(row.uid), row.subscriber) for row in rows if row.subscriber is not None]


def remaining(
    objects: Iterable[dict[str, Any]],
    *entries: dict[str, Any],
    namespace: str = "shop",
    addressed: bool = True,
    settings: dict[str, Any] | None = None,
    shared: Iterable[dict[str, Any]] | None = None,
    **annotations: str,
) -> Functions:
    """What a channel wants that makes no sense any more and has these objects, and consumers of these entries."""
    given = ReconcileSettings(**{"image": IMAGE, "functions_nats_url": "nats://nats:4222", **(settings or {})})
    metadata = manifest.parse(channel(namespace=namespace, annotations=annotations)).metadata
    cluster = Cluster(
        BOTH,
        as_observed(objects, namespace),
        shared=None if shared is None else as_observed(shared, namespace),
    )
    access = children.by_settings(given, known_by)
    served = served_by(manifest.parse(channel(*entries, namespace=namespace)), "")
    return children.remaining(metadata, given, access, cluster, served, addressed=addressed)


def as_observed(objects: Iterable[dict[str, Any]], namespace: str = "shop") -> dict[str, Any]:
    """As the hook's request has them."""
    found: dict[str, Any] = {}
    for one in objects:
        own = one["metadata"]["namespace"] == namespace
        key = one["metadata"]["name"] if own else f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        found.setdefault(f"{one['kind']}.{one['apiVersion']}", {})[key] = one
    return found


async def deployment_of(api: Api, namespace: str, component: str) -> dict[str, Any]:
    """The one Deployment of a function, once it is there."""
    found: list[dict[str, Any]] = []

    async def is_there() -> bool:
        answer = await api.get(f"/apis/apps/v1/namespaces/{namespace}/deployments")
        labelled = ((one, one["metadata"]["labels"]) for one in answer.unwrapped()["items"])
        found[:] = [one for one, labels in labelled if labels["app.kubernetes.io/component"] == component]
        return bool(found)

    await until(f"there is a Deployment of {component}", is_there, 60.0)
    return found[0]


def the(functions: Functions, kind: str, component: str) -> dict[str, Any]:
    """The one object of this kind (`Service.v1`, say) and function."""
    found = all_of(functions, kind, component)
    assert len(found) == 1, [one["metadata"]["name"] for one in found]
    return found[0]


def all_of(functions: Functions, kind: str, component: str = "") -> list[dict[str, Any]]:
    """All of this kind, and of this function."""
    return [
        one
        for one in functions.objects
        if f"{one['kind']}.{one['apiVersion']}" == kind
        and component in ("", one["metadata"]["labels"]["app.kubernetes.io/component"])
    ]


def called(functions: Functions) -> list[str]:
    """Kind, namespace and name of each, in order."""
    return sorted(
        f"{one['kind']} {one['metadata']['namespace']}/{one['metadata']['name']}" for one in functions.objects
    )


def at(body: Any, path: str) -> Any:
    """What is there, as `spec.template.spec.containers.0.image`; None for nothing."""
    for step in path.split("/"):
        body = body[int(step)] if isinstance(body, list) else (body or {}).get(step)
    return body
