"""Channels of other kinds, and the Subscriptions that name them."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from headrace.core import duration, names
from headrace.core.errors import InvalidSpec
from headrace.core.quoting import quoted
from headrace_cli.convert import objects
from headrace_cli.convert.reading import Reading

REPLACED = ("NatssChannel", "NatsChannel", "InMemoryChannel", "KafkaChannel")
_REWIRE = "events that the old channel still holds are not moved: let it drain before its Subscriptions change"


def of_the_peer(reading: Reading) -> Iterator[dict[str, Any]]:
    """Works as it is; what the API server has added is left out."""
    spec = {key: value for key, value in reading.object("spec").items() if key != "subscribers"}
    reading.advise("works unchanged: apply it as it is, its stream and its consumers are taken over")
    reading.advise(
        f"producers that POST to http://{names.channel(reading.namespace, reading.name).label}.… need "
        "HEADRACE_HOST_URLS=true beside Knative Serving; those that read status.address need nothing"
    )
    yield objects.channel(reading.namespace, reading.name, spec, reading.metadata)


def of_another_kind(reading: Reading) -> Iterator[dict[str, Any]]:
    """A channel without storage of its own, or in NATS Streaming."""
    reading.advise(_REWIRE)
    delivery = reading.object("spec.delivery")
    spec = {"delivery": delivery} if delivery else {}
    yield objects.channel(reading.namespace, reading.name, spec, reading.metadata)


def of_kafka(reading: Reading) -> Iterator[dict[str, Any]]:
    """KafkaChannel: its retention becomes maxAge, its replication the replicas."""
    reading.advise(_REWIRE)
    config: dict[str, Any] = {}
    replicas = reading.number("spec.replicationFactor")
    if replicas is not None:
        config["replicas"] = min(replicas, 5)
        if replicas > config["replicas"]:
            reading.note(f"spec.replicationFactor is {replicas}: JetStream keeps 5 copies at most")
    if (kept := reading.text("spec.retentionDuration")) != "":
        try:
            age = duration.from_iso(kept, field="spec.retentionDuration")
        except InvalidSpec as error:
            raise reading.fault("spec.retentionDuration", f"is {quoted(kept)}: {error}") from None
        config["maxAge"] = f"{int(age.total_seconds())}s"
    if (partitions := reading.number("spec.numPartitions")) not in (None, 1):
        reading.note(
            f"spec.numPartitions is {partitions}: a stream has no partitions; for order within a key give the channel "
            "the annotation headrace.dev/delivery-order: by-key"
        )
    spec: dict[str, Any] = {"stream": {"config": config}} if config else {}
    if delivery := reading.object("spec.delivery"):
        spec["delivery"] = delivery
    yield objects.channel(reading.namespace, reading.name, spec, reading.metadata)


def subscription(reading: Reading) -> Iterator[dict[str, Any]]:
    """A Knative Subscription to a channel of another kind: a new one, since its channel can't be changed."""
    kind = reading.text("spec.channel.kind")
    if kind not in REPLACED:
        reading.note(f"its channel is a {kind or 'nothing'}: left as it is")
        return
    spec = copy.deepcopy(reading.object("spec"))
    spec["channel"] = {**objects.CHANNEL, "name": spec["channel"].get("name")}
    suffix = reading.shared.get("suffix", "")
    if not suffix:
        advice = "delete the old Subscription before, or convert with --suffix"
        reading.advise(f"spec.channel can't be changed on an object that exists: {advice}")
    name = objects.legal(reading.name + suffix)
    yield {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {**reading.metadata, "namespace": reading.namespace, "name": name},
        "spec": spec,
    }
