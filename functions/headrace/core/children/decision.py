"""What the decision on a channel's functions is made from, and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core.conditions import Condition
from headrace.core.subscriber import Subscriber


@dataclass(frozen=True, slots=True)
class Served:
    """A consumer of the channel, and what its metadata says or will."""

    durable: str
    subscriber: Subscriber


@dataclass(frozen=True, slots=True)
class Cluster:
    """What is known of the cluster.

    Attributes:
        apis: the optional APIs that it serves; None when nobody said.
        children: the channel's objects as they are, as the hook's request has them.
        elsewhere: the channel's stream is where the operator does not see it: nobody will open leases on it.
        stock: a Metacontroller as it comes makes them: in the channel's namespace, shared with no other channel; and
            nobody opens leases.
    """

    apis: frozenset[str] | None = None
    children: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: bool = False
    stock: bool = False


@dataclass(frozen=True, slots=True)
class Apart:
    """Functions that come to NATS as others than the installation does.

    Attributes:
        url: of their `reconcile`.
        objects: that are it.
    """

    url: str
    objects: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Forward:
    """The function that delivers for a consumer.

    Attributes:
        url: where leases are opened.
        pulls: it opens its leases itself, without end.
    """

    url: str
    pulls: bool = False


@dataclass(frozen=True, slots=True)
class Functions:
    """Everything that follows for Kubernetes.

    Attributes:
        objects: the whole list of what is wanted.
        urls: of the channel, the first the one to use; empty when it is not for us to say.
        forwards: by durable.
    """

    objects: tuple[dict[str, Any], ...] = ()
    urls: tuple[str, ...] = ()
    forwards: Mapping[str, Forward] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()
