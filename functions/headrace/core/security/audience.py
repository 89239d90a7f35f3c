"""For whom tokens of senders have to be, in the addresses of a channel's status, as Knative's channels tell it.

Knative's senders read it there, and bring no token where there is none. Pure. Called by `headrace.reconcile`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.core import names

KEY = "audience"


def addressed(status: Mapping[str, Any], parent: Mapping[str, Any], asked: bool | None) -> dict[str, Any]:
    """The status with the audience in each address, or in none.

    Args:
        parent: the channel as it is in Kubernetes.
        asked: whether tokens are asked for; None: that is not known now, and what was last known holds. For a status
            without audiences senders would stop bringing tokens, while `receive` still asks for them.
    """
    if asked is None:
        asked = _told(parent.get("status"))
    metadata = parent["metadata"]
    told = {KEY: names.audience(metadata["namespace"], metadata["name"])} if asked else {}
    found = dict(status)
    if isinstance(address := found.get("address"), Mapping):
        found["address"] = {**_without(address), **told}
    if isinstance(listed := found.get("addresses"), list):
        found["addresses"] = [{**_without(one), **told} for one in listed if isinstance(one, Mapping)]
    return found


def _without(address: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in address.items() if name != KEY}


def _told(status: Any) -> bool:
    address = status.get("address") if isinstance(status, Mapping) else None
    return isinstance(address, Mapping) and bool(address.get(KEY))
