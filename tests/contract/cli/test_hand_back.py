"""Channels go back to the Go channel while events flow, and forward again: nothing is lost either way.

Events may come twice as docs/migration.md says: those that were settled above the position behind which a consumer
begins.
"""

from __future__ import annotations

import nats.aio.client
import pytest

from headrace.core.delivery.subscriber import SubscriberState
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.handing_back import hand_back, idle, marks, ours_settles
from tests.support.functions.reconciling import Hook
from tests.support.laptop.cli import Cli
from tests.support.nats.go_channel import DELIVER, OURS, PUSH, RETENTION, STREAM, SUBJECT, THEIRS, GoChannel, as_ours
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

ASIDE = f"{STREAM}_aside"


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


@pytest.fixture
def peer(hook: Hook, stranger: nats.aio.client.Client) -> GoChannel:
    return GoChannel(hook, stranger)


@pytest.fixture
def cli(nats_server: NatsServer) -> Cli:
    return Cli(nats_server.url)


@pytest.mark.parametrize("retention", list(RETENTION))
@pytest.mark.parametrize("taken", [False, True], ids=["made by ours", "taken over before"])
async def test_there_and_back_again_while_events_flow(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client, retention: str, taken: bool
) -> None:
    parent = channel(entry("aaaa-1"), stream=stream(retention=RETENTION[retention]))
    if taken:
        await peer.make(retention, **PUSH)
    await hook.sync(parent)
    [durable] = await hook.durables(STREAM)

    async with peer.publishing(as_ours):
        await until("events flow", lambda: len(peer.published) > 20, 30)
        # One below the others is not settled, so the floor is under what is: those above may come again.
        await ours_settles(stranger, durable, 10, but=6)
        await idle(hook, durable)

        (await hand_back(cli)).ok()
        assert await hook.durables(STREAM) == [THEIRS]
        assert await marks(hook) == []
        assert await hook.stream(ASIDE) is None
        flown = len(peer.published)
        await until("events flow on", lambda: len(peer.published) > flown + 10, 30)
        async with peer.dispatching():
            await until("its dispatcher is at work", lambda: len(peer.acked) > 20, 30)
        await peer.unbound()

        await hook.sync(parent)
        flown = len(peer.published)
        await until("events flow on", lambda: len(peer.published) > flown + 5, 30)

    [again] = await hook.durables(STREAM)
    assert again == (THEIRS if retention == "workqueue" else OURS)
    pulled = await peer.pulled(again)
    settled = set(range(10)) - {6}
    assert set(peer.published) - settled - peer.acked - set(pulled) == set(), "lost"
    # Above the floor, which is under 6; a queue knows each of them.
    twice = set() if retention == "workqueue" else {7, 8, 9}
    assert settled & (set(peer.delivered) | set(pulled)) <= twice
    assert set(pulled) & peer.acked == set()
    if retention == "interest":
        assert (await hook.api.call(f"STREAM.INFO.{STREAM}"))["state"]["messages"] == 0


async def test_a_consumer_is_as_the_go_channel_would_have_made_it(hook: Hook, cli: Cli) -> None:
    delivery = {"retry": 4, "timeout": "PT5S", "backoffPolicy": "linear", "backoffDelay": "PT1S"}
    await hook.sync(channel(entry("aaaa-1", delivery=delivery), consumerConfigTemplate={"maxAckPending": 7}))

    (await hand_back(cli)).ok()

    made = await hook.consumer(STREAM, THEIRS)
    assert made is not None
    assert (
        made.items()
        >= {
            "durable_name": THEIRS,
            "deliver_subject": DELIVER,
            "deliver_group": THEIRS,
            "ack_policy": "explicit",
            "deliver_policy": "all",
            "ack_wait": 5_500_000_000,
            "max_deliver": 5,
            "max_ack_pending": 7,
            "metadata": {},
        }.items()
    )


async def test_a_subscription_without_delivery_has_the_servers_defaults(hook: Hook, cli: Cli) -> None:
    await hook.sync(channel(entry("aaaa-1"), annotations={"headrace.dev/delivery-order": "ordered"}))

    (await hand_back(cli)).ok()

    made = await hook.consumer(STREAM, THEIRS)
    assert made is not None
    assert (made["ack_wait"], made["max_deliver"], made["max_ack_pending"]) == (30_000_000_000, -1, 1000)


