"""One subscriber of a channel, as its consumer's metadata carries it.

`reconcile` writes the metadata, `forward` and the scaler read it: the consumer is the one source of truth about a
delivery. Knows the JSON form and its rules; knows neither NATS nor manifests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache

from headrace.core import duration, names
from headrace.core.delivery import placement_spec
from headrace.core.delivery.order_spec import DEFAULT_KEY, DeliveryOrder, OrderSpec
from headrace.core.delivery.placement_spec import PlacementSpec
from headrace.core.delivery.scale_spec import Wake
from headrace.core.errors import InvalidSpec
from headrace.core.event.uri import checked_uri as checked_uri
from headrace.core.quoting import quoted

METADATA_KEY = "headrace.dev/subscriber"
"""The consumer metadata key that holds `Subscriber.to_json`; a consumer without it is not ours."""

# Knative says nothing of a default timeout; without one a hanging subscriber would hold its slot for ever.
DEFAULT_TIMEOUT = timedelta(seconds=60)
DEFAULT_BACKOFF_DELAY = timedelta(milliseconds=200)
# A scaled-to-zero forward must outlive one delivery: timeoutSeconds of its Service is 30 s + this.
LONGEST_TIMEOUT = timedelta(minutes=9)
LONGEST_BACKOFF = timedelta(hours=24)
DEFAULT_RETRY_AFTER_MAX = timedelta(minutes=5)
# Knative sets no limit; more than this is a typo, and would overflow a time span.
MOST_RETRIES = 1_000_000
# Go, and so Kubernetes and NATS, have integers of 64 bits.
LARGEST = 2**63 - 1

_NO_STREAM = re.compile(r"[\s.*>/\\]")


class BackoffPolicy(StrEnum):
    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class SubscriberState(StrEnum):
    """READY is delivered to; GONE keeps its position until the grace has passed; REFUSED cannot be delivered to."""

    READY = "ready"
    GONE = "gone"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Destination:
    """Where events are POSTed: subscriber, reply or dead letter sink."""

    uri: str
    ca_certs: str | None = None
    audience: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryPolicy:
    """How often and how patiently one stage of a delivery is tried.

    Attributes:
        retry: tries after the first, from 0.
        backoff_policy, backoff_delay: wait before the k-th retry: delay x k, or delay x 2^(k-1).
        timeout: of one HTTP request.
        retry_after_max: cap on a 429 or 503 answer's Retry-After; zero ignores the header.
    """

    retry: int = 0
    backoff_policy: BackoffPolicy = BackoffPolicy.EXPONENTIAL
    backoff_delay: timedelta = DEFAULT_BACKOFF_DELAY
    timeout: timedelta = DEFAULT_TIMEOUT
    retry_after_max: timedelta = DEFAULT_RETRY_AFTER_MAX

    def wait(self, failures: int) -> timedelta:
        """The back-off before the next try, after that many failed ones (from 1), at most a day."""
        # 2**40 * 1 ns is already 18 minutes; the exponent is capped so that no retry count overflows a timedelta.
        factor = failures if self.backoff_policy is BackoffPolicy.LINEAR else 2 ** min(failures - 1, 40)
        seconds = self.backoff_delay.total_seconds() * factor
        return min(LONGEST_BACKOFF, timedelta(seconds=min(seconds, LONGEST_BACKOFF.total_seconds())))

    @property
    def longest_wait(self) -> timedelta:
        """The longest back-off that this policy ever asks for."""
        return self.wait(max(self.retry, 1))


@dataclass(frozen=True, slots=True)
class Subscriber:
    """Everything that `forward` needs to serve one consumer.

    Attributes:
        namespace, channel: of the NatsJetStreamChannel (its full name, not the label).
        name, uid, generation: of the Subscription; uid is the current one, the durable keeps the first.
        subscription_namespace: of the Subscription; differs from `namespace` with cross-namespace links.
        aside: the stream that holds stage records and parked events.
        rate_limit_bps: bits per second over all leases of this consumer; 0 is unlimited (ADR 012).
        lag_threshold, max_scale: one lease for each so many deliverable events, at most so many leases.
        wake: when the first of them is opened; None: as early as the event's channel is known.
        order: in which its events are delivered.
        placement: where and how its `forward` runs.
        service_account: of the Subscription's namespace: as which its events come to addresses with an audience;
            empty where no address has one.
        structured: its events go out as JSON, attributes and data in one body (`delivery.format: json`).
        error_data: may what is answered, beside its status, go into dead letters, parked events, records and logs?
        reason: why the state is not READY, for people.
        gone_since: RFC 3339, when the entry vanished; only with GONE.
    """

    namespace: str
    channel: str
    name: str
    uid: str
    generation: int
    aside: str
    subscription_namespace: str = ""
    subscriber: Destination | None = None
    reply: Destination | None = None
    dead_letter: Destination | None = None
    policy: DeliveryPolicy = field(default_factory=DeliveryPolicy)
    rate_limit_bps: int = 0
    lag_threshold: int = 1000
    max_scale: int = 4
    wake: Wake | None = None
    order: OrderSpec = field(default_factory=OrderSpec)
    placement: PlacementSpec = field(default_factory=PlacementSpec)
    service_account: str = ""
    structured: bool = False
    error_data: bool = True
    state: SubscriberState = SubscriberState.READY
    reason: str = ""
    gone_since: str | None = None

    def to_json(self) -> str:
        """One compact JSON value with sorted keys, so that equal subscribers give equal metadata."""
        body: dict[str, object] = {
            "v": 1,
            "namespace": self.namespace,
            "channel": self.channel,
            "name": self.name,
            "uid": self.uid,
            "generation": self.generation,
            "aside": self.aside,
            "subscriptionNamespace": self.subscription_namespace or self.namespace,
            "policy": _policy_to_json(self.policy),
            "rateLimitBPS": self.rate_limit_bps,
            "lagThreshold": self.lag_threshold,
            "maxScale": self.max_scale,
            "state": str(self.state),
            **self.placement.to_json(),
        }
        addresses = {"subscriber": self.subscriber, "reply": self.reply, "deadLetter": self.dead_letter}
        body |= {key: _destination_to_json(to) for key, to in addresses.items() if to is not None}
        if self.wake is not None:
            body["wake"] = str(self.wake)
        if self.order.kind is not DeliveryOrder.UNORDERED:
            body["deliveryOrder"] = str(self.order.kind)
        if self.order.kind is DeliveryOrder.BY_KEY:
            body["orderKey"] = self.order.key
        if self.service_account:
            body["serviceAccount"] = self.service_account
        if self.structured:
            body["format"] = "json"
        if not self.error_data:
            body["errorData"] = False
        if self.reason:
            body["reason"] = self.reason
        if self.gone_since:
            body["goneSince"] = self.gone_since
        return json.dumps(body, sort_keys=True, separators=(",", ":"))

    @property
    def most_leases(self) -> int:
        """How many leases may be open at once: `max_scale`, but one where there is an order to keep."""
        return 1 if self.order.one_lease else self.max_scale

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences for which it needs tokens, each once."""
        addresses = (self.subscriber, self.reply, self.dead_letter)
        return tuple(dict.fromkeys(to.audience for to in addresses if to is not None and to.audience))

    @property
    def full_name(self) -> str:
        """Its Subscription, as `namespace/name`."""
        return f"{self.subscription_namespace or self.namespace}/{self.name}"

    @property
    def names(self) -> names.Channel:
        """The channel's subjects."""
        return names.channel(self.namespace, self.channel)


