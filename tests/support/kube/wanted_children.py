"""Children that a hook answers, and their state in the API server afterwards."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.support.kube.hook import status
from tests.support.kube.kube_api import Api
from tests.support.waiting import until


def deployment(name: str = "forward", image: str = "headrace:1", **metadata: Any) -> dict[str, Any]:
    labels = {"app": name}
    container = {"name": "function", "image": image, "resources": {"requests": {"cpu": "1000m"}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **metadata},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def service(name: str = "orders-kn-jsm-channel", host: str = "receive.example", **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, **metadata}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {"type": "ExternalName", "externalName": host},
    }


def knative(name: str = "forward-1", **metadata: Any) -> dict[str, Any]:
    metadata = {"name": name, **metadata}
    return {"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": metadata, "spec": {"template": {}}}


def path(kind: str, namespace: str, name: str) -> str:
    roots = {
        "deployment": "/apis/apps/v1/namespaces/{}/deployments/{}",
        "service": "/api/v1/namespaces/{}/services/{}",
        "knative": "/apis/serving.knative.dev/v1/namespaces/{}/services/{}",
    }
    return roots[kind].format(namespace, name)


async def until_there(api: Api, where: str, holds: Callable[[dict[str, Any]], bool] = lambda _: True) -> dict[str, Any]:
    """Wait for an object that is like that."""
    found: dict[str, Any] = {}

    async def is_so() -> bool:
        answer = await api.get(where)
        found.clear()
        found.update(answer.body if answer.accepted else {})
        return bool(found) and holds(found)

    await until(f"{where} is there, as it should be", is_so, 60.0)
    return found


def answers(*children: Mapping[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda request: {
        "children": list(children),
        "status": status(request["parent"]["metadata"]["generation"]),
    }
