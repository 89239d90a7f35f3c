"""A NatsJetStreamChannel as its author wrote it: all that says something of streams, consumers and delivery.

Knows the shape, the types and the enums of the manifest, and names the first fault by its path. Does not know what the
fields mean to NATS: that is `headrace.core.stream` and `headrace.core.consumer`. Unknown fields are ignored, as a newer
CRD may have them; known ones are typed strictly, and null means absent, as in Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from headrace.core.errors import InvalidSpec
from headrace.core.field_types import (
    GoSpan,
    IsoSpan,
    Limit,
    Limit32,
    Moment,
    Percentage,
    Sequence,
    Texts,
    Timeout,
    path_of,
    sentence,
)
from headrace.core.subscriber import LARGEST, MOST_RETRIES

LAG_THRESHOLD = "headrace.dev/lag-threshold"
MAX_SCALE = "headrace.dev/max-scale"
RETAIN = "headrace.dev/retain"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True, extra="ignore", alias_generator=to_camel)

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, data: Any) -> Any:
        return {key: value for key, value in data.items() if value is not None} if isinstance(data, dict) else data


class Metadata(_Model):
    name: str
    namespace: str
    uid: str = ""
    generation: int = 0
    annotations: dict[str, str] = {}


class Sink(_Model):
    """A dead letter sink; `ref` can be resolved inside Kubernetes only."""

    ref: dict[str, Any] | None = None
    uri: str | None = None
    ca_certs: str | None = Field(None, alias="CACerts")
    audience: str | None = None


class Delivery(_Model):
    dead_letter_sink: Sink | None = None
    retry: int = Field(0, ge=0, le=MOST_RETRIES)
    timeout: Timeout | None = None
    backoff_policy: Literal["linear", "exponential"] | None = None
    backoff_delay: IsoSpan | None = None
    retry_after_max: IsoSpan | None = None
    format: Literal["json", "binary"] | None = None


class Entry(_Model):
    """One of `spec.subscribers`, as Knative's Subscription controller writes it.

    `annotations` are the Subscription's own, which that controller does not copy: whoever has both adds them.
    """

    annotations: dict[str, str] = {}
    name: str = ""
    uid: str
    generation: int = Field(0, ge=-LARGEST, le=LARGEST)
    subscriber_uri: str | None = None
    subscriber_ca_certs: str | None = Field(None, alias="subscriberCACerts")
    subscriber_audience: str | None = None
    reply_uri: str | None = None
    reply_ca_certs: str | None = Field(None, alias="replyCACerts")
    reply_audience: str | None = None
    delivery: Delivery | None = None
    auth: dict[str, Any] | None = None


class Origin(_Model):
    """A stream to mirror or to source from."""

    name: str
    opt_start_seq: Sequence = 0
    opt_start_time: Moment | None = None
    filter_subject: str = ""


class Placement(_Model):
    cluster: str = ""
    tags: Texts = ()


class StreamConfig(_Model):
    additional_subjects: Texts = ()
    retention: Literal["Limits", "Interest", "Work"] = "Limits"
    max_consumers: Limit32 = 0
    max_msgs: Limit = 0
    max_bytes: Limit = 0
    discard: Literal["Old", "New"] = "Old"
    max_age: GoSpan = timedelta()
    max_msg_size: Limit32 = 0
    storage: Literal["File", "Memory"] = "File"
    replicas: int = Field(0, ge=0)
    no_ack: bool = False
    duplicate_window: GoSpan = timedelta()
    placement: Placement | None = None
    mirror: Origin | None = None
    sources: Annotated[tuple[Origin, ...], Field(strict=False)] = ()


class Stream(_Model):
    override_name: str = ""
    config: StreamConfig = StreamConfig()


class ConsumerTemplate(_Model):
    """`ackWait`, `maxDeliver`, `consumerType` and `fetch…` are the peer's: read, never obeyed (ADR 011)."""

    deliver_policy: Literal["All", "Last", "New", "ByStartSequence", "ByStartTime"] = "All"
    opt_start_seq: Sequence = 0
    opt_start_time: Moment | None = None
    ack_wait: GoSpan | None = None
    max_deliver: int | None = None
    filter_subject: str = ""
    replay_policy: Literal["Instant", "Original"] = "Instant"
    rate_limit_bps: int = Field(0, ge=0, le=LARGEST, alias="rateLimitBPS")
    sample_frequency: Percentage = ""
    max_ack_pending: Limit32 = 0
    consumer_type: Literal["Push", "Pull"] | None = None
    fetch_max_wait: GoSpan | None = None
    fetch_batch_size: int | None = Field(None, ge=1)


class Spec(_Model):
    """`subscribers` stay raw: each is parsed for itself, so that a broken one does not stop the others."""

    subscribers: tuple[Any, ...] = Field((), strict=False)
    delivery: Delivery | None = None
    stream: Stream = Stream()
    consumer_config_template: ConsumerTemplate = ConsumerTemplate()


class Manifest(_Model):
    metadata: Metadata
    spec: Spec = Spec()


class _IdentityStream(_Model):
    override_name: str = ""


class _IdentitySpec(_Model):
    stream: _IdentityStream = _IdentityStream()


class Identity(_Model):
    """The little that must be right for a channel to be taken down."""

    metadata: Metadata
    spec: _IdentitySpec = _IdentitySpec()


Parsed = TypeVar("Parsed", bound=BaseModel)


def parse(parent: Mapping[str, Any]) -> Manifest:
    """Read a whole channel, but for its subscribers.

    Raises:
        InvalidSpec: naming the first wrong field, as in `spec.stream.config.retention`.
    """
    return _parsed(Manifest, parent, "")


def parse_identity(parent: Mapping[str, Any]) -> Identity:
    """Read a channel that goes: whatever else is wrong with it must not keep it.

    Raises:
        InvalidSpec: metadata or overrideName are not what they should be.
    """
    return _parsed(Identity, parent, "")


def parse_entry(raw: object, index: int) -> Entry:
    """Read one subscriber.

    Raises:
        InvalidSpec: naming the first wrong field, as in `spec.subscribers[0].delivery.retry`.
    """
    return _parsed(Entry, raw, f"spec.subscribers[{index}]")


def _parsed(model: type[Parsed], raw: object, path: str) -> Parsed:
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    field = path_of(path, first["loc"])
    raise InvalidSpec(sentence(field, first), field=field)
