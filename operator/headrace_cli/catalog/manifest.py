"""The manifests of channels and Subscriptions, made of what somebody has typed, and checked as they will be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core.channel.related import SUBSCRIPTION, SUBSCRIPTION_API
from headrace.core.errors import InvalidSpec, Misconfigured
from headrace.core.event.uri import checked_uri
from headrace.core.manifest import manifest
from headrace.core.manifest.own_address import API_VERSION, KIND
from headrace_cli.catalog.names import NamespacedName

# Our own default (ADR 012).
DEFAULT_BACKOFF = {"backoffDelay": "PT0.2S", "backoffPolicy": "exponential"}


def of_channel(
    ref: NamespacedName, config: Mapping[str, Any], *, stream: str | None, annotations: Mapping[str, str]
) -> dict[str, Any]:
    """A NatsJetStreamChannel, checked as `reconcile` would check it.

    Args:
        config: members of spec.stream.config.
        stream: the name of the stream that it is to use, which may exist.

    Raises:
        Misconfigured: a value, or the combination of values, is not possible.
    """
    wanted: dict[str, Any] = {"overrideName": stream} if stream else {}
    if config:
        wanted["config"] = dict(config)
    metadata: dict[str, Any] = {"name": ref.name, "namespace": ref.namespace}
    if annotations:
        metadata["annotations"] = dict(annotations)
    spec = {"stream": wanted} if wanted else {}
    body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    try:
        manifest.parse({**body, "metadata": {**metadata, "uid": "none-yet", "generation": 1}})
        if annotations:
            # This import needs YAML, which may not be installed where people only look into NATS.
            from headrace_cli.manifests import our_annotations
            from headrace_cli.manifests.documents import Document

            our_annotations.of_channel(Document(f"channel {ref}", body), metadata["annotations"])
    except InvalidSpec as error:
        raise Misconfigured(str(error), field=error.field) from None
    return body


def of_subscription(
    ref: NamespacedName, channel: str, addresses: Mapping[str, str], delivery: Mapping[str, Any]
) -> dict[str, Any]:
    """A Subscription, checked as `headrace up` would check it.

    Args:
        channel: the name of a channel of its namespace.
        addresses: URIs by role: `subscriber`, `reply`, `deadLetterSink`.
        delivery: members of spec.delivery.

    Raises:
        Misconfigured: a value, or the combination of values, is not possible.
    """
    # This import needs YAML, which may not be installed where people only look into NATS.
    from headrace_cli.manifests import kinds
    from headrace_cli.manifests.documents import Document

    sinks = {role: {"uri": uri} for role, uri in addresses.items()}
    # Knative's other channels ignore either member without the other.
    backoff = DEFAULT_BACKOFF if delivery.keys() & DEFAULT_BACKOFF.keys() else {}
    dead_letter = {role: sinks[role] for role in ("deadLetterSink",) if role in sinks}
    whole = {**backoff, **delivery, **dead_letter}
    spec: dict[str, Any] = {
        "channel": {"apiVersion": API_VERSION, "kind": KIND, "name": channel},
        **{role: sinks[role] for role in ("subscriber", "reply") if role in sinks},
        **({"delivery": whole} if whole else {}),
    }
    metadata = {"name": ref.name, "namespace": ref.namespace}
    body = {"apiVersion": SUBSCRIPTION_API, "kind": SUBSCRIPTION, "metadata": metadata, "spec": spec}
    try:
        kinds.parse(Document(str(ref), body), manifest.Metadata, metadata, "metadata")
        kinds.parse(Document(str(ref), body), kinds.SubscriptionSpec, spec, "spec")
        for role in ("subscriber", "reply", "deadLetterSink"):
            if role in addresses:
                checked_uri(addresses[role], field=f"{role}.uri")
    except InvalidSpec as error:
        raise Misconfigured(f"Subscription {error}", field=error.field) from None
    return body
