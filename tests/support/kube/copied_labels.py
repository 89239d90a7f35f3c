"""Objects that Knative Serving 0.50, KEDA and Kubernetes' own controllers make for ours, with the labels of ours.

As in their sources, each bears the labels and annotations of the object that it is made for, and is controlled by it.
Nothing runs here, so tests make the objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.support.kube.kube_api import Api

Body = dict[str, Any]
PODS: Body = {"containers": [{"name": "receive", "image": "headrace:1"}]}


async def of_knative_service(api: Api, service: Body) -> dict[str, Body]:
    """All that Serving makes for a Knative Service, by path, and what comes of its Deployment."""
    made = Made(api, service["metadata"]["namespace"])
    name, named = service["metadata"]["name"], {"serving.knative.dev/service": service["metadata"]["name"]}
    configuration = await made.of(service, SERVING, "Configuration", "configurations", name, named)
    route = await made.of(service, SERVING, "Route", "routes", name, named)
    visible = {"networking.knative.dev/visibility": None, "serving.knative.dev/route": name}
    external = {"type": "ExternalName", "externalName": "kourier-internal.kourier-system.svc.cluster.local"}
    await made.of(route, "v1", "Service", "services", name, visible, spec=external)
    await made.of(route, NETWORKING, "Ingress", "ingresses", name, {"serving.knative.dev/route": name})

    # A Revision takes its labels from the template, whose labels are ours, too.
    configuration["metadata"] |= {"labels": service["metadata"]["labels"]}
    first = f"{name}-00001"
    revision = await made.of(configuration, SERVING, "Revision", "revisions", first, named)
    labels = {"serving.knative.dev/revision": first, "app": first}
    pods = {"selector": {"matchLabels": {"serving.knative.dev/revision": first}}, "template": template(labels)}
    deployment = await made.of(
        revision, "apps/v1", "Deployment", "deployments", f"{first}-deployment", labels, spec=pods
    )
    await made.of_deployment(deployment, pods)
    autoscaler = await made.of(revision, AUTOSCALING, "PodAutoscaler", "podautoscalers", first, labels)
    serverless = await made.of(autoscaler, NETWORKING, "ServerlessService", "serverlessservices", first, labels)
    ports = {"ports": [{"name": "http", "port": 80}]}
    for kind, suffix in (("Public", ""), ("Private", "-private")):
        service_type = {"networking.internal.knative.dev/serviceType": kind}
        front = await made.of(serverless, "v1", "Service", "services", f"{first}{suffix}", service_type, spec=ports)
        slice_: Body = {"addressType": "IPv4", "endpoints": []}
        slices = ("discovery.k8s.io/v1", "EndpointSlice", "endpointslices")
        await made.of(front, *slices, f"{first}{suffix}-abcde", {"kubernetes.io/service-name": first}, **slice_)
    return made.objects


async def of_scaled_object(api: Api, scaled: Body) -> dict[str, Body]:
    """The autoscaler that KEDA makes for a ScaledObject."""
    made = Made(api, scaled["metadata"]["namespace"])
    name, label = scaled["metadata"]["name"], {"scaledobject.keda.sh/name": scaled["metadata"]["name"]}
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "maxReplicas": 4}
    kind = ("autoscaling/v2", "HorizontalPodAutoscaler", "horizontalpodautoscalers")
    await made.of(scaled, *kind, f"keda-hpa-{name}", label, spec=target)
    return made.objects


async def of_deployment(api: Api, deployment: Body) -> dict[str, Body]:
    """Its ReplicaSet, and a pod of that."""
    made = Made(api, deployment["metadata"]["namespace"])
    await made.of_deployment(deployment, {"selector": deployment["spec"]["selector"], "template": template({})})
    return made.objects


SERVING = "serving.knative.dev/v1"
NETWORKING = "networking.internal.knative.dev/v1alpha1"
AUTOSCALING = "autoscaling.internal.knative.dev/v1alpha1"


class Made:
    """Makes objects of one namespace; `objects` are all of them, by path."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.objects: dict[str, Body] = {}
        self._api = api
        self._namespace = namespace

    async def of(
        self,
        owner: Body,
        version: str,
        kind: str,
        plural: str,
        name: str,
        labels: Mapping[str, str | None],
        **rest: Any,
    ) -> Body:
        """One that is made for its owner, with the owner's labels and these; None takes one away."""
        told = {**owner["metadata"].get("labels", {}), **labels}
        body = {
            "apiVersion": version,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": self._namespace,
                "labels": {key: text for key, text in told.items() if text is not None},
                "annotations": owner["metadata"].get("annotations", {}),
                "ownerReferences": [controlled_by(owner)],
            },
            **rest,
        }
        folder = f"/{'apis' if '/' in version else 'api'}/{version}/namespaces/{self._namespace}/{plural}"
        made = (await self._api.create(folder, body)).unwrapped()
        self.objects[f"{folder}/{name}"] = made
        return {"apiVersion": version, "kind": kind, **made}

    async def of_deployment(self, deployment: Body, spec: Body) -> None:
        """What Kubernetes makes for it; pods bear the template's labels, which are ours."""
        name = f"{deployment['metadata']['name']}-5d0a2"
        own = {"selector": spec["selector"], "template": template(spec["selector"]["matchLabels"])}
        labels = own["template"]["metadata"]["labels"]
        replicas = await self.of(deployment, "apps/v1", "ReplicaSet", "replicasets", name, labels, spec=own)
        await self.of(replicas, "v1", "Pod", "pods", f"{name}-x7k2p", labels, spec=PODS)


def template(labels: Mapping[str, str]) -> Body:
    return {"metadata": {"labels": dict(labels)}, "spec": PODS}


def controlled_by(owner: Body) -> Body:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
