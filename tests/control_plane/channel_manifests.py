"""Manifests as people have them: the founding proposal's, the Go channel's, and what Knative's controllers create."""

from __future__ import annotations

from typing import Any

API_VERSION = "messaging.knative.dev/v1alpha1"


def channel(name: str = "orders", spec: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    """A channel; without a spec when none is given."""
    body = {"apiVersion": API_VERSION, "kind": "NatsJetStreamChannel", "metadata": {"name": name, **metadata}}
    return body if spec is None else {**body, "spec": spec}


# The proposal's page of fields, with the zero values that stand there.
PROPOSAL: dict[str, Any] = {
    "subscribers": [],
    "delivery": {},
    "stream": {
        "overrideName": "",
        "config": {
            "additionalSubjects": [],
            "retention": "",
            "maxConsumers": 0,
            "maxMsgs": 0,
            "maxBytes": 0,
            "discard": "",
            "maxAge": "",
            "maxMsgSize": 0,
            "storage": "",
            "replicas": 0,
            "noAck": False,
            "template": "",
            "duplicateWindow": "",
            "placement": {"cluster": "", "tags": [""]},
            "mirror": {"name": "", "optStartSeq": "", "optStartTime": "", "filterSubject": ""},
            "sources": [],
        },
    },
    "consumerConfigTemplate": {
        "deliverPolicy": "",
        "optStartSeq": "",
        "optStartTime": "",
        "ackWait": "",
        "maxDeliver": 0,
        "filterSubject": "",
        "replayPolicy": "",
        "rateLimitBps": 0,
        "sampleFrequency": "",
        "maxAckPending": 0,
        "idleHeartbeat": "",
    },
}

# Every field that the Go channel has, each with a value that it takes.
GO_CHANNEL: dict[str, Any] = {
    "delivery": {
        "deadLetterSink": {"ref": {"apiVersion": "v1", "kind": "Service", "name": "dead"}, "uri": "/letters"},
        "retry": 5,
        "timeout": "PT10S",
        "backoffPolicy": "exponential",
        "backoffDelay": "PT0.2S",
        "retryAfterMax": "PT30S",
        "format": "json",
    },
    "stream": {
        "overrideName": "ORDERS",
        "config": {
            "additionalSubjects": ["orders.>", "returns.*.eu"],
            "retention": "Interest",
            "maxConsumers": 10,
            "maxMsgs": 1000,
            "maxBytes": 1_000_000,
            "discard": "New",
            "maxAge": "72h",
            "maxMsgSize": 65_536,
            "storage": "Memory",
            "replicas": 3,
            "noAck": False,
            "duplicateWindow": "1m30s",
            "placement": {"cluster": "east", "tags": ["ssd"]},
            "sources": [{"name": "A", "optStartSeq": 5}, {"name": "B", "optStartTime": "2026-01-01T00:00:00Z"}],
        },
    },
    "consumerConfigTemplate": {
        "deliverPolicy": "ByStartTime",
        "optStartTime": "2026-01-01T00:00:00+01:00",
        "ackWait": "30s",
        "maxDeliver": 10,
        "filterSubject": "orders.eu",
        "replayPolicy": "Original",
        "rateLimitBPS": 1_000_000,
        "sampleFrequency": "30%",
        "maxAckPending": 500,
        "consumerType": "Pull",
        "fetchMaxWait": "200ms",
        "fetchBatchSize": 32,
    },
    "deploymentSpecTemplate": {
        "annotations": {"sidecar.istio.io/inject": "true"},
        "labels": {"team": "shop"},
        "nodeSelector": {"disk": "ssd"},
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}, "requests": {"cpu": "100m"}},
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"team": "shop"}}}
                ]
            }
        },
    },
}

# What the Go channel's documents show: a limit or two, and all else by default.
GO_CHANNEL_SHORT: dict[str, Any] = {
    "stream": {"config": {"retention": "Limits", "maxBytes": 1_000_000_000, "replicas": 1}},
    "consumerConfigTemplate": {"deliverPolicy": "New"},
}

MIRROR: dict[str, Any] = {
    "stream": {"config": {"mirror": {"name": "HUB", "optStartSeq": "12", "filterSubject": "hub.>"}}},
}

# As Knative's Broker makes it: annotations, labels, an owner, delivery and the template's spec.
OF_A_BROKER: dict[str, Any] = {
    "delivery": {
        "retry": 10,
        "backoffPolicy": "exponential",
        "backoffDelay": "PT0.2S",
        "deadLetterSink": {"uri": "http://dead.shop.svc.cluster.local"},
    },
    "stream": {"config": {"retention": "Interest"}},
}

# As the Subscription controller writes it with every feature on.
ENTRY: dict[str, Any] = {
    "name": "billing",
    "uid": "7e59d707-3c0c-4cb9-8a0c-6b0f4a1f2a11",
    "generation": 3,
    "subscriberUri": "https://billing.shop.svc",
    "subscriberCACerts": "PEM",
    "subscriberAudience": "billing",
    "replyUri": "https://reply.shop.svc",
    "replyCACerts": "PEM",
    "replyAudience": "reply",
    "delivery": {
        "backoffDelay": "PT0.5S",
        "backoffPolicy": "exponential",
        "deadLetterSink": {"CACerts": "PEM", "audience": "dead", "uri": "http://dead"},
        "retry": 0,
        "timeout": "PT10S",
        "retryAfterMax": "PT1M",
        "format": "binary",
    },
    "auth": {"serviceAccountName": "billing-oidc", "serviceAccountNames": ["billing-oidc"]},
}