async def test_where_a_template_begins_elsewhere_the_position_is_kept(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry("aaaa-1"), consumerConfigTemplate={"deliverPolicy": "New"}))
    await peer.publish(5)
    await ours_settles(stranger, THEIRS, 2)
    await idle(hook, THEIRS)

    (await hand_back(cli)).ok()

    async with peer.dispatching():
        await until("its dispatcher has the rest", lambda: peer.acked == {2, 3, 4}, 30)
    assert set(peer.delivered) == {2, 3, 4}


@pytest.mark.parametrize("order", ["unordered", "by-key"])
async def test_with_pull_a_consumer_stays_and_loses_what_is_ours(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client, order: str
) -> None:
    parent = channel(entry("aaaa-1"), annotations={"headrace.dev/delivery-order": order})
    await hook.sync(parent)
    await peer.publish(5)
    if order == "unordered":
        await ours_settles(stranger, THEIRS, 3, but=1)
        await idle(hook, THEIRS)

    (await hand_back(cli, "--pull")).ok()

    assert await marks(hook) == []
    made = await hook.consumer(STREAM, THEIRS)
    assert made is not None
    assert (made.get("deliver_subject"), made.get("priority_groups"), made["max_ack_pending"]) == (None, None, 1000)
    if order == "unordered":
        assert (await hook.api.call(f"CONSUMER.INFO.{STREAM}.{THEIRS}"))["num_ack_pending"] == 1
    await hook.sync(parent)
    assert await hook.durables(STREAM) == [THEIRS]


async def test_a_pull_consumer_under_another_name_gets_the_peers(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    await peer.make("interest", **PUSH)
    await hook.sync(channel(entry("aaaa-1"), stream=stream(retention="Interest")))
    await peer.publish(5)
    await ours_settles(stranger, OURS, 2)
    await idle(hook, OURS)

    (await hand_back(cli, "--pull")).ok()

    assert await hook.durables(STREAM) == [THEIRS]
    assert await peer.pulled(THEIRS) == [2, 3, 4]


async def test_what_is_parked_stays_and_is_found_again(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    parent = channel(entry("aaaa-1"))
    await hook.sync(parent)
    await stranger.jetstream().publish("shop.orders._knative_aside.parked.KN_SUB_AAAA1.1.1", b"x")

    ran = await hand_back(cli)

    assert f"{ASIDE} stays, for what is parked in it" in ran.ok().out
    assert (await hand_back(cli)).status == 0
    answer = await hook.sync(parent)
    assert {one["type"]: one["status"] for one in answer["status"]["conditions"]}["StreamReady"] == "True"
    assert (await hook.api.call(f"STREAM.INFO.{ASIDE}"))["state"]["messages"] == 1


async def test_a_subscription_that_is_gone_is_not_handed_back(hook: Hook, peer: GoChannel, cli: Cli) -> None:
    await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))
    await hook.sync(channel(entry("aaaa-1")))
    gone = await hook.subscriber(STREAM, "KN_SUB_BBBB2")
    assert gone is not None
    assert gone.state is SubscriberState.GONE

    dry = await hand_back(cli, "--dry-run")
    (await hand_back(cli)).ok()

    assert "shop/mail is no more: KN_SUB_BBBB2 is deleted" in dry.ok().err
    assert await hook.durables(STREAM) == [THEIRS]


async def test_all_channels_are_handed_back_but_none_that_the_go_channel_names_otherwise(hook: Hook, cli: Cli) -> None:
    await hook.sync(channel(entry("aaaa-1")))
    await hook.sync(channel(entry("bbbb-2"), name="or.ders", uid="5d0a2f1c-0000-4000-8000-000000000002"))

    refused = await cli("hand-back", "-A", "--yes")

    assert (refused.status, "shop/or.ders has a name for which" in refused.err) == (1, True)
    assert await marks(hook) != []
    assert (await cli("hand-back", "--yes")).status == 2
    (await hand_back(cli)).ok()
    assert await marks(hook) == []


async def test_the_go_channel_reads_what_ours_has_stored(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    """Header names are compared to the letter there, so that they have to be stored in lower case."""
    await hook.sync(channel(entry("aaaa-1")))
    await peer.publish(1, as_ours)

    raw = await stranger.jetstream().get_msg(STREAM, 1)

    assert raw.subject == SUBJECT
    assert raw.headers is not None
    assert {name: value for name, value in raw.headers.items() if name != "Nats-Msg-Id"} == {
        "ce-specversion": "1.0",
        "ce-id": "0",
        "ce-source": "/s",
        "ce-type": "t",
        "content-type": "text/plain",
    }
    assert raw.data == b"0"
