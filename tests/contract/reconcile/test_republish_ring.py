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


async def test_a_mirror_of_ones_own_channel_closes_no_ring(nats_server: NatsServer) -> None:
    client = Client(NatsSettings(url=nats_server.url), name="test")
    hook = Hook(client, names="listed")
    config = {"mirror": {"name": "KN_SHOP__B"}, "republish": {"source": "*.*.*", "destination": "shop.in.b"}}
    b = channel(name="b", uid="b", stream=stream(additionalSubjects=["shop.in.b"]))
    made = [await hook.sync(b), await hook.sync(channel(name="a", uid="a", stream=stream(**config)))]
    assert await post(client, "shop.b._knative") is not None
    await client.flush(5.0)

    assert [condition(one, "Ready").get("reason") for one in made] == [None, "RepublishRing"]
    assert await messages(hook, "B") == 1
    await client.close()


async def test_many_channels_beside_it_hide_no_ring(nats_server: NatsServer) -> None:
    client = Client(NatsSettings(url=nats_server.url), name="test")
    hook = Hook(client, names="listed")
    for number in range(120):
        config = {"name": f"Z{number}", "subjects": [f"shop.in.x.z{number}"]}
        await hook.api.call(f"STREAM.CREATE.Z{number}", config)
    there = {"source": "shop.back.a.*", "destination": "shop.in.x.{{wildcard(1)}}"}
    back = {"source": "shop.in.x.b", "destination": "shop.back.a.b"}
    await hook.sync(channel(name="b", uid="b", stream=stream(additionalSubjects=["shop.in.x.b"], republish=back)))
    made = await hook.sync(
        channel(name="a", uid="a", stream=stream(additionalSubjects=["shop.back.a.*"], republish=there))
    )

    assert condition(made, "Ready")["reason"] == "RepublishRing"
    await client.close()


async def test_what_is_somebody_elses_stream_is_in_no_ring_by_a_wish_that_is_not_obeyed(
    nats_server: NatsServer,
) -> None:
    client = Client(NatsSettings(url=nats_server.url), name="test")
    hook = Hook(client, names="any")
    await hook.api.call("STREAM.CREATE.LEGACY", {"name": "LEGACY", "subjects": ["legacy.>"]})
    back = {"src": "*.*.*", "dest": "shop.a._knative"}
    await hook.api.call("STREAM.CREATE.B", {"name": "B", "subjects": ["b.in"], "republish": back})
    config = {"republish": {"source": "*.*.*", "destination": "b.in"}}

    made = await hook.sync(channel(name="a", uid="a", stream={"overrideName": "LEGACY", "config": config}))

    assert condition(made, "Ready")["status"] == "True"
    await client.close()
