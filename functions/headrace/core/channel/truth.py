"""The Subscriptions' own word, beside the list of them in the channel, which lies (ADR 023).

One principle: a Subscription that is there counts; an absent one counts only when the list of them is proved complete.
Knows the metadata of Subscriptions, the channel that they are for, and whose tokens they send.
`headrace.core.channel.binding` decides what follows for consumers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from headrace.core.channel import related
from headrace.core.channel.hook import HookRequest, Reference
from headrace.core.delivery.subscriber import Subscriber

KIND = f"{related.SUBSCRIPTION}.{related.SUBSCRIPTION_API}"


@dataclass(frozen=True, slots=True)
class Subscription:
    """One Subscription as the API server has it.

    Attributes:
        going: it is being deleted and waits for a finalizer.
        channel: namespace and name of the object that it subscribes to. Behind a Channel, a Broker or a Sequence that
            need not be of our kind, but it has our name.
        format: of its own `spec.delivery`, empty if that names none; None where it has no such part: then the
            channel's counts.
        account: the ServiceAccount that its status names: the one that Knative has made for it.
    """

    uid: str
    namespace: str
    name: str
    generation: int = 0
    annotations: Mapping[str, str] = field(default_factory=dict)
    going: bool = False
    channel: tuple[str, str] = ("", "")
    format: str | None = None
    account: str = ""


@dataclass(frozen=True)
class Truth:
    """All known facts about Subscriptions.

    Attributes:
        subscriptions: by uid.
        complete: the list is proved complete.
        absent: uids that the API server itself was asked for, and no longer has.
        tokens: can tokens be made of the accounts that Subscriptions name?
    """

    subscriptions: Mapping[str, Subscription] = field(default_factory=dict)
    complete: bool = False
    absent: frozenset[str] = frozenset()
    tokens: bool = True

    def lives(self, uid: str) -> bool:
        """There is such a Subscription, and it is to stay."""
        found = self.subscriptions.get(uid)
        return found is not None and not found.going

    def misses(self, uid: str) -> bool:
        """It is proved that no such Subscription existed when the list was taken."""
        return self.complete and uid not in self.subscriptions

    def denies(self, uid: str) -> bool:
        """The API server itself has no such Subscription; the list may be a little behind it."""
        return uid in self.absent

    def account_of(self, served: Subscriber) -> str:
        """The ServiceAccount of a subscriber's own Subscription, if that lives and is for its channel; else empty."""
        found = self.subscriptions.get(served.uid)
        if found is None or found.going or found.channel != (served.namespace, served.channel):
            return ""
        return found.account if found.namespace == (served.subscription_namespace or served.namespace) else ""

    def has_successor(self, channel: tuple[str, str], namespace: str, name: str) -> bool:
        """Is there a Subscription of this name for this channel?

        Args:
            channel: namespace and name.
        """
        return (channel, namespace, name) in self._living

    @cached_property
    def _living(self) -> frozenset[tuple[tuple[str, str], str, str]]:
        """The channel, the namespace and the name of each Subscription that is to stay."""
        return frozenset((one.channel, one.namespace, one.name) for one in self.subscriptions.values() if not one.going)


def of_request(request: HookRequest) -> Truth:
    """The Subscriptions of a hook request. Objects without the shape of one are left out.

    A list that is missing from the request is not complete, even when the request says so.
    """
    complete = KIND in request.complete and isinstance(request.related.get(KIND), Mapping)
    found = (_subscription(one) for one in related.objects(request.related, related.SUBSCRIPTION_API, "Subscription"))
    known = {one.uid: one for one in found if one is not None}
    return Truth(known, complete, request.absent, tokens=request.tokens is not None)


def reference(uid: str, namespace: str, name: str) -> Reference:
    """The question whether a Subscription still exists."""
    return Reference(related.SUBSCRIPTION_API, related.SUBSCRIPTION, namespace, name, uid)


def _subscription(found: Mapping[str, Any]) -> Subscription | None:
    metadata = found["metadata"]
    uid, namespace, name = (metadata.get(key) for key in ("uid", "namespace", "name"))
    if not (isinstance(uid, str) and uid and isinstance(namespace, str) and isinstance(name, str)):
        return None
    generation, annotations = metadata.get("generation"), metadata.get("annotations")
    return Subscription(
        uid=uid,
        namespace=namespace,
        name=name,
        generation=generation if type(generation) is int else 0,
        annotations={key: value for key, value in annotations.items() if isinstance(value, str)}
        if isinstance(annotations, dict)
        else {},
        going=bool(metadata.get("deletionTimestamp")),
        channel=channel_of(found),
        format=_format(found.get("spec")),
        account=_account(found.get("status")),
    )


def _format(spec: Any) -> str | None:
    delivery = spec.get("delivery") if isinstance(spec, Mapping) else None
    return str(delivery.get("format") or "") if isinstance(delivery, Mapping) else None


def _account(status: Any) -> str:
    auth = status.get("auth") if isinstance(status, Mapping) else None
    name = auth.get("serviceAccountName") if isinstance(auth, Mapping) else None
    return name if isinstance(name, str) else ""


def channel_of(subscription: Mapping[str, Any]) -> tuple[str, str]:
    """Namespace and name of the channel that a Subscription is for; empty ones where it names none."""
    spec = subscription.get("spec")
    channel = spec.get("channel") if isinstance(spec, Mapping) else None
    if not isinstance(channel, Mapping):
        return "", ""
    namespace = channel.get("namespace") or subscription["metadata"].get("namespace")
    return str(namespace or ""), str(channel.get("name") or "")
