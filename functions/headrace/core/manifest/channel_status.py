"""The status of a channel, as the CRD describes it: the fields of Knative's duck types, and Headrace's own.

`headrace.core.channel.status` writes a status as plain JSON. Tests hold it against these models, and the CRD's schema
is generated from them: the API server would prune a field that is missing here. A status is read through `legible`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from headrace.core.delivery.subscriber import LARGEST
from headrace.core.manifest.delivery_spec import Auth
from headrace.core.manifest.part import Part


class ConditionStatus(Part):
    """One condition."""

    type: str
    """What it is about; Ready is the sum of all that are not of severity Info."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    severity: str = ""
    """Info: something to know of, and no reason not to be Ready."""
    reason: str = ""
    """Why, in one word for programs."""
    message: str = ""
    """Why, for people, and what to do about it."""
    last_transition_time: str = Field("", json_schema_extra={"format": "date-time"})
    """When the status last changed."""


class AddressStatus(Part):
    """Where the channel takes events."""

    name: str = ""
    """Name of the address: http or https."""
    url: str = ""
    """POST CloudEvents here."""
    ca_certs: str = Field("", alias="CACerts")
    """PEM certificates of the address."""
    audience: str = ""
    """OIDC audience of the address."""


class SubscriberStatus(Part):
    """What has become of one subscriber, as Knative's Subscription controller reads it."""

    uid: str
    """The uid of the Subscription."""
    observed_generation: int = 0
    """The generation of the Subscription that this is about."""
    ready: str = ""
    """True once every event from now on reaches the subscriber."""
    message: str = ""
    """Why not."""
    auth: Auth | None = None
    """Whose tokens it is served with."""


class ConsumerStatus(Part):
    """The JetStream consumer of one subscriber."""

    uid: str
    """The uid of the Subscription."""
    name: str = ""
    """Name of the Subscription."""
    durable: str = ""
    """Name of the consumer in the stream."""
    forward: str = ""
    """URL of the function that delivers for it; empty when the installation has one for all."""
    pulls: bool = False
    """That function pulls by itself, without end: nobody needs to open leases there."""
    lag: int = 0
    """How many events the subscriber has not settled, those included that wait for a retry; two digits count."""
    pending: int = 0
    """How many of them were never delivered."""
    redelivered: int = 0
    """How many of them were delivered more than once."""
    parked: int = 0
    """How many events are kept aside for it; not given where the channel has more than 10000 of them."""


class PolicyStatus(Part):
    """An EventPolicy that applies to the channel."""

    api_version: str
    """Its group and version."""
    name: str
    """Its name."""


class ChannelStatus(Part):
    """What is so of the channel."""

    observed_generation: int = 0
    """The generation of the channel that the status is about."""
    conditions: Annotated[tuple[ConditionStatus, ...], Field(strict=False)] = ()
    """Ready, and what it is made of."""
    annotations: dict[str, str] = {}
    """What Knative's controllers want remembered."""
    address: AddressStatus | None = None
    addresses: Annotated[tuple[AddressStatus, ...], Field(strict=False)] = ()
    """The https one, with CACerts, then the http one, if that is taken; none where transport-encryption is disabled."""
    dead_letter_sink_uri: str = ""
    """The resolved address of spec.delivery.deadLetterSink."""
    dead_letter_sink_ca_certs: str = Field("", alias="deadLetterSinkCACerts")
    """PEM certificates of the dead letter sink."""
    dead_letter_sink_audience: str = ""
    """OIDC audience of the dead letter sink."""
    policies: Annotated[tuple[PolicyStatus, ...], Field(strict=False)] = ()
    """EventPolicies that apply to the channel."""
    subscribers: Annotated[tuple[SubscriberStatus, ...], Field(strict=False)] = ()
    """What has become of each of spec.subscribers."""
    ready_subscribers: str = ""
    """How many subscribers are ready, and of how many, as 2/3."""
    receive: str = ""
    """The Knative Service that takes the channel's events, as namespace/name."""
    stream: str = ""
    """Name of the JetStream stream."""
    connection: str = ""
    """Whose credentials lead to it, where those are not the installation's: a Secret's, or the namespace's."""
    stream_created: str = ""
    """When that stream was made, as NATS has it; given with connection."""
    elsewhere: bool = False
    """The stream is in a NATS account that the operator does not see: nobody opens leases, all functions pull."""
    consumers: Annotated[tuple[ConsumerStatus, ...], Field(strict=False)] = ()
    """The JetStream consumers of the subscribers."""
    counted_at: str = Field("", json_schema_extra={"format": "date-time"})
    """When the numbers of the consumers last changed."""


_FIELDS = {str(field.alias): field for field in ChannelStatus.model_fields.values()}


def legible(found: object) -> dict[str, Any]:
    """The earlier status of a channel, without the parts that are not of this form.

    All of it is our own writing and is written anew with each call: so a damaged part counts as never written, each row
    of a list by itself, and nobody has to mend it.
    """
    known = found.items() if isinstance(found, Mapping) else ()
    return dict(_legible((name, _without_null(value)) for name, value in known if name in _FIELDS))


def _legible(members: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    for name, value in members:
        if isinstance(value, list) and _fits(name, []):
            yield name, [row for row in map(_without_null, value) if _fits(name, [row])]
        elif value is not None and value != "" and _fits(name, value):
            yield name, value


def _without_null(value: Any) -> Any:
    return {key: one for key, one in value.items() if one is not None} if isinstance(value, dict) else value


def _fits(name: str, value: Any) -> bool:
    try:
        ChannelStatus.model_validate({name: value})
    except ValidationError:
        return False
    return _countable(value)


def _countable(value: Any) -> bool:
    """Is each number in it one that the API server could have given?"""
    match value:
        case dict():
            return all(map(_countable, value.values()))
        case list():
            return all(map(_countable, value))
        case int():
            return abs(value) <= LARGEST
    return True
