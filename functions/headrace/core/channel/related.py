"""Which objects beside the channel have to be observed for it, and how they are found in the hook's request.

`headrace.core.channel.truth` and `headrace.core.channel.dead_letter` draw the conclusions from the objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import ValidationError

from headrace.core.channel.customize import RelatedRule
from headrace.core.installation.reconcile_settings import FunctionsSettings
from headrace.core.manifest.delivery_spec import Ref
from headrace.core.security.flags import Flags

SUBSCRIPTION_API = "messaging.knative.dev/v1"
SUBSCRIPTION = "Subscription"
SERVING, AUTOSCALER, ALLOWED = "knative-serving", "config-autoscaler", "allow-zero-initial-scale"
"""The ConfigMap and the key with which Knative Serving sets up its autoscaler."""
EVENTING, FEATURES = "knative-eventing", "config-features"
"""The ConfigMap of Knative Eventing's flags."""
TLS_SECRET = "headrace-receive-plain-tls"
"""The Secret of the system namespace with the certificate of `receive`, and its authority."""
EVENT_POLICY_API, EVENT_POLICY = "eventing.knative.dev/v1alpha1", "EventPolicy"
# True for Go's strconv.ParseBool, with which Knative reads it.
_TRUE = ("1", "t", "T", "TRUE", "true", "True")


def rules(
    parent: Mapping[str, Any], settings: FunctionsSettings | None = None, *, stock: bool = False
) -> list[RelatedRule]:
    """The objects to observe for a channel: all Subscriptions, its dead letter sink's object, Knative's settings.

    Subscriptions are asked for everywhere: an entry of `spec.subscribers` does not tell its Subscription's namespace.
    Our operator leaves out those that neither name the channel nor are named by it; a stock Metacontroller sends all
    of the channel's namespace. Our operator also gets the sink's kind, and asks the API server for its resource; a
    stock Metacontroller has only the guess.

    Args:
        settings: whether Knative has to be asked what it allows.
        stock: a stock Metacontroller asks.
    """
    found = [RelatedRule(SUBSCRIPTION_API, "subscriptions", concerning=True)]
    if settings is not None and not stock:
        found += _of_knative(parent, settings)
    ref = sink_ref(parent)
    if ref is not None and not has_no_address(ref):
        namespace = parent["metadata"]["namespace"]
        rule = RelatedRule(ref.api_version, plural(ref.kind))
        own = ref.namespace in ("", namespace)
        if not stock:
            # Where no namespace is named, our operator takes the objects of all namespaces.
            rule = replace(rule, kind=ref.kind, names=(ref.name,), namespace=namespace if own else "")
        elif not own:
            rule = replace(rule, names=(ref.name,))
        # A stock Metacontroller caches this answer under the channel's bare name, and refuses a rule that names another
        # namespace than the channel's. So the rule must do for every channel of that name: without names and namespace
        # it means all objects of the channel's own namespace.
        found.append(rule)
    return found


def may_begin_at_zero(
    related: Mapping[str, Any], setting: Literal["auto"] | bool, unseen: Collection[str] = ()
) -> bool | None:
    """Does Knative let a revision begin with no pod? If not, it refuses one that would. None: unknown.

    Args:
        setting: HEADRACE_ZERO_INITIAL_SCALE.
        unseen: from the hook's request: objects that were asked for by name and could not be looked for.
    """
    if isinstance(setting, bool):
        return setting
    told = config_map(related, SERVING, AUTOSCALER)
    if told is not None:
        return told.get(ALLOWED) in _TRUE
    # With a slow API server it may not have been listed yet.
    seen = "ConfigMap.v1" in related and f"ConfigMap.v1/{SERVING}/{AUTOSCALER}" not in unseen
    return False if seen else None


def flags(related: Mapping[str, Any], unseen: Collection[str] = ()) -> Flags | None:
    """Knative's flags, which are all at their defaults where there is no such ConfigMap. None: not known now."""
    told = config_map(related, EVENTING, FEATURES)
    if told is not None:
        return Flags.read(told)[0]
    # With a slow API server it may not have been listed yet.
    return Flags() if "ConfigMap.v1" in related and f"ConfigMap.v1/{EVENTING}/{FEATURES}" not in unseen else None


def config_map(related: Mapping[str, Any], namespace: str, name: str) -> Mapping[str, Any] | None:
    """The data of a ConfigMap; None when it was not observed."""
    for found in objects(related, "v1", "ConfigMap"):
        data, metadata = found.get("data"), found["metadata"]
        if (metadata.get("namespace"), metadata.get("name")) == (namespace, name) and isinstance(data, Mapping):
            return data
    return None


def _of_knative(parent: Mapping[str, Any], settings: FunctionsSettings) -> Iterator[RelatedRule]:
    """Knative's own settings: a stock Metacontroller can't be asked, since it fails on a kind that is not served."""
    if settings.image and settings.zero_initial_scale == "auto" and settings.runtime != "deployment":
        yield RelatedRule("v1", "configmaps", namespace=SERVING, names=(AUTOSCALER,))
    # These settings are reported, not obeyed: no channel waits for the right to see them.
    yield RelatedRule("v1", "configmaps", namespace=EVENTING, names=(FEATURES,), optional=True)
    # The authority of our own certificates, for the channels' addresses; the operator leaves the key out.
    yield RelatedRule("v1", "secrets", namespace=settings.system_namespace, names=(TLS_SECRET,), optional=True)
    namespace = parent["metadata"]["namespace"]
    yield RelatedRule(EVENT_POLICY_API, plural(EVENT_POLICY), namespace=namespace, optional=True)


def sink_ref(parent: Mapping[str, Any]) -> Ref | None:
    """The ref of `spec.delivery.deadLetterSink`, if it names an object; a broken one is reported elsewhere."""
    step: Any = parent
    for key in ("spec", "delivery", "deadLetterSink", "ref"):
        step = step.get(key) if isinstance(step, Mapping) else None
    try:
        ref = Ref.model_validate(step)
    except ValidationError:
        return None
    return ref if ref.api_version else None


def has_no_address(ref: Ref) -> bool:
    """Is its kind one whose objects never have an address? Each of these would have a watch of its own, for ever."""
    return ref.api_version == "v1" and ref.kind in ("ConfigMap", "Secret")


def plural(kind: str) -> str:
    """The resource of a kind as Kubernetes guesses it: services, policies, buses; the API server knows the real one."""
    word = kind.lower()
    if word.endswith("s"):
        return word + "es"
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + "s"


def objects(related: Mapping[str, Any], api_version: str, kind: str) -> Iterator[Mapping[str, Any]]:
    """All observed objects of a kind, in any namespace."""
    group = related.get(f"{kind}.{api_version}")
    for found in group.values() if isinstance(group, Mapping) else ():
        if isinstance(found, Mapping) and isinstance(found.get("metadata"), Mapping):
            yield found
