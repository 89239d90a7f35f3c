"""What `reconcile` makes of a channel on a real server: its consumers, while the list of subscribers lies."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import nats.aio.client
import pytest

from headrace.core.delivery.subscriber import METADATA_KEY, SubscriberState
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.reconciling import Hook, WatchedApi

STREAM = "KN_SHOP__ORDERS"
BILLING, MAIL = "KN_SUB_AAAA1", "KN_SUB_BBBB2"


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection, RECONCILE_GONE_GRACE=timedelta(seconds=60))


async def test_the_consumer_is_a_pull_consumer_without_a_budget_of_its_own(hook: Hook) -> None:
    await hook.sync(
        channel(entry(), consumerConfigTemplate={"ackWait": "30s", "maxDeliver": 3, "consumerType": "Push"})
    )

    made = await hook.consumer(STREAM, BILLING)

    assert made is not None
    assert "deliver_subject" not in made
    assert made["ack_wait"] == 8_000_000_000
    assert made["max_deliver"] == -1
    assert made["max_ack_pending"] == 10_000
    assert {key: value for key, value in made["metadata"].items() if key != METADATA_KEY} == {
        "headrace.dev/namespace": "shop",
        "headrace.dev/channel": "orders",
        "headrace.dev/subscription": "billing",
    }


async def test_a_changed_subscriber_is_written_to_its_consumer(hook: Hook) -> None:
    await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))

    answer = await hook.sync(
        channel(entry("aaaa-1", generation=2, subscriberUri="https://new/"), entry("bbbb-2", "mail"))
    )

    assert hook.changes == [f"CONSUMER.CREATE.{STREAM}.{BILLING}"]
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert subscriber.subscriber is not None
    assert subscriber.subscriber.uri == "https://new/"
    assert answer["status"]["subscribers"][0]["observedGeneration"] == 2


async def test_a_change_of_the_entry_within_its_generation_counts(hook: Hook) -> None:
    await hook.sync(channel(entry(delivery={"retry": 7})))

    await hook.sync(channel(entry(delivery={"retry": 9})))

    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert subscriber.policy.retry == 9


async def test_an_older_generation_never_overwrites_a_newer_one(hook: Hook) -> None:
    await hook.sync(channel(entry(generation=5, subscriberUri="http://new/")))

    answer = await hook.sync(channel(entry(generation=4, subscriberUri="http://old/")))

    assert hook.changes == []
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert subscriber.subscriber is not None
    assert subscriber.subscriber.uri == "http://new/"
    assert answer["status"]["subscribers"] == [{"uid": "aaaa-1", "observedGeneration": 5, "ready": "True"}]


async def test_a_consumer_whose_entry_vanished_waits_for_the_grace_and_is_deleted_after_it(hook: Hook) -> None:
    await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))

    gone = await hook.sync(channel(entry("bbbb-2", "mail")))
    marked = await hook.subscriber(STREAM, BILLING)
    assert marked is not None
    assert (marked.state, marked.gone_since) == (SubscriberState.GONE, "2026-01-31T12:00:00+00:00")
    assert 60 <= gone["resyncAfterSeconds"] <= 61

    hook.later(59)
    waiting = await hook.sync(channel(entry("bbbb-2", "mail")))
    assert hook.changes == []
    assert 1 <= waiting["resyncAfterSeconds"] <= 2

    hook.later(1)
    over = await hook.sync(channel(entry("bbbb-2", "mail")))
    assert await hook.durables(STREAM) == [MAIL]
    assert over["resyncAfterSeconds"] == 0


async def test_an_entry_that_returns_finds_its_position(hook: Hook, stranger: nats.aio.client.Client) -> None:
    await hook.sync(channel(entry()))
    await _publish_and_ack(stranger, 3)
    await hook.sync(channel())
    hook.later(30)

    answer = await hook.sync(channel(entry()))

    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert (subscriber.state, subscriber.gone_since) == (SubscriberState.READY, None)
    assert await _acked(hook.api, BILLING) == 3
    assert answer["status"]["subscribers"][0]["ready"] == "True"
    hook.later(300)
    await hook.sync(channel(entry()))
    assert await hook.durables(STREAM) == [BILLING]


async def test_a_stale_entry_that_returns_is_served_as_the_newer_one_was(hook: Hook) -> None:
    await hook.sync(channel(entry(generation=5)))
    await hook.sync(channel())

    await hook.sync(channel(entry(generation=4)))

    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert (subscriber.state, subscriber.generation) == (SubscriberState.READY, 5)


async def test_a_subscription_that_is_made_again_under_its_name_takes_the_consumer_over(
    hook: Hook, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry("aaaa-1", "billing", generation=7)))
    await _publish_and_ack(stranger, 3)

    answer = await hook.sync(channel(entry("cccc-3", "billing", generation=1, subscriberUri="http://new/")))

    assert await hook.durables(STREAM) == [BILLING]
    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert subscriber.subscriber is not None
    assert (subscriber.uid, subscriber.generation, subscriber.subscriber.uri) == ("cccc-3", 1, "http://new/")
    assert await _acked(hook.api, BILLING) == 3
    (served,) = answer["status"]["consumers"]
    assert (served["uid"], served["name"], served["durable"]) == ("cccc-3", "billing", BILLING)
    assert answer["status"]["subscribers"] == [{"uid": "cccc-3", "observedGeneration": 1, "ready": "True"}]


async def test_a_gone_consumer_is_taken_over_by_name_too(hook: Hook, stranger: nats.aio.client.Client) -> None:
    await hook.sync(channel(entry("aaaa-1", "billing")))
    await _publish_and_ack(stranger, 3)
    await hook.sync(channel())

    await hook.sync(channel(entry("cccc-3", "billing")))

    assert await hook.durables(STREAM) == [BILLING]
    assert await _acked(hook.api, BILLING) == 3


async def test_two_live_entries_of_one_name_have_a_consumer_each(hook: Hook) -> None:
    await hook.sync(channel(entry("aaaa-1", "billing")))

    answer = await hook.sync(channel(entry("aaaa-1", "billing"), entry("bbbb-2", "billing")))

    assert await hook.durables(STREAM) == [BILLING, MAIL]
    assert [row["ready"] for row in answer["status"]["subscribers"]] == ["True", "True"]


async def test_the_ghost_of_an_entry_whose_consumer_was_taken_over_gets_none(hook: Hook) -> None:
    await hook.sync(channel(entry("aaaa-1", "billing")))
    await hook.sync(channel(entry("cccc-3", "billing")))

    answer = await hook.sync(channel(entry("aaaa-1", "billing"), entry("cccc-3", "billing")))

    assert await hook.durables(STREAM) == [BILLING]
    ghost, live = answer["status"]["subscribers"]
    assert (ghost["ready"], live["ready"]) == ("False", "True")
    assert "out of date" in ghost["message"]


async def test_a_broken_entry_keeps_its_consumer_and_hurts_no_other(
    hook: Hook, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))
    await _publish_and_ack(stranger, 3)

    answer = await hook.sync(
        channel(entry("aaaa-1", generation=2, subscriberUri="ftp://billing/"), entry("bbbb-2", "mail"))
    )

    refused = await hook.subscriber(STREAM, BILLING)
    assert refused is not None
    assert refused.state is SubscriberState.REFUSED
    assert refused.subscriber is None
    billing, mail = answer["status"]["subscribers"]
    assert (billing["ready"], mail["ready"]) == ("False", "True")
    assert "only http and https" in billing["message"]
    assert await _acked(hook.api, BILLING) == 3


async def test_a_second_subscriber_that_the_server_refuses_shows_its_words_on_that_subscriber_only(hook: Hook) -> None:
    work = stream(retention="Work")

    answer = await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail"), stream=work))

    billing, mail = answer["status"]["subscribers"]
    assert (billing["ready"], mail["ready"]) == ("True", "False")
    assert "multiple non-filtered consumers not allowed on workqueue stream" in mail["message"]
    conditions = {one["type"]: one for one in answer["status"]["conditions"]}
    assert (conditions["ConsumersReady"]["status"], conditions["ConsumersReady"]["severity"]) == ("False", "Info")
    assert conditions["Ready"]["status"] == "True"
    assert answer["resyncAfterSeconds"] == pytest.approx(30, abs=1)


async def test_what_nats_can_not_change_on_a_consumer_stays_and_is_reported(hook: Hook) -> None:
    await hook.sync(channel(entry()))
    template = {"deliverPolicy": "New", "maxAckPending": 5, "replayPolicy": "Original"}
    parent = channel(entry(), consumerConfigTemplate=template)

    answer = await hook.sync(parent)

    made = await hook.consumer(STREAM, BILLING)
    assert made is not None
    assert (made["deliver_policy"], made["replay_policy"], made["max_ack_pending"]) == ("all", "instant", 5)
    row = answer["status"]["subscribers"][0]
    assert row["ready"] == "True"
    assert "deliver_policy stays 'all'" in row["message"]
    await hook.sync(parent)
    assert hook.changes == []


async def test_consumers_of_others_are_never_touched(hook: Hook) -> None:
    await hook.sync(channel(entry()))
    theirs = {"durable_name": "theirs", "name": "theirs", "ack_policy": "explicit"}
    await hook.api.call(f"CONSUMER.CREATE.{STREAM}.theirs", {"stream_name": STREAM, "config": theirs})

    await hook.sync(channel())
    hook.later(61)
    await hook.sync(channel())

    assert await hook.durables(STREAM) == ["theirs"]


@pytest.mark.parametrize("damaged", ["{", '{"v":1}', "null"])
async def test_metadata_damaged_by_hand_is_mended_and_the_position_kept(
    hook: Hook, stranger: nats.aio.client.Client, damaged: str
) -> None:
    await hook.sync(channel(entry()))
    await _publish_and_ack(stranger, 3)
    config = await hook.consumer(STREAM, BILLING)
    assert config is not None
    config["metadata"][METADATA_KEY] = damaged
    await hook.api.call(f"CONSUMER.CREATE.{STREAM}.{BILLING}", {"stream_name": STREAM, "config": config})

    answer = await hook.sync(channel(entry()))

    subscriber = await hook.subscriber(STREAM, BILLING)
    assert subscriber is not None
    assert (subscriber.uid, subscriber.state) == ("aaaa-1", SubscriberState.READY)
    assert await _acked(hook.api, BILLING) == 3
    assert answer["status"]["subscribers"][0]["ready"] == "True"


async def test_a_consumer_made_anew_does_not_inherit_stage_records(
    hook: Hook, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry()))
    for subject in (f"stage.{BILLING}.1", f"stage.{MAIL}.1", f"parked.{BILLING}.1"):
        await stranger.jetstream().publish(f"shop.orders._knative_aside.{subject}", b"{}")
    await hook.api.call(f"CONSUMER.DELETE.{STREAM}.{BILLING}")

    await hook.sync(channel(entry()))

    info = await hook.api.call(f"STREAM.INFO.{STREAM}_aside", {"subjects_filter": ">"})
    assert sorted(info["state"]["subjects"]) == [
        f"shop.orders._knative_aside.parked.{BILLING}.1",
        f"shop.orders._knative_aside.stage.{MAIL}.1",
    ]


async def test_a_subscriber_that_sees_all_again_is_told_of_the_next_event(
    hook: Hook, stranger: nats.aio.client.Client
) -> None:
    """NATS counts and signals nothing new to a consumer whose filter was taken away."""
    narrow = {"filterSubject": "shop.orders._knative"}
    await hook.sync(channel(entry(), consumerConfigTemplate=narrow))
    await hook.sync(channel(entry()))

    await stranger.jetstream().publish("shop.orders._knative", b"{}")

    info = await hook.api.call(f"CONSUMER.INFO.{STREAM}.{BILLING}")
    assert info["num_pending"] == 1
    await hook.sync(channel(entry()))
    assert hook.changes == []


async def _publish_and_ack(stranger: nats.aio.client.Client, count: int) -> None:
    jetstream = stranger.jetstream()
    for number in range(count):
        await jetstream.publish("shop.orders._knative", b"%d" % number)
    pull = await jetstream.pull_subscribe_bind(durable=BILLING, stream=STREAM)
    for message in await pull.fetch(count, timeout=30):
        await message.ack_sync()
    await pull.unsubscribe()


async def _acked(api: WatchedApi, durable: str) -> int:
    info: dict[str, Any] = await api.call(f"CONSUMER.INFO.{STREAM}.{durable}")
    floor: int = info["ack_floor"]["stream_seq"]
    return floor


@pytest.mark.parametrize("marked", [pytest.param(False, id="without our mark"), pytest.param(True, id="with our mark")])
async def test_a_push_consumer_that_somebody_has_made_under_our_name_is_told_with_what_to_do(
    hook: Hook, marked: bool
) -> None:
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))
    await hook.sync(parent)
    config = await hook.consumer(STREAM, BILLING)
    assert config is not None
    await hook.api.call(f"CONSUMER.DELETE.{STREAM}.{BILLING}")
    by_hand = {
        "durable_name": BILLING,
        "name": BILLING,
        "deliver_subject": "desk.7",
        "ack_policy": "explicit",
        "metadata": config["metadata"] if marked else {},
    }
    body = {"stream_name": STREAM, "config": by_hand}
    await hook.api.call(f"CONSUMER.DURABLE.CREATE.{STREAM}.{BILLING}", body)

    billing, mail = (await hook.sync(parent))["status"]["subscribers"]
    assert (billing["ready"], mail["ready"]) == ("False", "True")
    said = f"consumer {BILLING} is a push consumer, which delivers to the subject 'desk.7'"
    assert billing["message"].startswith(said)
    assert f"Delete it (nats consumer rm {STREAM} {BILLING}), and ours is made" in billing["message"]
    # It is left alone, since somebody may use it.
    assert hook.changes == []

    await hook.api.call(f"CONSUMER.DELETE.{STREAM}.{BILLING}")
    assert [row["ready"] for row in (await hook.sync(parent))["status"]["subscribers"]] == ["True", "True"]
