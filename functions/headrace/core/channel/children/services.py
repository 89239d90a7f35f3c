"""The objects that are no functions and scale none: the Service with a channel's name, and a service account."""

from __future__ import annotations

from typing import Any

from headrace.core import names
from headrace.core.channel.child_marks import SCOPE_LABEL, SHARED_LABEL, standard_labels
from headrace.core.channel.children.pod import Function

CHANNEL_ROLE = {"messaging.knative.dev/role": "nats-jetstream-channel"}
"""The Go channel's label for the Services of channels."""


def of_channel(namespace: str, name: str, receive: Function, domain: str) -> dict[str, Any]:
    """The Service whose host name is a channel's address; it leads to a plain `receive`."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": names.channel(namespace, name).label,
            "namespace": namespace,
            "labels": {**standard_labels("channel"), **CHANNEL_ROLE},
        },
        # The name leads there; `receive` reads the event's channel off the Host header.
        "spec": {
            "type": "ExternalName",
            "externalName": f"{receive.name}.{receive.namespace}.svc.{domain}",
            "ports": [{"name": "http", "port": 80, "targetPort": 80, "protocol": "TCP"}],
        },
    }


def account(name: str, namespace: str) -> dict[str, Any]:
    """The service account of the functions of a namespace; it has no rights, and needs none."""
    labels = {**standard_labels("functions"), SHARED_LABEL: "true", SCOPE_LABEL: "namespace"}
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "automountServiceAccountToken": False,
    }
