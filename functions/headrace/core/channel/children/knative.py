"""A function as a Knative Service, with the settings under which leases were measured (`docs/adr/022-children.md`).

Leases scale `forward`: each is one request, and a pod holds as many as `containerConcurrency` says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from headrace.core.channel.children import proof
from headrace.core.channel.children.pod import LIVENESS, PORT, READINESS, Function, probe, template
from headrace.core.channel.hook import SERVING_API

# A lease of 20 s, a cold start and the wait for a pod have 30 s, beside the one delivery that a lease may end with.
LEASE_SECONDS = 30
LEAST_TIMEOUT_SECONDS = 60
# The time over which Knative averages: a pod is told to end so long after the last request, and once more as long later
# if its autoscaler was late to see that the pod was ready. The default is a minute; this is the least that it takes.
WINDOW = "6s"


@dataclass(frozen=True, slots=True)
class Scaling:
    """How many pods of a function Knative runs, and how many requests each of them gets.

    Attributes:
        container_concurrency: requests that a pod gets at once; 0 for any number.
        annotations: of the autoscaler, without their prefix.
    """

    container_concurrency: int
    timeout_seconds: int
    annotations: dict[str, str]


def of_leases(leases: int, pods: int, longest_delivery: timedelta) -> Scaling:
    """The scaling of `forward`.

    Args:
        leases: leases per pod. Not left to the autoscaler: with a concurrency of 0 the first round of leases, which
            last 20 s each, piles up on the first pod that is there.
        pods: their largest number.
    """
    return Scaling(
        container_concurrency=leases,
        timeout_seconds=timeout_seconds(longest_delivery),
        annotations={
            "target": str(leases),
            # At the usual 70, ten leases would get fifteen pods.
            "target-utilization-percentage": "100",
            # The activator stays in the path: it knows which pod has room, and wakes the first at once.
            "target-burst-capacity": "-1",
            # Pods go as soon as leases do; a slot that pauses for less than this, divided by the leases, costs no pod.
            "window": WINDOW,
            "max-scale": str(pods),
        },
    )


def of_events() -> Scaling:
    """The scaling of `receive`: events in flight wait for NATS, not for a CPU."""
    annotations = {"target": "100", "window": WINDOW}
    return Scaling(container_concurrency=0, timeout_seconds=LEAST_TIMEOUT_SECONDS, annotations=annotations)


def timeout_seconds(longest_delivery: timedelta) -> int:
    """How long a request to `forward` may take; a pod that is removed has as long to end."""
    return max(LEAST_TIMEOUT_SECONDS, LEASE_SECONDS + math.ceil(longest_delivery.total_seconds()))


def service(function: Function, scaling: Scaling) -> dict[str, Any]:
    """The Knative Service, without the number of pods at its start (`headrace.core.channel.children.proof`)."""
    annotations = {
        # The cluster's default may be another autoscaler, which does not know zero, or does not count requests.
        "class": "kpa.autoscaling.knative.dev",
        "metric": "concurrency",
        "min-scale": "0",
        **scaling.annotations,
    }
    container = {
        "ports": [{"name": "http1", "containerPort": PORT}],
        # Events come once Knative's activator has seen it ready, which looks five times each second. But Knative lets
        # a pod go no sooner than a window after the kubelet has seen it ready, by default up to ten seconds later.
        # Without a startup probe: the kubelet would hold the pod back for the second that this one takes.
        "readinessProbe": probe(READINESS, periodSeconds=1, timeoutSeconds=1),
        "livenessProbe": probe(LIVENESS, periodSeconds=10, timeoutSeconds=5, failureThreshold=6),
    }
    pods = template(function, {f"autoscaling.knative.dev/{key}": text for key, text in annotations.items()}, container)
    pods["spec"] |= {
        "containerConcurrency": scaling.container_concurrency,
        "timeoutSeconds": scaling.timeout_seconds,
        # A lease answers when it ends; without this the first byte would have to come within 300 s.
        "responseStartTimeoutSeconds": scaling.timeout_seconds,
    }
    return proof.marked(
        {
            "apiVersion": SERVING_API,
            "kind": "Service",
            # No way in from outside of the cluster.
            "metadata": function.metadata(**{"networking.knative.dev/visibility": "cluster-local"}),
            "spec": {"template": pods},
        }
    )
