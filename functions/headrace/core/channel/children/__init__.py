"""The Kubernetes objects of a channel: the functions that serve it, and the Service that bears its name.

Pure: a channel, its consumers and the knowledge about the cluster go in, whole objects come out. Knows the shapes of
Knative Services, Deployments, Services and ScaledObjects; does not apply anything. Called by `headrace.reconcile`.
"""

from headrace.core.channel.children.access import Mount, MountedFile, NatsMounts, by_settings, with_own
from headrace.core.channel.children.decision import Apart, Cluster, Functions, ServedConsumer
from headrace.core.channel.children.encryption import Encryption, SecureAddress
from headrace.core.channel.children.functions import apart, functions, remaining
from headrace.core.channel.children.observed import legible, named_secrets
from headrace.core.channel.children.readiness import SubscriberReadiness, worked
from headrace.core.channel.children.shared_place import template_of

__all__ = [
    "Apart",
    "Cluster",
    "Encryption",
    "Functions",
    "Mount",
    "MountedFile",
    "NatsMounts",
    "SecureAddress",
    "ServedConsumer",
    "SubscriberReadiness",
    "apart",
    "by_settings",
    "functions",
    "legible",
    "named_secrets",
    "remaining",
    "template_of",
    "with_own",
    "worked",
]
