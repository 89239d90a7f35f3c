"""Knative Serving and Eventing with the MT Broker, from the YAML in their modules.

Only this is changed: the names of images, the requests, for a small node, the class of the ingress, and that functions
may begin at zero. Knative's autoscaling of its own parts is left out: nobody serves metrics for it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from functools import cache

from infra.cluster import daemons, manifests, programs
from infra.cluster.commands import kubectl
from infra.cluster.instance import Cluster, Problem
from infra.cluster.manifests import Manifest
from infra.cluster.names import INGRESS, INGRESS_LOCAL, INGRESS_NAMESPACE, of_program
from infra.programs import go_programs

INGRESS_CLASS = "headrace.ingress.networking.knative.dev"
_READY = "240s"
_DATA = {
    "config-network": {"ingress-class": INGRESS_CLASS},
    # What is not visible in the cluster only is <name>.<namespace>.example.com.
    "config-domain": {"example.com": ""},
    "config-autoscaler": {"allow-zero-initial-scale": "true"},
}
_FIRST = ("Namespace", "CustomResourceDefinition")
_LEFT_OUT = ("HorizontalPodAutoscaler", "PodDisruptionBudget")
_NAMESPACES = ("knative-serving", "knative-eventing")
# Of cmd/<path> in Knative's modules. What is not built here stays under a name that can be had nowhere.
IMAGES = {f"ko://{each.package}": of_program(each.name) for each in (*programs.SERVING, *programs.EVENTING)}


def define(cluster: Cluster) -> None:
    """Have its namespaces and its kinds of objects in the cluster, and wait until the API server takes the latter."""
    _apply(cluster, [each for each in _wanted(cluster) if each["kind"] in _FIRST])
    kubectl(cluster, "wait", "--for=condition=Established", "crd", "--all", f"--timeout={_READY}")


def apply(cluster: Cluster) -> None:
    """Have all else in the cluster. Its pods need their images."""
    _apply(cluster, [each for each in _wanted(cluster) if each["kind"] not in _FIRST])


def wait(cluster: Cluster) -> None:
    """Wait until it works: all is up, and its webhooks answer.

    Raises:
        Problem: it does not come up; says what does not.
    """
    for namespace in _NAMESPACES:
        kubectl(cluster, "-n", namespace, "wait", "--for=condition=Available", "deploy", "--all", f"--timeout={_READY}")
    deadline = time.monotonic() + 120
    while True:
        try:
            kubectl(cluster, "create", "--dry-run=server", "-f", "-", given=manifests.text(_PROOFS))
            return
        except Problem:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


@cache
def _wanted(cluster: Cluster) -> Sequence[Manifest]:
    all_of_them = (*_serving(), *_eventing(), *_ingress(cluster))
    return [_adapted(each) for each in all_of_them if each["kind"] not in _LEFT_OUT]


def _serving() -> Iterator[Manifest]:
    folder = programs.sources(programs.SERVING[0]) / "config" / "core"
    own = ("100-namespace.yaml", "200-serviceaccount.yaml", "200-roles", "300-resources", "configmaps", "deployments")
    yield from manifests.read(folder / name for name in (*own, "webhooks", "999-cache.yaml"))
    # Links in Serving's repository, which no module can hold.
    for module in ("knative.dev/networking", "knative.dev/caching"):
        yield from manifests.read([go_programs.module_folder(programs.SERVING[0], module) / "config"])


def _eventing() -> Iterator[Manifest]:
    folder = programs.sources(programs.EVENTING[0])
    config, integrations = folder / "config", folder / "third_party" / "eventing-integrations-latest"
    core, broker = config / "core", config / "brokers" / "mt-channel-broker"
    own = (*sorted(core.glob("*.yaml")), core / "resources", core / "roles", core / "configmaps", core / "webhooks")
    deployments = (core / "deployments" / "controller.yaml", core / "deployments" / "webhook.yaml")
    yield from manifests.read([*own, *deployments, broker / "roles", broker / "deployments", integrations])


def _adapted(manifest: Manifest) -> Manifest:
    named = manifests.mapped(manifest, lambda text: IMAGES.get(text, text))
    return manifests.with_data(manifests.small(named), _DATA)


def _ingress(cluster: Cluster) -> Iterator[Manifest]:
    """Services that lead to the ingress, which is no pod: for what is visible everywhere, and in the cluster only."""
    for name, port in ((INGRESS, daemons.INGRESS_PORT), (INGRESS_LOCAL, daemons.INGRESS_LOCAL_PORT)):
        of = {"namespace": INGRESS_NAMESPACE, "name": name}
        ports = [{"name": "http2", "port": 80, "targetPort": port, "protocol": "TCP"}]
        yield {"apiVersion": "v1", "kind": "Service", "metadata": of, "spec": {"ports": ports}}
        yield {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**of, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "ports": [{"name": "http2", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [cluster.addresses.node], "conditions": {"ready": True}}],
        }


def _apply(cluster: Cluster, wanted: Sequence[Manifest]) -> None:
    kubectl(cluster, "apply", "--server-side", "--force-conflicts", "-f", "-", given=manifests.text(wanted))


_SINK = {"uri": "http://nobody.example"}
_PROOFS: Sequence[Manifest] = (
    {
        "apiVersion": "serving.knative.dev/v1",
        "kind": "Service",
        "metadata": {"name": "proof", "namespace": "default"},
        "spec": {"template": {"spec": {"containers": [{"image": "dev.local/proof:1"}]}}},
    },
    {
        "apiVersion": "eventing.knative.dev/v1",
        "kind": "Trigger",
        "metadata": {"name": "proof", "namespace": "default"},
        "spec": {"broker": "proof", "subscriber": _SINK},
    },
)
