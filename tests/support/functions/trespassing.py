"""Two namespaces, of which one names things of the other: their channels, and all that NATS holds of both."""

from __future__ import annotations

import json
from typing import Any

from headrace.core.installation import tenants
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.channels import channel, stream
from tests.support.functions.reconciling import Hook

VICTIM, VICTIMS_CONSUMER = "KN_VICTIM__X", "KN_SUB_AAAA1"
EVIL, OWN_SUBJECT = "KN_EVIL__A", "evil.a._knative"


def evil(*entries: dict[str, Any], generation: int = 1, **config: Any) -> dict[str, Any]:
    """The attacker's channel; `config` are members of `spec.stream.config`."""
    return channel(*entries, namespace="evil", name="a", generation=generation, stream=stream(**config))


def listed(hook: Hook, *entries: dict[str, Any]) -> None:
    """The administrator's list from the next call on."""
    hook.around = Around(tenants=tenants.parse({tenants.KEY: json.dumps(entries)}))


async def post(client: Client, subject: str, data: bytes = b"{}") -> dict[str, Any] | None:
    """What `receive` does with a POST; None if no stream takes it."""
    answer = await client.request(subject, data, timeout=2.0)
    return None if answer.status else dict(json.loads(answer.data))


async def consumer(api: JetStreamApi, stream: str, durable: str) -> dict[str, Any]:
    found: dict[str, Any] = (await api.call(f"CONSUMER.INFO.{stream}.{durable}"))["config"]
    return found


async def everything(api: JetStreamApi) -> dict[str, Any]:
    """All streams but the attacker's, with their consumers, as far as they say what is wanted and what is there."""
    found = {}
    async for info in api.streams():
        name = info["config"]["name"]
        if not name.startswith("KN_EVIL__"):
            consumers = [(each["config"], each["num_pending"]) async for each in api.consumers(name)]
            found[name] = (info["config"], info["created"], info["state"]["messages"], consumers)
    return found
