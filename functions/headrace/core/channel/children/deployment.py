"""A function as a plain Deployment with its Service, where there is no Knative Serving, and KEDA's ScaledObject for it.

We never set the number of replicas: at first there is one, and then as many as a person or an autoscaler says.
"""

from __future__ import annotations

from typing import Any

from headrace.core.channel.children.pod import LIVENESS, PORT, READINESS, TLS_PORT, Function, probe, template
from headrace.core.channel.hook import KEDA_API
from headrace.core.delivery.subscriber import Subscriber


def deployment(function: Function, grace_seconds: int) -> dict[str, Any]:
    """The Deployment.

    Args:
        grace_seconds: the time that a pod may take to finish its work.
    """
    container = {
        "ports": [{"name": "http", "containerPort": PORT}],
        # A start may take half a minute, on a busy node; a broken pod is then noticed within another half.
        "startupProbe": probe(LIVENESS, periodSeconds=1, failureThreshold=30),
        # `reconcile` has to be reachable without NATS as well: it reports that its credentials are refused.
        "readinessProbe": probe(
            LIVENESS if function.target == "reconcile" else READINESS, periodSeconds=5, timeoutSeconds=3
        ),
        "livenessProbe": probe(LIVENESS, periodSeconds=10, timeoutSeconds=5),
    }
    if function.target == "receive":
        # On SIGTERM it stops listening, but for a moment clients are still sent to it.
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": 5}}}
    pods = template(function, {}, container)
    pods["spec"]["terminationGracePeriodSeconds"] = grace_seconds
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": function.metadata(),
        "spec": {
            "selector": {"matchLabels": function.selector},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
            "revisionHistoryLimit": 2,
            "template": pods,
        },
    }


def service(function: Function, *, secure: bool = False) -> dict[str, Any]:
    """The Service of its pods, on port 80.

    Args:
        secure: on port 443, too.
    """
    ports = [{"name": "http", "port": 80, "targetPort": PORT, "protocol": "TCP"}]
    if secure:
        ports.append({"name": "https", "port": 443, "targetPort": TLS_PORT, "protocol": "TCP"})
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": function.metadata(),
        "spec": {
            "selector": function.selector,
            "ports": ports,
        },
    }


def scaled_object(function: Function, stream: str, durable: str, subscriber: Subscriber) -> dict[str, Any]:
    """Has KEDA scale the Deployment: to zero while nothing waits, else one pod per `lag_threshold` waiting events.

    KEDA counts un-acked events, delayed retries among them, so a pod stays for as long as a back-off does.
    """
    settings = function.settings
    endpoint = settings.keda_monitoring or ""
    return {
        "apiVersion": KEDA_API,
        "kind": "ScaledObject",
        "metadata": function.metadata(),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": function.name},
            # The first event waits until KEDA looks, by default for half a minute.
            "pollingInterval": 5,
            # The time until a redelivery may be due, not the usual five minutes.
            "cooldownPeriod": 30,
            "minReplicaCount": 0,
            "maxReplicaCount": subscriber.most_leases,
            # Deliveries must go on while NATS's monitoring is away.
            "fallback": {"failureThreshold": 3, "replicas": 1},
            "triggers": [
                {
                    "type": "nats-jetstream",
                    "metadata": {
                        "natsServerMonitoringEndpoint": endpoint.removeprefix("https://").removeprefix("http://"),
                        "useHttps": str(endpoint.startswith("https://")).lower(),
                        "account": settings.keda_account,
                        "stream": stream,
                        "consumer": durable,
                        "lagThreshold": str(subscriber.lag_threshold),
                        "activationLagThreshold": "0",
                    },
                }
            ],
        },
    }
