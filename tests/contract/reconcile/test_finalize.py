"""What `reconcile` leaves on a real server when a channel goes."""

from __future__ import annotations

import nats.aio.client
import pytest

from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook

STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"
BILLING = "KN_SUB_AAAA1"


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


async def test_finalize_removes_everything_and_may_be_repeated(hook: Hook) -> None:
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))
    await hook.sync(parent)

    first = await hook.finalize(parent)
    second = await hook.finalize(parent)

    assert (first["finalized"], second["finalized"]) == (True, True)
    assert await hook.stream(STREAM) is None
    assert await hook.stream(ASIDE) is None


async def test_finalize_finds_nothing_wrong_with_a_stream_that_is_gone_already(hook: Hook) -> None:
    await hook.sync(channel(entry()))
    await hook.api.call(f"STREAM.DELETE.{STREAM}")

    answer = await hook.finalize(channel(entry()))

    assert answer["finalized"] is True
    assert await hook.stream(ASIDE) is None


@pytest.mark.parametrize(
    ("kind", "stays"),
    [
        pytest.param("parked", True, id="a parked event keeps the aside stream"),
        pytest.param("stage", False, id="a stage record does not"),
    ],
)
async def test_the_aside_stream_outlives_its_channel_only_for_parked_events(
    hook: Hook, stranger: nats.aio.client.Client, kind: str, stays: bool
) -> None:
    await hook.sync(channel(entry()))
    await stranger.jetstream().publish(f"shop.orders._knative_aside.{kind}.{BILLING}.1", b"{}")

    answer = await hook.finalize(channel(entry()))

    assert answer["finalized"] is True
    assert await hook.stream(STREAM) is None
    assert (await hook.stream(ASIDE) is not None) is stays


@pytest.mark.parametrize(
    ("value", "stays"),
    [("true", True), ("True", True), ("yes please", True), ("false", False)],
)
async def test_the_streams_of_a_retained_channel_stay(hook: Hook, value: str, stays: bool) -> None:
    parent = channel(entry(), annotations={"headrace.dev/retain": value})
    await hook.sync(parent)

    answer = await hook.finalize(parent)

    assert answer["finalized"] is True
    assert (await hook.stream(STREAM) is not None) is stays
    assert (await hook.stream(ASIDE) is not None) is stays


async def test_a_channel_with_a_spec_that_became_nonsense_can_go(hook: Hook) -> None:
    await hook.sync(channel(entry()))

    answer = await hook.finalize(channel(entry(), stream=stream(retention="Limit"), delivery={"retry": -1}))

    assert answer["finalized"] is True
    assert await hook.stream(STREAM) is None


async def test_more_consumers_than_one_page_of_the_list_are_all_seen(hook: Hook) -> None:
    many = [entry(f"uid-{number}", f"s{number}") for number in range(300)]
    await hook.sync(channel(*many))

    await hook.sync(channel(*many))

    assert hook.changes == []
