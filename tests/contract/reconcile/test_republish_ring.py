"""Two channels of one namespace republish into one another, on a real server: one event would become 459."""

from __future__ import annotations

import asyncio

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.functions.trespassing import post
from tests.support.nats.nats_server import NatsServer


def member(name: str, other: str, **more: str) -> dict[str, object]:
    config = {"republish": {"source": "*.*.*", "destination": f"shop.in.{other}"}, **more}
    return channel(name=name, uid=name, stream=stream(additionalSubjects=[f"shop.in.{name}"], **config))


async def messages(hook: Hook, name: str) -> int:
    return int((await hook.api.call(f"STREAM.INFO.KN_SHOP__{name}"))["state"]["messages"])


@pytest.mark.parametrize("at_once", [False, True])
async def test_an_event_goes_round_in_no_ring_of_channels(nats_server: NatsServer, at_once: bool) -> None:
    client = Client(NatsSettings(url=nats_server.url), name="test")
    hook = Hook(client, names="listed")
    a, b = member("a", "b"), member("b", "a")

    made = await asyncio.gather(hook.sync(a), hook.sync(b)) if at_once else [await hook.sync(a), await hook.sync(b)]
    assert await post(client, "shop.a._knative") is not None
    await client.flush(5.0)

    assert sorted(condition(one, "Ready").get("reason", "") for one in made) == ["", "RepublishRing"]
    assert await messages(hook, "A") + await messages(hook, "B") <= 2
    await client.close()


async def test_a_ring_that_others_have_closed_is_opened_at_the_next_look(nats_server: NatsServer) -> None:
    client = Client(NatsSettings(url=nats_server.url), name="test")
    hook = Hook(client, names="listed")
    answer = await hook.sync(member("a", "b"))
    assert answer["resyncAfterSeconds"] > 0
    await hook.api.call(
        "STREAM.CREATE.OTHER",
        {"name": "OTHER", "subjects": ["shop.in.b"], "republish": {"src": "*.*.*", "dest": "shop.in.a"}},
    )

    fresh = Hook(client, names="listed")
    assert condition(await fresh.sync(member("a", "b")), "Ready")["reason"] == "RepublishRing"
    found = await hook.stream("KN_SHOP__A")
    assert found is not None
    assert found.get("republish") is None
    await client.close()
