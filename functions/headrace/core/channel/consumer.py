"""From an entry of `spec.subscribers` to the consumer that serves it: its metadata and its configuration.

Knows Knative's delivery rules as far as they are read from a manifest, and the consumer keys of the JetStream API.
Does not know what exists. An entry that can't be delivered to is not an error here: it gets its consumer, so that its
position is kept, with the state REFUSED and the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from headrace.core import names
from headrace.core.channel import identities
from headrace.core.channel.dead_letter import Resolution, Unresolved
from headrace.core.channel.stream_config import nanoseconds
from headrace.core.channel.truth import Subscription, Truth
from headrace.core.delivery import order_spec, placement_spec, scale_spec
from headrace.core.delivery.order_spec import OrderSpec
from headrace.core.delivery.placement_spec import PlacementSpec
from headrace.core.delivery.scale_spec import ScaleSpec
from headrace.core.delivery.subscriber import (
    DEFAULT_BACKOFF_DELAY,
    DEFAULT_RETRY_AFTER_MAX,
    DEFAULT_TIMEOUT,
    LARGEST,
    METADATA_KEY,
    BackoffPolicy,
    DeliveryPolicy,
    Destination,
    Subscriber,
    SubscriberState,
)
from headrace.core.errors import InvalidSpec
from headrace.core.event.uri import checked_uri
from headrace.core.installation.function_bounds import MOST_SCALE, opens
from headrace.core.manifest import own_address
from headrace.core.manifest.consumer_spec import ConsumerTemplate
from headrace.core.manifest.delivery_spec import DeliverySpec, SubscriberEntry
from headrace.core.manifest.manifest import Manifest, parse_entry
from headrace.core.manifest.own_address import OwnAddress
from headrace.core.nats.jetstream import ACK_WAIT
from headrace.core.nats.stream import CHANNEL_KEY, NAMESPACE_KEY
from headrace.core.quoting import quoted

SUBSCRIPTION_KEY = "headrace.dev/subscription"

# A delayed NAK holds a slot: the server's own 1,000 would stall a consumer whose subscriber is down.
MAX_ACK_PENDING = 10_000

# The consumer's view of its stream; the server keeps one subject under one key and several under the other.
FILTERS = ("filter_subject", "filter_subjects")
# A filter that lets everything pass.
ALL_SUBJECTS = ">"

# Settings that NATS refuses to change on a consumer that exists.
BEGIN = ("deliver_policy", "opt_start_seq", "opt_start_time")
FIXED_AT_BIRTH = (*BEGIN, "replay_policy", "ack_policy", "mem_storage")

# Settings that Headrace never uses, and that are reset when somebody has made them by hand: they cause events without
# their data, the deletion of a consumer while its channel is idle, or redelivery of an event that a subscriber has in
# hand.
UNDONE: Mapping[str, Any] = {"headers_only": False, "inactive_threshold": 0, "backoff": []}
# Limits of pulls, which `forward` obeys: a change resets them, but they alone are no reason for one, since the server
# may put its own in their place each time.
OBEYED: Mapping[str, Any] = {"max_batch": 0, "max_bytes": 0, "max_expires": 0}

_DELIVER = {
    "All": "all",
    "Last": "last",
    "New": "new",
    "ByStartSequence": "by_start_sequence",
    "ByStartTime": "by_start_time",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One entry of `spec.subscribers` as it stands in the manifest.

    Attributes:
        subscriber: the metadata that its consumer is to have; None when its uid names no consumer of its own.
        problem: why there is none, for people.
        beyond: its wish beyond the administrator's bounds, for people; empty where there is none.
        auth: the identity that Knative has written into it, as the status repeats it.
    """

    uid: str
    generation: int
    subscriber: Subscriber | None
    problem: str = ""
    beyond: str = ""
    auth: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The values that an entry inherits from its channel."""

    manifest: Manifest
    aside: str
    scale: ScaleSpec
    order: OrderSpec
    placement: PlacementSpec
    sink: Resolution
    own: OwnAddress
    error_data: Callable[[str], bool]
    most: int
    truth: Truth


def rows(
    manifest: Manifest,
    stream: str,
    truth: Truth | None = None,
    sink: Resolution = None,
    own: OwnAddress | None = None,
    error_data: Callable[[str], bool] = lambda _namespace: True,
    most: int = MOST_SCALE,
) -> tuple[Row, ...]:
    """All entries, in their order; a broken one never stands in the way of the others.

    Args:
        own: the address where the channel takes its events; by default its Service.
        truth: the known facts about their Subscriptions; nothing by default.
        sink: the channel's dead letter sink, resolved.
        error_data: may those who write in a namespace read what any address answers?
        most: leases of one subscriber, whatever annotations ask for.

    Raises:
        InvalidSpec: annotations or delivery of the channel itself are nonsense.
    """
    truth = truth or Truth()
    defaults = _Defaults(
        manifest,
        names.aside(stream),
        scale_spec.from_annotations(manifest.metadata.annotations),
        order_spec.from_annotations(manifest.metadata.annotations),
        placement_spec.from_annotations(manifest.metadata.annotations),
        sink,
        own or OwnAddress(manifest.metadata.namespace, manifest.metadata.name),
        error_data,
        most,
        truth,
    )
    # By the consumer that a uid names: two uids that differ in case or dashes alone name the same one.
    seen: dict[str, int] = {}
    found = []
    for index, raw in enumerate(manifest.spec.subscribers):
        row = _row(raw, index, defaults, truth)
        if row.subscriber is not None:
            first = seen.setdefault(names.durable(row.uid), index)
            if first != index:
                problem = f"is {quoted(row.uid)}, which spec.subscribers[{first}] has already: the first entry counts"
                row = replace(row, subscriber=None, problem=f"spec.subscribers[{index}].uid {problem}")
        found.append(row)
    order_spec.refuse_useless_key(
        manifest.metadata.annotations, [row.subscriber.order for row in found if row.subscriber]
    )
    return tuple(found)


def config(subscriber: Subscriber, durable: str, template: ConsumerTemplate, subjects: Sequence[str]) -> dict[str, Any]:
    """The consumer of a subscriber, as `CONSUMER.CREATE` takes it.

    Args:
        subjects: the subjects of the stream that it is to see; empty for all of them.
    """
    sees = list(dict.fromkeys(template.subjects or subjects))
    return {
        "durable_name": durable,
        "name": durable,
        "ack_policy": "explicit",
        "ack_wait": nanoseconds(ACK_WAIT),
        # The budget is ours, in the stage record: a crash must not eat it.
        "max_deliver": -1,
        "max_ack_pending": template.max_ack_pending or MAX_ACK_PENDING,
        "deliver_policy": _DELIVER[template.deliver_policy],
        "opt_start_seq": template.opt_start_seq,
        "opt_start_time": template.opt_start_time,
        "replay_policy": template.replay_policy.lower(),
        "sample_freq": template.sample_frequency,
        "filter_subject": sees[0] if len(sees) == 1 else "",
        "filter_subjects": sees if len(sees) > 1 else [],
        # Only if the author sets it: an administrator may have changed the number by hand.
        **({"num_replicas": template.replicas} if template.replicas else {}),
        # A consumer in memory would lose its position at the server's next restart.
        "mem_storage": False,
        **UNDONE,
        **OBEYED,
        **order_spec.consumer_settings(subscriber.order),
        "metadata": {
            **template.metadata,
            METADATA_KEY: subscriber.to_json(),
            NAMESPACE_KEY: subscriber.namespace,
            CHANNEL_KEY: subscriber.channel,
            SUBSCRIPTION_KEY: subscriber.name,
        },
    }


def _row(raw: object, index: int, defaults: _Defaults, truth: Truth) -> Row:
    field, manifest = f"spec.subscribers[{index}]", defaults.manifest
    body = raw if isinstance(raw, dict) else {}
    uid, generation = body.get("uid"), body.get("generation")
    known = Row(
        uid if isinstance(uid, str) else "",
        generation if type(generation) is int and abs(generation) <= LARGEST else 0,
        None,
    )
    try:
        names.durable(known.uid)
    except InvalidSpec as error:
        return replace(known, problem=f"{field}.{error}")
    name, subscription = body.get("name"), truth.subscriptions.get(known.uid)
    identity = Subscriber(
        namespace=manifest.metadata.namespace,
        channel=manifest.metadata.name,
        name=name if isinstance(name, str) else "",
        uid=known.uid,
        generation=known.generation,
        aside=defaults.aside,
        # The entry does not tell it.
        subscription_namespace=manifest.metadata.namespace,
        rate_limit_bps=manifest.spec.consumer_config_template.bits_per_second,
        lag_threshold=defaults.scale.lag_threshold,
        max_scale=defaults.scale.max_scale,
        wake=defaults.scale.wake,
        order=defaults.order,
        placement=defaults.placement,
    )
    if subscription is not None:
        identity = replace(identity, name=subscription.name, subscription_namespace=subscription.namespace)
    # The Subscription's author chooses the addresses, the channel's has the parked events.
    readers = (identity.namespace, identity.subscription_namespace)
    identity = replace(identity, error_data=all(map(defaults.error_data, readers)))
    try:
        entry = parse_entry(raw, index)
        known = replace(known, auth=_auth(entry))
        if subscription is None:
            identity = _annotated(identity, entry.annotations, field, defaults)
        else:
            path = f"Subscription {identity.full_name}: metadata"
            identity = _annotated(identity, subscription.annotations, path, defaults)
        if identity.max_scale > defaults.most:
            asked = f"Subscription {identity.full_name}: annotation {scale_spec.MAX_SCALE} is {identity.max_scale}"
            words = f"{asked}: at most {defaults.most}, {opens('maxScale: …')}"
            known = replace(known, beyond=words)
            identity = replace(identity, max_scale=defaults.most)
        return replace(known, subscriber=_served(identity, entry, field, defaults))
    except InvalidSpec as error:
        return replace(known, subscriber=replace(identity, state=SubscriberState.REFUSED, reason=str(error)))


def _annotated(identity: Subscriber, annotations: Mapping[str, str], path: str, defaults: _Defaults) -> Subscriber:
    """The subscriber with the wishes of these annotations."""
    scale = scale_spec.from_annotations(annotations, defaults.scale, path=path)
    order = order_spec.from_annotations(annotations, defaults.order, path=path)
    order_spec.refuse_useless_key(annotations, [order], path=path)
    return replace(
        identity,
        lag_threshold=scale.lag_threshold,
        max_scale=scale.max_scale,
        wake=scale.wake,
        order=order,
        placement=placement_spec.from_annotations(annotations, defaults.placement, path=path),
    )


def _served(identity: Subscriber, entry: SubscriberEntry, field: str, defaults: _Defaults) -> Subscriber:
    """The subscriber with its addresses and its patience; InvalidSpec when it can't be delivered to."""
    if not entry.subscriber_uri and not entry.reply_uri:
        raise InvalidSpec(f"{field} has neither subscriberUri nor replyUri: give at least one", field=field)
    addresses = (
        ("subscriberUri", entry.subscriber_uri, own_address.SUBSCRIBER),
        ("replyUri", entry.reply_uri, own_address.REPLY),
    )
    for name, uri, why in addresses:
        defaults.own.refuse(uri or "", why, field=f"{field}.{name}")
    dead_letter = _dead_letter(entry.delivery, field) or _inherited(defaults.sink)
    if dead_letter is not None:
        path = f"{field}.delivery.deadLetterSink"
        defaults.own.refuse(dead_letter.uri, own_address.DEAD_LETTER, field=path)
    # As Knative inherits: an entry's own delivery excludes the channel's, except for its dead letter sink.
    delivery = entry.delivery or defaults.manifest.spec.delivery or DeliverySpec()
    served = replace(
        identity,
        subscriber=_destination(
            entry.subscriber_uri, entry.subscriber_ca_certs, entry.subscriber_audience, f"{field}.subscriberUri"
        ),
        reply=_destination(entry.reply_uri, entry.reply_ca_certs, entry.reply_audience, f"{field}.replyUri"),
        dead_letter=dead_letter,
        structured=_format(entry, defaults.truth.subscriptions.get(identity.uid), defaults.manifest) == "json",
        policy=DeliveryPolicy(
            retry=delivery.retry,
            backoff_policy=BackoffPolicy(delivery.backoff_policy or BackoffPolicy.EXPONENTIAL),
            backoff_delay=_given(delivery.backoff_delay, DEFAULT_BACKOFF_DELAY),
            timeout=_given(delivery.timeout, DEFAULT_TIMEOUT),
            retry_after_max=_given(delivery.retry_after_max, DEFAULT_RETRY_AFTER_MAX),
        ),
    )
    if not served.audiences:
        # Knative names an account in every entry of a cluster where authentication-oidc is on.
        return served
    wanted = entry.auth.service_account_name if entry.auth is not None else ""
    return replace(served, service_account=identities.account(served, wanted, defaults.truth, field))


