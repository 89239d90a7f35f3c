"""What `reconcile` makes of a channel on a real server: its streams."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import nats.aio.client
import pytest

from headrace.core import names
from headrace.core.errors import Unavailable
from headrace.io.nats.client import Client
from tests.support.functions.channels import UID, channel, entry, stream
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.nats_server import NatsServer

STREAM, ASIDE = "KN_SHOP__ORDERS", "KN_SHOP__ORDERS_aside"
BILLING = "KN_SUB_AAAA1"


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


async def test_a_new_channel_gets_its_stream_its_aside_and_a_consumer_per_subscriber(hook: Hook) -> None:
    answer = await hook.sync(channel(entry("aaaa-1", "billing"), entry("bbbb-2", "mail")))

    assert hook.changes == [
        f"STREAM.CREATE.{STREAM}",
        f"STREAM.CREATE.{ASIDE}",
        f"STREAM.PURGE.{ASIDE}",
        f"CONSUMER.CREATE.{STREAM}.KN_SUB_AAAA1",
        f"STREAM.PURGE.{ASIDE}",
        f"CONSUMER.CREATE.{STREAM}.KN_SUB_BBBB2",
    ]
    made = await hook.stream(STREAM)
    assert made is not None
    assert made["subjects"] == ["shop.orders._knative"]
    assert made["metadata"] == {
        "headrace.dev/cluster": "default",
        "headrace.dev/namespace": "shop",
        "headrace.dev/channel": "orders",
        "headrace.dev/uid": UID,
        "headrace.dev/role": "channel",
    }
    aside = await hook.stream(ASIDE)
    assert aside is not None
    assert aside["subjects"] == ["shop.orders._knative_aside.>"]
    assert (aside["max_msgs_per_subject"], aside["allow_direct"], aside["discard"]) == (1, True, "new")
    assert answer["status"]["stream"] == STREAM
    assert answer["status"]["address"] == {"url": "http://orders-kn-jsm-channel.shop.svc.cluster.local"}
    assert [(row["uid"], row["ready"]) for row in answer["status"]["subscribers"]] == [
        ("aaaa-1", "True"),
        ("bbbb-2", "True"),
    ]
    assert {one["type"]: one["status"] for one in answer["status"]["conditions"]} == {
        "AckWindowsOpen": "True",
        "Addressable": "True",
        "AsideStreamHasRoom": "True",
        "ConsumersReady": "True",
        "EventsFit": "True",
        "NoEventsDiscarded": "True",
        "NoEventsStuck": "True",
        "PullsServed": "True",
        "Ready": "True",
        "RetriesHeld": "True",
        "StreamHasRoom": "True",
        "StreamReady": "True",
        "TemplateObeyed": "True",
    }


FULL = {
    "additionalSubjects": ["legacy.orders.>"],
    "retention": "Interest",
    "maxMsgs": 1000,
    "maxBytes": 1_000_000,
    "discard": "New",
    "maxAge": "1h",
    "maxMsgSize": 65536,
    "storage": "Memory",
    "duplicateWindow": "30s",
}


async def test_a_second_run_changes_nothing(hook: Hook) -> None:
    parent = channel(
        entry("aaaa-1", replyUri="http://reply/", subscriberUri="http://billing/"),
        stream=stream(**FULL),
        consumerConfigTemplate={
            "deliverPolicy": "ByStartTime",
            "optStartTime": "2026-01-01T01:00:00.500+01:00",
            "sampleFrequency": "30%",
            "maxAckPending": 7,
            "filterSubject": "legacy.orders.new",
        },
        delivery={"retry": 3, "backoffDelay": "PT1S"},
    )
    first = await hook.sync(parent)
    before = await hook.stream(STREAM), await hook.stream(ASIDE), await hook.consumer(STREAM, BILLING)

    second = await hook.sync({**parent, "status": first["status"]})

    assert hook.changes == []
    assert (await hook.stream(STREAM), await hook.stream(ASIDE), await hook.consumer(STREAM, BILLING)) == before
    assert second == first


@pytest.mark.parametrize(
    "origin",
    [
        pytest.param({"mirror": {"name": "UPSTREAM", "filterSubject": "up.a"}}, id="a mirror"),
        pytest.param({"sources": [{"name": "UPSTREAM", "optStartSeq": "1"}, {"name": "OTHER"}]}, id="sources"),
    ],
)
async def test_a_second_run_changes_nothing_of_a_stream_that_copies(hook: Hook, origin: dict[str, object]) -> None:
    await hook.api.call("STREAM.CREATE.UPSTREAM", {"name": "UPSTREAM", "subjects": ["up.>"]})
    await hook.api.call("STREAM.CREATE.OTHER", {"name": "OTHER", "subjects": ["other.>"]})
    parent = channel(entry(), stream=stream(**origin))

    first = await hook.sync(parent)
    assert condition(first, "StreamReady")["status"] == "True"
    await hook.sync(parent)

    assert hook.changes == []


async def test_a_mirror_is_read_only_and_ready(hook: Hook) -> None:
    await hook.api.call("STREAM.CREATE.UPSTREAM", {"name": "UPSTREAM", "subjects": ["up.>"]})

    answer = await hook.sync(channel(entry(), stream=stream(mirror={"name": "UPSTREAM"})))

    assert answer["status"]["address"]["url"].endswith("/read-only")
    assert condition(answer, "Addressable")["reason"] == "MirrorIsReadOnly"
    assert condition(answer, "Ready")["status"] == "True"
    assert answer["status"]["subscribers"][0]["ready"] == "True"
    made = await hook.stream(STREAM)
    assert made is not None
    assert made.get("subjects") is None


async def test_an_edit_takes_effect(hook: Hook) -> None:
    await hook.sync(channel(entry()))

    answer = await hook.sync(
        channel(entry(), generation=2, stream=stream(maxBytes=5_000_000, additionalSubjects=["legacy.orders"]))
    )

    made = await hook.stream(STREAM)
    assert made is not None
    assert made["max_bytes"] == 5_000_000
    assert made["subjects"] == ["shop.orders._knative", "legacy.orders"]
    assert hook.changes == [f"STREAM.UPDATE.{STREAM}"]
    assert answer["status"]["observedGeneration"] == 2


async def test_a_setting_that_is_taken_out_of_the_manifest_is_taken_back(hook: Hook) -> None:
    await hook.sync(channel(stream=stream(maxBytes=5_000_000, maxAge="1m", duplicateWindow="10s", discard="New")))

    await hook.sync(channel())

    made = await hook.stream(STREAM)
    assert made is not None
    assert (made["max_bytes"], made["max_age"], made["discard"]) == (-1, 0, "old")
    assert made["duplicate_window"] == 120_000_000_000


async def test_an_edit_that_the_server_refuses_shows_its_words_and_the_subscribers_are_served_all_the_same(
    hook: Hook,
) -> None:
    await hook.sync(channel(entry("aaaa-1")))

    answer = await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail"), stream=stream(storage="Memory")))

    ready = condition(answer, "StreamReady")
    assert (ready["status"], ready["reason"]) == ("False", "StreamUpdateRefused")
    assert "can not change storage type" in ready["message"]
    assert condition(answer, "Ready")["reason"] == "StreamUpdateRefused"
    assert [row["ready"] for row in answer["status"]["subscribers"]] == ["True", "True"]
    assert await hook.durables(STREAM) == ["KN_SUB_AAAA1", "KN_SUB_BBBB2"]
    assert answer["resyncAfterSeconds"] > 0


async def test_a_stream_that_the_server_refuses_to_make_leaves_the_channel_not_ready(hook: Hook) -> None:
    answer = await hook.sync(channel(entry(), stream=stream(replicas=3)))

    ready = condition(answer, "StreamReady")
    assert (ready["status"], ready["reason"]) == ("False", "StreamCreateRefused")
    assert "replicas > 1 not supported in non-clustered mode" in ready["message"]
    assert "address" not in answer["status"]
    assert answer["status"]["subscribers"][0]["ready"] == "False"
    assert "replicas > 1" in answer["status"]["subscribers"][0]["message"]
    assert await hook.stream(ASIDE) is None


async def test_keys_that_we_do_not_know_survive_an_update(hook: Hook) -> None:
    await hook.sync(channel(entry()))
    config = await hook.stream(STREAM)
    assert config is not None
    by_hand = {"allow_msg_ttl": True, "deny_delete": True, "description": "by hand"}
    metadata = {**config["metadata"], "team": "a"}
    await hook.api.call(f"STREAM.UPDATE.{STREAM}", {**config, **by_hand, "metadata": metadata})
    consumer = await hook.consumer(STREAM, BILLING)
    assert consumer is not None
    until = "2099-01-01T00:00:00Z"
    described = {**consumer, "description": "by hand"}
    await hook.api.call(
        f"CONSUMER.CREATE.{STREAM}.{BILLING}", {"stream_name": STREAM, "config": described, "action": "update"}
    )
    await hook.api.call(f"CONSUMER.PAUSE.{STREAM}.{BILLING}", {"pause_until": until})

    await hook.sync(channel(entry(generation=2, subscriberUri="http://new/"), stream=stream(maxBytes=5_000_000)))

    made, changed = await hook.stream(STREAM), await hook.consumer(STREAM, BILLING)
    assert made is not None
    assert changed is not None
    assert made["max_bytes"] == 5_000_000
    assert {key: made[key] for key in by_hand} == by_hand
    assert made["metadata"]["team"] == "a"
    assert (changed["description"], changed["pause_until"]) == ("by hand", until)


async def test_a_stream_lost_on_the_server_is_made_again_with_its_consumers(hook: Hook) -> None:
    parent = channel(entry("aaaa-1"), entry("bbbb-2", "mail"))
    await hook.sync(parent)
    await hook.api.call(f"STREAM.DELETE.{STREAM}")

    answer = await hook.sync(parent)

    assert await hook.durables(STREAM) == ["KN_SUB_AAAA1", "KN_SUB_BBBB2"]
    assert condition(answer, "Ready")["status"] == "True"


async def test_a_stream_made_anew_does_not_inherit_the_stage_records_of_the_lost_one_but_keeps_what_is_parked(
    hook: Hook, stranger: nats.aio.client.Client
) -> None:
    parent = channel(entry("aaaa-1"))
    await hook.sync(parent)
    await _put_aside(stranger, "stage", "parked")
    await hook.api.call(f"STREAM.DELETE.{STREAM}")

    await hook.sync(parent)

    info = await hook.api.call(f"STREAM.INFO.{ASIDE}", {"subjects_filter": ">"})
    assert list(info["state"]["subjects"]) == [f"shop.orders._knative_aside.parked.{BILLING}.1"]


async def test_names_that_are_not_plain_are_legal_to_the_server(hook: Hook) -> None:
    for name in ("a.b.c", "a--b", "x" * 63):
        answer = await hook.sync(channel(entry("aaaa-1"), name=name, uid=f"uid-{name[0]}"))

        assert condition(answer, "Ready")["status"] == "True", name
        assert await hook.stream(names.stream("shop", name)) is not None


async def test_a_channel_whose_spec_makes_no_sense_changes_nothing_and_says_why(hook: Hook) -> None:
    good = await hook.sync(channel(entry()))

    answer = await hook.sync(channel(entry(), generation=2, stream=stream(retention="Limit"), status=good["status"]))

    assert hook.changes == []
    ready = condition(answer, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    assert "spec.stream.config.retention is 'Limit'" in ready["message"]
    assert answer["status"]["observedGeneration"] == 2
    assert answer["status"]["subscribers"] == good["status"]["subscribers"]


async def test_without_nats_the_answer_is_to_wait(hook: Hook, nats_server: NatsServer) -> None:
    await hook.sync(channel(entry()))
    nats_server.kill()

    with pytest.raises(Unavailable):
        await hook.sync(channel(entry()))


async def test_a_restart_of_nats_is_survived(hook: Hook, connection: Client, nats_server: NatsServer) -> None:
    await hook.sync(channel(entry()))
    lost = asyncio.Event()
    connection.on_disconnect.append(lost.set)
    nats_server.kill()
    await lost.wait()
    nats_server.start()

    answer = await hook.sync(channel(entry()))

    assert hook.changes == []
    assert condition(answer, "Ready")["status"] == "True"


async def _put_aside(stranger: nats.aio.client.Client, *kinds: str) -> None:
    for kind in kinds:
        await stranger.jetstream().publish(f"shop.orders._knative_aside.{kind}.{BILLING}.1", b"{}")


async def test_the_time_of_the_last_change_stays_while_a_condition_stays(hook: Hook) -> None:
    first = await hook.sync(channel(entry()))
    hook.later(timedelta(hours=1).total_seconds())

    second = await hook.sync(channel(entry(), status=first["status"]))

    assert condition(second, "Ready")["lastTransitionTime"] == "2026-01-31T12:00:00Z"
