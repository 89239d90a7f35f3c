"""The functions of one channel as they are in the cluster, its own and those that it shares.

A shared function that a request does not show may be absent, or the caller may not show such functions at all. It
follows from the caller which of the two it is. Pure; called by `headrace.core.channel.children.functions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.core.channel.child_marks import COMPONENT_LABEL, SHARED_LABEL
from headrace.core.channel.children import observed, proof, readiness, state
from headrace.core.channel.children.decision import Cluster, ServedConsumer
from headrace.core.channel.children.encryption import SecureAddress
from headrace.core.channel.children.readiness import FunctionPart, SubscriberReadiness
from headrace.core.channel.children.state import State
from headrace.core.channel.hook import SERVING_API
from headrace.core.conditions import Condition
from headrace.core.delivery.subscriber import SubscriberState

Object = dict[str, Any]
NOTHING_DELIVERS = f"nothing can deliver: the cluster does not serve {SERVING_API}"


class Live:
    """The present state of the wanted objects."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._objects = observed.by_place(cluster.children, cluster.shared)

    def of(self, wanted: Object) -> Mapping[str, Any] | None:
        """The present object; None where it is not there, or not shown."""
        return self._objects.get(observed.place(wanted))

    def has(self, namespace: str, name: str) -> bool:
        """Is there an object of that name?"""
        return any(place[2:] == (namespace, name) for place in self._objects)

    def state(self, wanted: Object) -> State | None:
        """The state of the function; None where the request does not tell it."""
        namespace, live = wanted["metadata"]["namespace"], self.of(wanted)
        # An operator of one namespace sees no other: its news of one there may be old.
        if namespace != self._namespace and self._cluster.watched not in ("", namespace):
            return None
        if live is None and not self._is_told(wanted):
            return None
        return state.state(live, worked=self._cluster.worked)

    def _is_told(self, wanted: Object) -> bool:
        """Would the request hold it if it were there? Earlier operators do not tell of shared objects elsewhere."""
        own = wanted["metadata"]["namespace"] == self._namespace
        return own or self._cluster.shared is not None or SHARED_LABEL not in observed.labels(wanted)

    def https(self, receive: Object | None, path: str) -> SecureAddress | None:
        """The https address by a Knative Service, where Knative Serving takes TLS in its place."""
        live = self.of(receive) if receive is not None else None
        address = ((live or {}).get("status") or {}).get("address") or {}
        url = address.get("url", "")
        return SecureAddress(url.rstrip("/") + path, address.get("CACerts", "")) if url.startswith("https://") else None

    def condition(self, objects: Iterable[Object]) -> Condition:
        """FunctionsReady, over all wanted objects."""
        return readiness.condition(self._parts(objects))

    def readiness(
        self, served: Iterable[ServedConsumer], delivers: Mapping[str, Object]
    ) -> dict[str, SubscriberReadiness]:
        """The readiness of the function that delivers for each consumer.

        Args:
            delivers: the function, by consumer; no entry where there can be none.
        """
        told: dict[str, SubscriberReadiness] = {}
        for one in served:
            if one.subscriber.state is SubscriberState.REFUSED:
                continue
            function = delivers.get(one.durable)
            if function is None:
                told[one.durable] = SubscriberReadiness("False", NOTHING_DELIVERS)
            elif (found := self.state(function)) is not None:
                told[one.durable] = readiness.of_subscriber(function["metadata"]["name"], found)
        return told

    def first(self, receive: Object) -> Object:
        """A `receive` as a Knative Service: it begins with a pod, which proves its template."""
        return proof.begun(receive, self.of(receive), "1")

    def after(self, receive: Object | None, forward: Object) -> Object:
        """A `forward` as a Knative Service, as the present state allows it.

        Args:
            receive: the `receive` of its place; None where there is none.
        """
        known = receive is not None and self.state(receive) is not None
        proven = proof.is_proven(receive, self.of(receive)) if receive is not None and known else None
        return proof.settled(forward, self.of(forward), proven=proven, zero=self._cluster.zero)

    def _parts(self, objects: Iterable[Object]) -> Iterable[FunctionPart]:
        for one in objects:
            runs = one["kind"] == "Deployment" or one["apiVersion"] == SERVING_API
            if runs and (found := self.state(one)) is not None:
                needed = observed.labels(one).get(COMPONENT_LABEL) != "forward"
                yield FunctionPart(one["metadata"]["name"], found, needed=needed)