def _format(entry: SubscriberEntry, subscription: Subscription | None, manifest: Manifest) -> str | None:
    """The format of a subscriber's events: Knative's controller copies neither the Subscription's nor the channel's."""
    of_channel = manifest.spec.delivery.format if manifest.spec.delivery else None
    if entry.delivery is not None and entry.delivery.format is not None:
        return entry.delivery.format
    if subscription is not None:
        return of_channel if subscription.format is None else subscription.format
    return of_channel if entry.delivery is None else None


def _auth(entry: SubscriberEntry) -> dict[str, Any]:
    return entry.auth.model_dump(by_alias=True, mode="json", exclude_unset=True) if entry.auth is not None else {}


def _destination(uri: str | None, ca_certs: str | None, audience: str | None, field: str) -> Destination | None:
    return Destination(checked_uri(uri, field=field), ca_certs, audience or None) if uri else None


def _dead_letter(delivery: DeliverySpec | None, field: str) -> Destination | None:
    sink = delivery.dead_letter_sink if delivery else None
    if sink is None:
        return None
    path = f"{field}.delivery.deadLetterSink"
    # Knative's Subscription controller resolves it; people who write entries by hand have to do it themselves.
    if sink.ref is not None and "://" not in (sink.uri or ""):
        raise InvalidSpec(f"{path} has a ref only, which is not resolved here: give its uri", field=path)
    return _destination(sink.uri, sink.ca_certs, sink.audience, f"{path}.uri")


def _inherited(sink: Resolution) -> Destination | None:
    """The channel's sink, for an entry without one of its own.

    While the channel's can't be resolved the entry is refused: its author did not ask to have events parked instead.
    """
    if isinstance(sink, Unresolved):
        raise InvalidSpec(f"{sink.reason}: {sink.message}", field="spec.delivery.deadLetterSink")
    return sink


def _given(value: timedelta | None, default: timedelta) -> timedelta:
    return default if value is None else value
