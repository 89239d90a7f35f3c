"""The manifests of channels and Subscriptions from what somebody has typed. Pure."""

from __future__ import annotations

from typing import Any

from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.event.uri import checked_uri
from headrace.core.manifest import manifest
from headrace.core.quoting import quoted
from headrace_cli.catalog.names import Ref
from headrace_cli.catalog.names import ref as ref_of
from headrace_cli.cluster.objects import CHANNEL_KIND, CHANNEL_VERSION, SUBSCRIPTION_KIND, SUBSCRIPTION_VERSION
from headrace_cli.commands.params import Given

# Ours where nothing is said (ADR 012).
DEFAULT_DELAY = "PT0.2S"

# Option to member of spec.stream.config.
MEMBERS = {
    "retention": "retention",
    "storage": "storage",
    "discard": "discard",
    "replicas": "replicas",
    "max_age": "maxAge",
    "max_bytes": "maxBytes",
    "max_messages": "maxMsgs",
    "duplicate_window": "duplicateWindow",
}


def of_channel(ref: Ref, given: Given) -> dict[str, Any]:
    """The object, checked as `reconcile` would.

    Raises:
        Misconfigured: a value, or what they make together, is not possible.
    """
    stream: dict[str, Any] = {
        member: given[option] for option, member in MEMBERS.items() if given.get(option) is not None
    }
    wanted: dict[str, Any] = {"overrideName": given["stream"]} if given.get("stream") else {}
    if stream:
        wanted["config"] = stream
    metadata: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
    if given.get("annotations"):
        metadata["annotations"] = dict(given["annotations"])
    spec = {"stream": wanted} if wanted else {}
    body = {"apiVersion": CHANNEL_VERSION, "kind": CHANNEL_KIND, "metadata": metadata, "spec": spec}
    try:
        manifest.parse({**body, "metadata": {**metadata, "uid": "none-yet", "generation": 1}})
        if "annotations" in metadata:
            # Brings YAML, which whoever only looks into NATS may not have.
            from headrace_cli.manifests import our_annotations
            from headrace_cli.manifests.documents import Document

            our_annotations.of_channel(Document(f"channel {ref}", body), metadata["annotations"])
    except InvalidSpec as error:
        raise Misconfigured(str(error), field=error.field) from None
    return body


def of_subscription(ref: Ref, given: Given) -> dict[str, Any]:
    """The object, checked as `headrace up` would.

    Raises:
        Misconfigured: a value, or what they make together, is not possible.
    """
    # Brings YAML, which whoever only looks into NATS may not have.
    from headrace_cli.manifests import kinds
    from headrace_cli.manifests.documents import Document

    channel = ref_of(given["channel"], ref.namespace)
    if channel.namespace != ref.namespace:
        problem = f"--channel is {quoted(given['channel'])}: a Subscription is in the namespace of its channel"
        raise Misconfigured(f"{problem}, and this one is in {quoted(ref.namespace)}", field="--channel")
    delivery: dict[str, Any] = {
        member: given[option]
        for option, member in (
            ("retry", "retry"),
            ("backoff_delay", "backoffDelay"),
            ("backoff_policy", "backoffPolicy"),
            ("timeout", "timeout"),
        )
        if given.get(option) is not None
    }
    # Knative's other channels pass over one without the other.
    if given.get("backoff_delay") is not None or given.get("backoff_policy") is not None:
        delivery = {"backoffDelay": DEFAULT_DELAY, "backoffPolicy": "exponential", **delivery}
    if given.get("dead_letter_uri"):
        delivery["deadLetterSink"] = {"uri": given["dead_letter_uri"]}
    spec: dict[str, Any] = {"channel": {"apiVersion": CHANNEL_VERSION, "kind": CHANNEL_KIND, "name": channel.name}}
    spec |= {role: {"uri": given[f"{role}_uri"]} for role in ("subscriber", "reply") if given.get(f"{role}_uri")}
    spec |= {"delivery": delivery} if delivery else {}
    metadata = {"name": ref.name, "namespace": ref.namespace}
    body = {"apiVersion": SUBSCRIPTION_VERSION, "kind": SUBSCRIPTION_KIND, "metadata": metadata, "spec": spec}
    try:
        kinds.parse(Document(str(ref), body), manifest.Metadata, metadata, "metadata")
        kinds.parse(Document(str(ref), body), kinds.SubscriptionSpec, spec, "spec")
        for field, sink in (("subscriber", spec), ("reply", spec), ("deadLetterSink", delivery)):
            if field in sink:
                checked_uri(sink[field]["uri"], field=f"{field}.uri")
    except InvalidSpec as error:
        raise Misconfigured(f"Subscription {error}", field=error.field) from None
    return body
