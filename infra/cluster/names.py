"""Names of the things that are made here: images, and the Services of the ingress."""

from __future__ import annotations

# A host whose images Knative takes by name, without asking anybody.
HOST = "dev.local"
PAUSE = f"{HOST}/pause:1"
NATS = f"{HOST}/nats:1"
HEADRACE = f"{HOST}/headrace:0.1.0"
INGRESS_NAMESPACE = "knative-serving"
INGRESS, INGRESS_LOCAL = "headrace-ingress", "headrace-ingress-local"


def of_program(name: str) -> str:
    """The image of a program that was built here."""
    return f"{HOST}/{name}:1"
