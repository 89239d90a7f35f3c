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
class LeasePlaces:
    """The stream of a channel, and the functions that deliver from it.

    Attributes:
        stream: empty where the operator can't look into it: the functions pull by themselves.
        forwards: by consumer; the deployer's own `forward` serves those that are not among them.
        receive: the Knative Service that takes the channel's events, as namespace/name; empty where there is none.
    """

    stream: str = ""
    forwards: Mapping[str, Forward] = field(default_factory=dict)
    receive: str = ""

    def to_json(self) -> dict[str, Any]:
        forwards = {durable: {"url": one.url, "pulls": one.pulls} for durable, one in self.forwards.items()}
        return {"stream": self.stream, "receive": self.receive, "forwards": forwards}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Self:
        """Read it.

        Raises:
            ValueError, TypeError, AttributeError, KeyError: it is not of this form.
        """
        forwards = (body.get("forwards") or {}).items()
        found = {str(durable): Forward(str(one["url"]), one.get("pulls") is True) for durable, one in forwards}
        return cls(str(body.get("stream") or ""), found, str(body.get("receive") or ""))
