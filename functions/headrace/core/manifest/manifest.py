"""A NatsJetStreamChannel as its author wrote it: every field that concerns streams, consumers and delivery.

Knows the shape, the types and the enums of the manifest, and names the first fault by its path. Does not know what the
fields mean to NATS: that is `headrace.core.channel.stream_config` and `headrace.core.channel.consumer`. Unknown fields
are ignored, as a newer CRD may have them; known ones are typed strictly. The CRD is generated from these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, Field, ValidationError

from headrace.core.errors import InvalidSpec
from headrace.core.manifest.connection_spec import ConnectionSpec
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.manifest.delivery_spec import DeliverySpec, SubscriberEntry
from headrace.core.manifest.field_words import path_of, sentence
from headrace.core.manifest.part import RULE, Part, Rule
from headrace.core.manifest.pod_template import PodTemplate
from headrace.core.manifest.stream_spec import StreamSpec

RETAIN = "headrace.dev/retain"


class Metadata(Part):
    name: str
    namespace: str
    uid: str = ""
    annotations: dict[str, str] = {}


class Spec(Part):
    """What the author wants of the channel.

    `subscribers` stay raw: each is parsed for itself, so that a broken one does not stop the others.
    """

    subscribers: tuple[Any, ...] = Field((), strict=False)
    """Who gets the events. Written by Knative's Subscription controller: make Subscriptions instead."""
    delivery: DeliverySpec | None = None
    """The delivery rules of all subscribers that have none of their own."""
    stream: StreamSpec = StreamSpec()
    consumer_config_template: ConsumerTemplate = ConsumerTemplate()
    deployment_spec_template: PodTemplate | None = None
    connection: ConnectionSpec | None = None

    rules: ClassVar = (
        Rule(
            "stream.config.allowMsgSchedules",
            "!has(self.stream.config.allowMsgSchedules) || !self.stream.config.allowMsgSchedules"
            " || (has(self.consumerConfigTemplate.filterSubject) && self.consumerConfigTemplate.filterSubject != '')"
            " || (has(self.consumerConfigTemplate.filterSubjects)"
            " && size(self.consumerConfigTemplate.filterSubjects) > 0)",
            lambda own: not own.stream.config.allow_msg_schedules or bool(own.consumer_config_template.subjects),
            "schedules themselves would be delivered, too: give consumerConfigTemplate.filterSubject, or take it out",
        ),
        Rule(
            "consumerConfigTemplate.maxAckPending",
            "!has(self.stream.config.consumerLimits) || !has(self.stream.config.consumerLimits.maxAckPending)"
            " || self.stream.config.consumerLimits.maxAckPending <= 0"
            " || (has(self.consumerConfigTemplate.maxAckPending) && self.consumerConfigTemplate.maxAckPending > 0"
            " && self.consumerConfigTemplate.maxAckPending <= self.stream.config.consumerLimits.maxAckPending)",
            lambda own: _within_limits(own),
            "stream.config.consumerLimits.maxAckPending is the most that NATS takes: make it 1 to that",
        ),
    )


def _within_limits(spec: Spec) -> bool:
    limits = spec.stream.config.consumer_limits
    most = limits.max_ack_pending if limits else 0
    return most <= 0 or 0 < spec.consumer_config_template.max_ack_pending <= most


class Manifest(Part):
    metadata: Metadata
    spec: Spec = Spec()


class _IdentityStream(Part):
    override_name: str = ""


class _IdentitySpec(Part):
    stream: _IdentityStream = _IdentityStream()


class Identity(Part):
    """The little that must be right for a channel to be taken down."""

    metadata: Metadata
    spec: _IdentitySpec = _IdentitySpec()


Parsed = TypeVar("Parsed", bound=BaseModel)


def parse(parent: Mapping[str, Any]) -> Manifest:
    """Read a whole channel, except for its subscribers.

    Raises:
        InvalidSpec: naming the first wrong field, as in `spec.stream.config.retention`.
    """
    return _parsed(Manifest, parent, "")


def parse_identity(parent: Mapping[str, Any]) -> Identity:
    """Read a channel that is being deleted: no other fault in it must keep it.

    Raises:
        InvalidSpec: metadata or overrideName are not what they should be.
    """
    return _parsed(Identity, parent, "")


def parse_entry(raw: object, index: int) -> SubscriberEntry:
    """Read one subscriber.

    Raises:
        InvalidSpec: naming the first wrong field, as in `spec.subscribers[0].delivery.retry`.
    """
    return _parsed(SubscriberEntry, raw, f"spec.subscribers[{index}]")


def _parsed(model: type[Parsed], raw: object, path: str) -> Parsed:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    # A rule belongs to a part, and itself tells the field to blame.
    location = (*first["loc"], first["ctx"]["field"]) if first["type"] == RULE else first["loc"]
    field = path_of(path, location)
    raise InvalidSpec(sentence(field, first), field=field)
