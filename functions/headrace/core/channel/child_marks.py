"""Labels and annotations of a channel's children: the hook writes some of them, the operator the others.

Each side reads the marks of the other. No mark proves that a child is ours, since Knative copies the labels of our
Knative Services to all objects that it makes for them (ADR 031).
"""

from __future__ import annotations

NAME_LABEL = "app.kubernetes.io/name"
COMPONENT_LABEL = "app.kubernetes.io/component"
MANAGED_BY, US = "app.kubernetes.io/managed-by", "headrace"
OWN_RECONCILE = "own-reconcile"
"""The component of a `reconcile` that is a channel's or a namespace's: the installation's Services select another."""
FUNCTION_LABEL = "headrace.dev/function"
SHARED_LABEL = "headrace.dev/shared"
"""`true` on a child that several channels share."""
SCOPE_LABEL = "headrace.dev/scope"
TENANT_LABEL = "headrace.dev/tenant"
"""On a shared child of the system namespace: the only namespace whose channels share it."""
UID_LABEL = "headrace.dev/channel-uid"
"""The operator's: the uid of the channel that a child belongs to."""
CHANNEL_ANNOTATION = "headrace.dev/channel"
"""Namespace and name of that channel: for people, and for finding it when only the child is left."""
SUBSCRIPTION_ANNOTATION = "headrace.dev/subscription"
DIGEST_ANNOTATION = "headrace.dev/applied"
"""The operator's: the digest of the object that was applied."""


def standard_labels(component: str) -> dict[str, str]:
    """The labels of every object of ours."""
    return {NAME_LABEL: US, COMPONENT_LABEL: component, MANAGED_BY: US}
