"""The inputs of the decision on a channel's functions, and its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.channel.child_marks import COMPONENT_LABEL
from headrace.core.channel.children.encryption import Encryption, SecureAddress
from headrace.core.channel.children.readiness import SubscriberReadiness
from headrace.core.channel.guests import Guests
from headrace.core.channel.hook import SERVING_API
from headrace.core.channel.lease_places import Forward
from headrace.core.conditions import Condition
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.installation.function_bounds import FunctionBounds


@dataclass(frozen=True, slots=True)
class ServedConsumer:
    """A consumer of the channel, and its metadata, now or soon."""

    durable: str
    subscriber: Subscriber


@dataclass(frozen=True, slots=True)
class Cluster:
    """The known facts about the cluster.

    Attributes:
        apis: the optional APIs that it serves; None when the request does not say.
        children: the channel's objects as they are, as the hook's request has them.
        elsewhere: the channel's stream is in an account that the operator can't look into, so it opens no leases on it.
        stock: the objects are made by a stock Metacontroller: in the channel's namespace, shared with no other channel,
            and with no operator to open leases.
        shared: the objects that it may share with others, whatever owns them, in the same form; None when the request
            does not say.
        watched: the only namespace whose objects the operator tells; empty for all of them.
        zero: Knative lets a revision begin with no pod; None when the request does not say.
        worked: the channel's status said before that its functions work.
        bounds: what the functions of this channel's namespace may take of the system namespace.
        guests: the functions of other channels of that namespace, by the other namespace where they are.
        encryption: what Knative's flag asks for, and the authority of our certificates.
        given: the `deploymentSpecTemplate` that the administrator's defaults have for the namespace.
    """

    apis: frozenset[str] | None = None
    children: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: bool = False
    stock: bool = False
    shared: Mapping[str, Any] | None = None
    watched: str = ""
    zero: bool | None = False
    worked: bool = False
    bounds: FunctionBounds = FunctionBounds()
    guests: Mapping[str, Guests] = field(default_factory=dict)
    given: Mapping[str, Any] = field(default_factory=dict)
    encryption: Encryption = Encryption()


@dataclass(frozen=True, slots=True)
class Apart:
    """Functions whose NATS credentials are not the installation's.

    Attributes:
        url: of the `reconcile` among them.
        objects: of that `reconcile`.
    """

    url: str
    objects: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Functions:
    """All objects of a channel in Kubernetes.

    Attributes:
        objects: the wanted objects, all of them.
        urls: http addresses of the channel, the preferred one first; empty when the functions are not ours to make.
        encryption: what Knative's flag asks for.
        https: the https address; None where none is asked for, or there can't be one yet.
        forwards: by the durable name of the consumer.
        readiness: of the function that delivers for a consumer, by the same; without those of which nothing is known.
        beyond: sentences about what is beyond the bounds.
        crowded: a function of the channel's own waits for room.
    """

    objects: tuple[dict[str, Any], ...] = ()
    urls: tuple[str, ...] = ()
    encryption: Encryption = Encryption()
    https: SecureAddress | None = None
    forwards: Mapping[str, Forward] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
    readiness: Mapping[str, SubscriberReadiness] = field(default_factory=dict)
    beyond: tuple[str, ...] = ()
    crowded: bool = False

    @property
    def receive(self) -> str:
        """The Knative Service that takes the channel's events, as namespace/name; empty where there is none."""
        for one in self.objects:
            labels = one["metadata"].get("labels", {})
            if one["apiVersion"] == SERVING_API and labels.get(COMPONENT_LABEL) == "receive":
                return f"{one['metadata']['namespace']}/{one['metadata']['name']}"
        return ""
