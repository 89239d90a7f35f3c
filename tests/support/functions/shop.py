"""One channel with one subscriber, on a real server: reconciled and leased as often as a test likes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition
from tests.support.http.subscriber import Place
from tests.support.nats.streams import Lane, Nats, Serving

DURABLE = "KN_SUB_AAAA1"


@dataclass
class Shop:
    """One channel with one subscriber, reconciled as often as a test likes."""

    hook: Hook
    lane: Lane
    manifest: dict[str, Any]

    async def sync(self) -> dict[str, Any]:
        return await self.hook.sync(self.manifest)

    async def troubles(self) -> dict[str, str]:
        """The conditions that don't hold, each with its reason; all are informative."""
        answer = await self.sync()
        found = {one["type"]: one for one in answer["status"]["conditions"] if one["status"] != "True"}
        assert all(one["severity"] == "Info" for one in found.values())
        assert condition(answer, "Ready")["status"] == "True"
        return {kind: one["reason"] for kind, one in found.items()}

    async def words(self, kind: str) -> str:
        return condition(await self.sync(), kind)["message"]


async def open_shop(nats: Nats, client: Client, forward: Serving, place: Place, **spec: Any) -> Shop:
    names = nats.name_channel()
    delivery = spec.pop("delivery", None)
    entries = entry("aaaa-1", "billing", subscriberUri=place.uri, **({"delivery": delivery} if delivery else {}))
    manifest = channel(entries, name=names.name, namespace=names.namespace, **spec)
    shop = Shop(Hook(client), Lane(nats, forward, names, DURABLE), manifest)
    assert await shop.troubles() == {}
    return shop