def from_metadata(metadata: Mapping[str, str] | None) -> Subscriber | None:
    """Read a consumer's metadata; None when the consumer does not carry our mark.

    Raises:
        InvalidSpec: our mark is there but its value was damaged by hand.
    """
    text = (metadata or {}).get(METADATA_KEY)
    return None if text is None else from_json(text)


@lru_cache(maxsize=1024)
def from_json(text: str) -> Subscriber:
    """The inverse of `Subscriber.to_json`; a scaler reads the same texts every few seconds.

    Raises:
        InvalidSpec: naming the damaged field.
    """
    try:
        body = json.loads(text)
        namespace, channel = _text(body, "namespace"), _text(body, "channel")
        names.channel(namespace, channel)
        return Subscriber(
            namespace=namespace,
            channel=channel,
            name=_text(body, "name"),
            uid=_text(body, "uid"),
            generation=_whole(body, "generation"),
            aside=_stream(body, "aside"),
            subscription_namespace=_text(body, "subscriptionNamespace"),
            subscriber=_destination_from_json(body, "subscriber"),
            reply=_destination_from_json(body, "reply"),
            dead_letter=_destination_from_json(body, "deadLetter"),
            policy=_policy_from_json(body["policy"]),
            rate_limit_bps=max(0, _whole(body, "rateLimitBPS")),
            lag_threshold=max(1, _whole(body, "lagThreshold")),
            max_scale=max(1, _whole(body, "maxScale")),
            wake=Wake(str(body["wake"])) if "wake" in body else None,
            order=OrderSpec(
                DeliveryOrder(body.get("deliveryOrder", DeliveryOrder.UNORDERED)),
                _text({"orderKey": DEFAULT_KEY, **body}, "orderKey"),
            ),
            placement=placement_spec.from_json(body),
            service_account=_text({"serviceAccount": "", **body}, "serviceAccount"),
            structured=body.get("format") == "json",
            error_data=body.get("errorData", True) is True,
            state=SubscriberState(body["state"]),
            reason=_text({"reason": "", **body}, "reason"),
            gone_since=_optional_text(body, "goneSince"),
        )
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, InvalidSpec) as error:
        cure = "reconcile the channel again to mend it"
        raise InvalidSpec(
            f"the consumer's metadata {quoted(METADATA_KEY)} is damaged ({error!r:.300}): {cure}", field=METADATA_KEY
        ) from error


