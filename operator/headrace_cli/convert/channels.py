"""Channels of other kinds, and the Subscriptions that name them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from headrace.core import duration, names
from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted
from headrace_cli.convert import objects
from headrace_cli.convert.foreign_object import ForeignObject

REPLACED = ("NatssChannel", "NatsChannel", "InMemoryChannel", "KafkaChannel")
_REWIRE = "events that the old channel still holds are not moved: let it drain before its Subscriptions change"


def of_the_peer(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """The Go channel's object, which works as it is; the members that the API server has added are left out."""
    spec = {key: value for key, value in foreign.object("spec").items() if key != "subscribers"}
    foreign.advise("works unchanged: apply it as it is, its stream and its consumers are taken over")
    foreign.advise(
        f"producers that POST to http://{names.channel(foreign.namespace, foreign.name).label}.… need "
        "HEADRACE_HOST_URLS=true beside Knative Serving; those that read status.address need nothing"
    )
    yield objects.channel(foreign.namespace, foreign.name, spec, foreign.metadata)


def of_another_kind(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """A channel without storage of its own, or in NATS Streaming."""
    foreign.advise(_REWIRE)
    delivery = foreign.object("spec.delivery")
    spec = {"delivery": delivery} if delivery else {}
    yield objects.channel(foreign.namespace, foreign.name, spec, foreign.metadata)


def of_kafka(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """KafkaChannel: its retention becomes maxAge, its replication the replicas."""
    foreign.advise(_REWIRE)
    config: dict[str, Any] = {}
    replicas = foreign.number("spec.replicationFactor")
    if replicas is not None:
        config["replicas"] = min(replicas, 5)
        if replicas > config["replicas"]:
            foreign.note(f"spec.replicationFactor is {replicas}: JetStream keeps 5 copies at most")
    if (kept := foreign.text("spec.retentionDuration")) != "":
        try:
            age = duration.from_iso(kept, field="spec.retentionDuration")
        except InvalidSpec as error:
            raise foreign.fault("spec.retentionDuration", f"is {quoted(kept)}: {error}") from None
        config["maxAge"] = f"{int(age.total_seconds())}s"
    if (partitions := foreign.number("spec.numPartitions")) not in (None, 1):
        foreign.note(
            f"spec.numPartitions is {partitions}: a stream has no partitions; for order within a key give the channel "
            "the annotation headrace.dev/delivery-order: by-key"
        )
    spec: dict[str, Any] = {"stream": {"config": config}} if config else {}
    if delivery := foreign.object("spec.delivery"):
        spec["delivery"] = delivery
    yield objects.channel(foreign.namespace, foreign.name, spec, foreign.metadata)


def subscription(foreign: ForeignObject) -> Iterator[dict[str, Any]]:
    """A Knative Subscription to a channel of another kind: a new one, since its channel can't be changed."""
    kind = foreign.text("spec.channel.kind")
    if kind not in REPLACED:
        foreign.note(f"its channel is a {kind or 'nothing'}: left as it is")
        return
    spec = copy.deepcopy(foreign.object("spec"))
    spec["channel"] = {**objects.CHANNEL, "name": spec["channel"].get("name")}
    suffix = foreign.shared.get("suffix", "")
    if not suffix:
        advice = "delete the old Subscription before, or convert with --suffix"
        foreign.advise(f"spec.channel can't be changed on an object that exists: {advice}")
    name = objects.legal(foreign.name + suffix)
    yield {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {**foreign.metadata, "namespace": foreign.namespace, "name": name},
        "spec": spec,
    }
