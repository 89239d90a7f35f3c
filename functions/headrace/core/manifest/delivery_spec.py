"""How a channel's events are delivered, as Knative's duck types write it: `spec.delivery` and `spec.subscribers`.

Knows shapes and bounds. `headrace.core.channel.consumer` makes of them what the server holds.
"""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from headrace.core.delivery.subscriber import LARGEST, MOST_RETRIES
from headrace.core.manifest.field_types import (
    ApiVersion,
    IsoSpan,
    KindName,
    Namespace,
    ResourceName,
    Texts,
    Timeout,
)
from headrace.core.manifest.field_words import refuse_bare_address
from headrace.core.manifest.part import Part, Rule

# Above all a password does not belong where it is stored in the clear; the rest of an address is
# `headrace.core.event.uri`'s.
_USERINFO = "^([A-Za-z][A-Za-z0-9+.-]*:)?//[^/?#]*@"


class Ref(Part):
    """An object that has the address."""

    api_version: ApiVersion = ""
    """Group and version of the object, like v1 or serving.knative.dev/v1."""
    kind: KindName
    """Kind of the object, like Service."""
    name: ResourceName
    """Name of the object."""
    namespace: Namespace = ""
    """Namespace of the object; the channel's own when it is not given."""
    group: str = ""
    """API group, in place of apiVersion, where Knative's feature kreference-group is on."""
    address: str = ""
    """Name of the address, where the object has several."""


class Sink(Part):
    """The place for events that could not be delivered: an address, an object that has one, or a path below that."""

    ref: Ref | None = None
    """The object that has the address."""
    uri: str | None = Field(None, max_length=4096)
    """The address; beside a ref, a path below the object's. http and https only, without user and password."""
    ca_certs: str | None = Field(None, alias="CACerts")
    """PEM certificates that the address is checked against, beside the system's."""
    audience: str | None = None
    """OIDC audience of the address: events come to it with a token of the subscriber's `auth`."""

    _object = model_validator(mode="before")(refuse_bare_address)

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "uri",
            f"!has(self.uri) || !self.uri.matches('{_USERINFO}')",
            lambda own: own.uri is None or not re.match(_USERINFO, own.uri),
            "it names a user or password, which everybody who sees the channel could read: take the part before '@' "
            "out",
        ),
    )


class DeliverySpec(Part):
    """How delivery is tried and what happens when it fails; Knative's DeliverySpec. Durations are ISO 8601."""

    dead_letter_sink: Sink | None = None
    """The address for events that could not be delivered. Without one they are parked, to be listed and replayed."""
    retry: int = Field(0, ge=0, le=MOST_RETRIES)
    """How often an event is tried again before it goes to the dead letter sink or is parked."""
    timeout: Timeout | None = None
    """How long one request may take, like PT10S; at most PT9M. PT60S when it is not given."""
    backoff_policy: Literal["linear", "exponential"] | None = None
    """How waits grow from try to try: linear is backoffDelay times 1, 2, 3; exponential, the default, times 1, 2, 4."""
    backoff_delay: IsoSpan | None = None
    """The wait before the first retry, like PT0.5S. PT0.2S when it is not given."""
    retry_after_max: IsoSpan | None = None
    """The longest wait that a Retry-After header may ask for; PT0S ignores the header. PT5M when it is not given."""
    format: Literal["json", "binary"] | None = None
    """How events go out: json, attributes and data in one JSON body, for receivers that read nothing else; binary, the
    default, attributes in headers, which costs less."""


class Auth(Part):
    """The identity that a Subscription sends tokens with."""

    service_account_name: str = ""
    """Service account of the Subscription."""
    service_account_names: Texts = ()
    """Service accounts, where there are several."""


class SubscriberEntry(Part):
    """One of `spec.subscribers`, as Knative's Subscription controller writes it.

    `annotations` are the Subscription's own, which that controller does not copy: whoever has both adds them. They
    are no field of the CRD.
    """

    annotations: dict[str, str] = {}
    name: str = ""
    """Name of the Subscription."""
    uid: str
    """The uid of the Subscription; the key of the list."""
    generation: int = Field(0, ge=-LARGEST, le=LARGEST)
    """Generation of the Subscription."""
    subscriber_uri: str | None = None
    """Where events go."""
    subscriber_ca_certs: str | None = Field(None, alias="subscriberCACerts")
    """PEM certificates that subscriberUri is checked against, beside the system's."""
    subscriber_audience: str | None = None
    """OIDC audience of subscriberUri: events come to it with a token of `auth`."""
    reply_uri: str | None = None
    """Where the events in the subscriber's answers go."""
    reply_ca_certs: str | None = Field(None, alias="replyCACerts")
    """PEM certificates that replyUri is checked against, beside the system's."""
    reply_audience: str | None = None
    """OIDC audience of replyUri: replies come to it with a token of `auth`."""
    delivery: DeliverySpec | None = None
    """The delivery rules of this subscriber, in place of the channel's."""
    auth: Auth | None = None
    """The identity of tokens for addresses with an audience; it has no effect where none has one. The Subscription
    has to name it in its status, too."""
