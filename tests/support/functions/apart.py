"""Calls of the hook about one channel that has its NATS elsewhere, and their answers."""

from __future__ import annotations

from typing import Any

from tests.support.functions.channels import channel, entry
from tests.support.functions.children import as_observed
from tests.support.functions.reconciling import Hook, condition
from tests.support.waiting import until

STREAM, ASIDE, BILLING = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside", "KN_SUB_AAAA1"
CONNECTION = {"connection": {"secretRef": {"name": "orders-nats"}}}
NAMESPACED = {"eventing.knative.dev/scope": "namespace"}


def one(answer: dict[str, Any], component: str, kind: str = "Deployment") -> dict[str, Any]:
    """The one child of that kind and function."""
    found: dict[str, Any]
    (found,) = [
        each
        for each in answer["children"]
        if (each["kind"], each["metadata"]["labels"]["app.kubernetes.io/component"]) == (kind, component)
    ]
    return found


def conditions(answer: dict[str, Any]) -> dict[str, str]:
    return {
        each["type"]: each.get("reason", "") for each in answer["status"]["conditions"] if each["status"] == "False"
    }


async def synced(hook: Hook, **parts: Any) -> dict[str, Any]:
    """One call more; `status` and children are what the one before has answered."""
    answer = await hook.sync(channel(entry(), **parts))
    if not hook.pods:
        hook.children = as_observed(answer["children"])
    return answer


async def until_let_in(hook: Hook, **parts: Any) -> dict[str, Any]:
    """Call until the tenant's NATS has let its `reconcile` in."""
    last: dict[str, Any] = {}

    async def is_so() -> bool:
        last.clear()
        last.update(await synced(hook, **parts))
        return condition(last, "Ready")["status"] == "True"

    await until("the channel is ready", is_so, 60.0)
    return last
