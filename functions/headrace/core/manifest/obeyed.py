"""Fields of a channel that are accepted and not obeyed, so that manifests of the Go channel work unchanged.

A condition of severity Info tells an author who sets one: which field, its value, and what happens instead. The CRD's
description of the field has the same words; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headrace.core.conditions import Condition
from headrace.core.quoting import quoted

TYPE = "TemplateObeyed"


@dataclass(frozen=True, slots=True)
class Ignored:
    """One such field.

    Attributes:
        path: the field's path below the channel.
        instead: what happens in its place.
        harmless: the value that asks for what happens anyhow.
    """

    path: str
    instead: str
    harmless: str = ""


FIELDS = (
    Ignored("spec.stream.config.template", "NATS has no stream templates any more"),
    Ignored(
        "spec.consumerConfigTemplate.ackWait",
        "Headrace's own acknowledgement wait is 8s, and delivery.timeout is exact",
    ),
    Ignored("spec.consumerConfigTemplate.maxDeliver", "how often an event is tried is delivery.retry's alone"),
    Ignored("spec.consumerConfigTemplate.consumerType", "Headrace pulls", harmless="Pull"),
    Ignored(
        "spec.consumerConfigTemplate.fetchMaxWait", "a lease has one pull open at a time, for as long as it lingers"
    ),
    Ignored("spec.consumerConfigTemplate.fetchBatchSize", "Headrace asks for what the subscriber can take at once"),
    Ignored(
        "spec.consumerConfigTemplate.idleHeartbeat",
        "a pull that the server has not ended a second after its time is sent anew",
    ),
)


# The proposal's page of fields and Go's zero values have these where nothing is meant.
NOT_GIVEN = (None, "", 0, "0", "0s")


def condition(parent: Mapping[str, Any]) -> Condition:
    """Whether everything that the author has set is obeyed."""
    found = [(field, value) for field in FIELDS if (value := _value(parent, field.path)) not in NOT_GIVEN]
    ignored = [
        f"{field.path} is {quoted(str(value))}: {field.instead}" for field, value in found if value != field.harmless
    ]
    if not ignored:
        return Condition(TYPE, True)
    return Condition(TYPE, False, "FieldsNotObeyed", "; ".join(ignored), informative=True)


def _value(parent: Mapping[str, Any], path: str) -> Any:
    value: Any = parent
    for step in path.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value
