"""`channel` and `subscription` tell what NATS holds: by the marks of `reconcile`, and by the Go channel's names."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel as manifest
from tests.support.functions.channels import entry
from tests.support.functions.reconciling import Hook
from tests.support.laptop.cli import Cli
from tests.support.nats.streams import Channel, Nats


@pytest.fixture
async def shop(client: Client) -> AsyncIterator[str]:
    """A channel `orders` with two Subscriptions, as reconcile makes it; the namespace."""
    hook = Hook(client)
    billing = entry(delivery={"retry": 3, "backoffDelay": "PT1S", "backoffPolicy": "linear"})
    parent = manifest(billing, entry("bbbb-2", "mail"), namespace="catalog-shop")
    await hook.sync(parent)
    yield "catalog-shop"
    await hook.finalize({**parent, "metadata": {**parent["metadata"], "deletionTimestamp": "2026-01-31T12:00:00Z"}})


async def test_channels_are_listed_with_what_they_hold(cli: Cli, shop: str) -> None:
    listed = (await cli("channel", "list", "-n", shop, "-o", "json")).ok().json["items"]
    table = (await cli("channel", "list", "-A")).ok().out.splitlines()

    assert [(item["name"], item["origin"], item["subscriptions"]) for item in listed] == [("orders", "headrace", 2)]
    assert table[0].split() == [
        "NAMESPACE",
        "NAME",
        "STREAM",
        "EVENTS",
        "SIZE",
        "SUBSCRIPTIONS",
        "PARKED",
        "ORIGIN",
        "AGE",
    ]
    assert any(line.split()[:3] == [shop, "orders", "KN_CATALOG_SHOP__ORDERS"] for line in table)


async def test_the_go_channels_streams_are_listed_as_such(cli: Cli, nats: Nats) -> None:
    await nats.make_stream("KN_LISTED__OLD", "listed.old._knative")

    assert (await cli("channel", "list", "-n", "listed", "-o", "name")).ok().out == "listed/old\n"
    assert "peer" in (await cli("channel", "describe", "old", "-n", "listed")).ok().out


async def test_a_copy_of_a_stream_is_not_taken_for_the_channel(cli: Cli, shop: str, client: Client) -> None:
    # As `nats stream copy` makes it, mark included; the list has it before the channel's own stream.
    api = JetStreamApi(client)
    own = await api.call("STREAM.INFO.KN_CATALOG_SHOP__ORDERS")
    copy = {"name": "A_COPY", "subjects": ["copied.orders"], "metadata": own["config"]["metadata"]}
    await api.call("STREAM.CREATE.A_COPY", copy)
    try:
        described = (await cli("channel", "describe", "orders", "-n", shop)).ok().out
        await client.request("copied.orders", b"kept", timeout=5)
        assert "KN_CATALOG_SHOP__ORDERS" in described
        assert "A_COPY" not in described
        (await cli("purge", "orders", "-n", shop, "--all", "--yes")).ok()
        assert (await api.call("STREAM.INFO.A_COPY"))["state"]["messages"] == 1
    finally:
        await api.call("STREAM.DELETE.A_COPY")


async def test_a_namespace_without_channels_says_where_there_are_some(cli: Cli, shop: str) -> None:
    ran = await cli("channel", "list", "-n", "elsewhere")

    assert ran.ok().out == ""
    assert ran.err.startswith("there are no channels in namespace elsewhere; ")


async def test_a_channel_is_described_with_its_subscriptions(cli: Cli, shop: str) -> None:
    text = (await cli("channel", "describe", "orders", "-n", shop)).ok().out
    whole = (await cli("channel", "describe", f"{shop}/orders", "-o", "yaml")).ok().out

    assert "Stream:         KN_CATALOG_SHOP__ORDERS" in text
    assert f"{shop}/billing" in text
    assert "subscriber:\n    uri: http://billing.shop.svc.cluster.local/" in whole


async def test_subscriptions_are_listed_and_described(cli: Cli, shop: str) -> None:
    listed = await cli("subscription", "list", "-n", shop, "-o", "name")
    text = (await cli("subscription", "describe", "billing", "-n", shop)).ok().out

    assert listed.ok().out == f"{shop}/billing\n{shop}/mail\n"
    assert "3 retries, linear from PT1S, timeout PT60S" in text
    assert "KN_SUB_AAAA1 of KN_CATALOG_SHOP__ORDERS" in text
    by_consumer = await cli("subscription", "describe", "KN_SUB_AAAA1", "--channel", f"{shop}/orders", "-o", "json")
    assert by_consumer.ok().json["name"] == "billing"


async def test_what_is_not_there_is_told_with_what_is(cli: Cli, shop: str, orders: Channel) -> None:
    channel = await cli("channel", "describe", "nowhere", "-n", shop)
    subscription = await cli("subscription", "describe", "nobody", "-n", shop)

    assert channel.status == subscription.status == 1
    assert f"there is no channel {shop}/nowhere: this NATS has " in channel.err
    assert f"there is no Subscription {shop}/nobody" in subscription.err
