"""Where the operator opens leases for one channel: the answer of the hook, and never the channel's status (ADR 052).

Whoever may write a channel may write its status, too. So `reconcile` says this afresh with each answer that knows it,
and the operator keeps the last word. Written and read here, by both sides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self


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
class SenderIdentity:
    """The ServiceAccount as which a consumer's events are sent, and the audiences that want its tokens."""

    namespace: str
    account: str
    audiences: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {"namespace": self.namespace, "account": self.account, "audiences": list(self.audiences)}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        return cls(str(body["namespace"]), str(body["account"]), tuple(map(str, body["audiences"])))


@dataclass(frozen=True, slots=True)
class LeasePlaces:
    """The stream of a channel, and the functions that deliver from it.

    Attributes:
        stream: empty where the operator can't look into it: the functions pull by themselves.
        forwards: by consumer; the deployer's own `forward` serves those that are not among them.
        receive: the Knative Service that takes the channel's events, as namespace/name; empty where there is none.
        identities: as whom events are sent, by consumer, for those whose addresses ask for tokens; None when that is
            not known now: then the last ones still count.
    """

    stream: str = ""
    forwards: Mapping[str, Forward] = field(default_factory=dict)
    receive: str = ""
    identities: Mapping[str, SenderIdentity] | None = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        forwards = {durable: {"url": one.url, "pulls": one.pulls} for durable, one in self.forwards.items()}
        body = {"stream": self.stream, "receive": self.receive, "forwards": forwards}
        if self.identities is None:
            return {**body, "identities": None}
        named = {durable: one.to_json() for durable, one in self.identities.items()}
        return {**body, "identities": named} if named else body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read it.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: it is not of this form.
        """
        forwards = (body.get("forwards") or {}).items()
        found = {str(durable): Forward(str(one["url"]), one.get("pulls") is True) for durable, one in forwards}
        named = body.get("identities", {})
        identities = (
            None if named is None else {str(name): SenderIdentity.from_json(one) for name, one in named.items()}
        )
        return cls(str(body.get("stream") or ""), found, str(body.get("receive") or ""), identities)
