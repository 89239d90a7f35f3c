"""The port to a cluster's objects, whoever implements it: plain JSON in, plain JSON out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

Object = dict[str, Any]


class Objects(Protocol):
    """All methods raise Unavailable when the API server does not answer, and Refused with its words when it says no."""

    @property
    def namespace(self) -> str:
        """The namespace that the kubeconfig's context names; `default` without one."""

    async def channels(self, namespace: str | None) -> list[Object]:
        """All NatsJetStreamChannels of a namespace, or of all."""

    async def channel(self, namespace: str, name: str) -> Object | None:
        """One channel; None when it does not exist."""

    async def create_channel(self, channel: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Create a channel; gives the object as it was made. With `dry_run` the server only judges it."""

    async def create_subscription(self, subscription: Mapping[str, Any]) -> Object:
        """Create a Subscription; gives the object as it was made."""

    async def delete_channel(self, namespace: str, name: str) -> None:
        """Ask for a channel's deletion, which its finalizer may delay."""

    async def subscriptions(self, namespace: str | None) -> list[Object]:
        """All Subscriptions of a namespace, or of all."""