def _text(body: Mapping[str, object], key: str) -> str:
    value = body[key]
    if not isinstance(value, str):
        raise TypeError(f"{key} is not text")
    return value


def _optional_text(body: Mapping[str, object], key: str) -> str | None:
    # An empty text stands for none.
    return None if body.get(key) is None else _text(body, key) or None


def _stream(body: Mapping[str, object], key: str) -> str:
    name = _text(body, key)
    if _NO_STREAM.search(name) or not name.isprintable():
        raise TypeError(f"{key} can't be the name of a stream")
    return name


def _whole(body: Mapping[str, object], key: str, most: int = LARGEST) -> int:
    value = body[key]
    if type(value) is not int or not -LARGEST <= value <= most:
        raise TypeError(f"{key} is not a whole number of at most {most}")
    return value


def _destination_to_json(destination: Destination) -> dict[str, str]:
    body = {"uri": destination.uri}
    if destination.ca_certs:
        body["CACerts"] = destination.ca_certs
    if destination.audience:
        body["audience"] = destination.audience
    return body


def _destination_from_json(body: Mapping[str, object], key: str) -> Destination | None:
    value = body.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise TypeError(f"{key} is not an object")
    return Destination(
        uri=checked_uri(_text(value, "uri"), field=f"{key}.uri"),
        ca_certs=_optional_text(value, "CACerts"),
        audience=_optional_text(value, "audience"),
    )


def _policy_to_json(policy: DeliveryPolicy) -> dict[str, object]:
    return {
        "retry": policy.retry,
        "backoffPolicy": str(policy.backoff_policy),
        "backoffDelay": duration.to_iso(policy.backoff_delay),
        "timeout": duration.to_iso(policy.timeout),
        "retryAfterMax": duration.to_iso(policy.retry_after_max),
    }


def _policy_from_json(body: Mapping[str, object]) -> DeliveryPolicy:
    return DeliveryPolicy(
        retry=max(0, _whole(body, "retry", MOST_RETRIES)),
        backoff_policy=BackoffPolicy(_text(body, "backoffPolicy")),
        backoff_delay=duration.from_iso(_text(body, "backoffDelay"), field="policy.backoffDelay"),
        timeout=duration.from_iso(_text(body, "timeout"), field="policy.timeout"),
        retry_after_max=duration.from_iso(_text(body, "retryAfterMax"), field="policy.retryAfterMax"),
    )
