"""Kyma Eventing: its Subscriptions become Triggers, its one stream the channel of a Broker.

Source of the shapes: Kyma's CRDs eventing.kyma-project.io/v1alpha2 and operator.kyma-project.io/v1alpha1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from headrace.core.quoting import quoted
from headrace_cli.convert import objects
from headrace_cli.convert.foreign_object import ForeignObject

BROKER = "kyma"
# Kyma tries 100 times, 30 s apart, and then drops the event. Knative's back-off grows, and we park the event.
_DELIVERY = {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT2S"}
_STORAGE = {"File": "File", "Memory": "Memory"}


def subscription(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """One Trigger per Subscription, to a Broker of its namespace."""
    namespace, name = foreign.namespace, foreign.name
    sink = foreign.text("spec.sink")
    if not sink:
        raise foreign.fault("spec.sink", "is missing: it says where events go")
    types = foreign.value("spec.types")
    if not isinstance(types, list) or not types or not all(isinstance(each, str) and each for each in types):
        raise foreign.fault("spec.types", f"is {quoted(types)}: give a list of event types")
    filters = [objects.one_of("type", types)]
    if source := foreign.text("spec.source"):
        filters.insert(0, {"exact": {"source": source}})
    if foreign.text("spec.typeMatching") == "standard":
        foreign.note(
            "typeMatching standard: types are compared as producers write them, nothing is cleaned out of them"
        )
    if (in_flight := foreign.number("spec.config.maxInFlightMessages")) is not None:
        foreign.note(
            f"maxInFlightMessages is {in_flight}: leases bound what is in flight; to bound it harder, give the "
            "channel's consumerConfigTemplate a maxAckPending"
        )
    foreign.advise(
        "Kyma tries 100 times, 30 s apart, and drops the event; this tries 11 times with growing pauses, and then "
        "parks it, unless you give the Trigger a dead letter sink"
    )
    yield from objects.broker(namespace, BROKER, foreign.shared.get("kyma", {}))
    yield objects.trigger(namespace, name, BROKER, sink, filters, _DELIVERY)


def eventing(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """The settings of Kyma's stream, for the channels of the Brokers that its Subscriptions get."""
    backend = foreign.text("spec.backend.type")
    if backend and backend != "NATS":
        foreign.note(f"spec.backend.type is {quoted(backend)}: only a NATS backend has a stream to convert")
        return iter(())
    at = "spec.backend.config"
    config: dict[str, Any] = {"retention": "Interest", "discard": "New"}
    storage = foreign.text(f"{at}.natsStreamStorageType") or "File"
    if storage not in _STORAGE:
        raise foreign.fault(f"{at}.natsStreamStorageType", f"is {quoted(storage)}: give File or Memory")
    config["storage"] = _STORAGE[storage]
    replicas = foreign.number(f"{at}.natsStreamReplicas")
    config["replicas"] = 3 if replicas is None else replicas
    if size := foreign.value(f"{at}.natsStreamMaxSize"):
        config["maxBytes"] = _quantity(foreign, f"{at}.natsStreamMaxSize", size)
    if (most := foreign.number(f"{at}.natsMaxMsgsPerTopic")) is not None:
        config["maxMsgs"] = most
        foreign.note("natsMaxMsgsPerTopic counts for each type there; all events of a channel share maxMsgs here")
    if prefix := foreign.text(f"{at}.eventTypePrefix"):
        foreign.advise(
            f"eventTypePrefix {quoted(prefix)} is not needed: producers send plain types to the Broker's address"
        )
    # Kyma has one stream for the cluster; here each namespace with Subscriptions gets such a Broker.
    foreign.shared["kyma"] = {"stream": {"config": config}}
    return iter(())


_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def _quantity(foreign: ForeignObject, path: str, value: object) -> int:
    text = str(value)
    digits = text.rstrip("KMGTki")
    unit = text[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS:
        raise foreign.fault(path, f"is {quoted(text)}: give a quantity of bytes, as 700Mi")
    return int(digits) * _UNITS[unit]
