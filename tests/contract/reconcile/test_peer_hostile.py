"""Streams and consumers that somebody has changed, before us or beside us: they are served, told of, or let be."""

from __future__ import annotations

from typing import Any

import nats.aio.client
import pytest

from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook, condition
from tests.support.nats.go_channel import DELIVER, STREAM, SUBJECT, THEIRS, GoChannel
from tests.support.nats.strangers import flushed

SECOND = 1_000_000_000
READY = [{"uid": "aaaa-1", "observedGeneration": 1, "ready": "True"}]
OVERFLOW = {"priority_groups": ["jobs"], "priority_policy": "overflow"}
PINNED = {"priority_groups": ["jobs"], "priority_policy": "pinned_client", "priority_timeout": 60 * SECOND}
# As far as it tells nothing of the subscriber; with the names it is still this channel's.
DAMAGED = {
    "headrace.dev/subscriber": '{"namespace": 3}',
    "headrace.dev/namespace": "shop",
    "headrace.dev/channel": "orders",
}


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


@pytest.fixture
def peer(hook: Hook, stranger: nats.aio.client.Client) -> GoChannel:
    return GoChannel(hook, stranger)


async def make_stream(hook: Hook, **config: Any) -> None:
    body = {"name": STREAM, "subjects": [SUBJECT], "storage": "file", "num_replicas": 1, **config}
    await hook.api.call(f"STREAM.CREATE.{STREAM}", body)


async def edit(hook: Hook, **changes: Any) -> None:
    """Somebody changes the consumer by hand."""
    before = await hook.consumer(STREAM, THEIRS)
    assert before is not None
    body = {"stream_name": STREAM, "action": "update", "config": {**before, **changes}}
    await hook.api.call(f"CONSUMER.CREATE.{STREAM}.{THEIRS}", body)


@pytest.mark.parametrize("ours", [pytest.param(False, id="of the Go channel"), pytest.param(True, id="of ours")])
@pytest.mark.parametrize(
    "hostile",
    [
        pytest.param({"headers_only": True}, id="events without their data"),
        pytest.param({"inactive_threshold": 600 * SECOND}, id="it goes while the channel sleeps"),
        pytest.param({"backoff": [SECOND, 5 * SECOND], "max_deliver": 3}, id="it comes again while it is in hand"),
        pytest.param(OVERFLOW, id="only a group's pulls are taken"),
        pytest.param(PINNED, id="only one client's pulls are taken"),
    ],
)
async def test_a_pull_consumer_that_deliveries_would_break_with_is_mended(
    hook: Hook, peer: GoChannel, hostile: dict[str, Any], ours: bool
) -> None:
    parent = channel(entry("aaaa-1"))
    if ours:
        await hook.sync(parent)
        await edit(hook, **hostile)
    else:
        await peer.make("limits", **hostile)

    answer = await hook.sync(parent)

    assert answer["status"]["subscribers"] == READY
    mended = await hook.consumer(STREAM, THEIRS)
    assert mended is not None
    left = {key: mended.get(key) for key in hostile if key not in ("max_deliver",)}
    assert {key for key, value in left.items() if value not in (None, 0, [], False, "none")} == set()
    assert (mended["ack_wait"], mended["max_deliver"]) == (8 * SECOND, -1)
    await peer.publish(2)
    assert await peer.pulled(THEIRS) == [0, 1]
    # What can't be kept would be written again with every call.
    await hook.sync(parent)
    assert hook.changes == []


async def test_limits_of_pulls_go_at_a_take_over_and_are_kept_when_they_are_put_on_ours(
    hook: Hook, peer: GoChannel
) -> None:
    limits = {"max_batch": 1, "max_expires": SECOND, "max_bytes": 10}
    await peer.make("limits", **limits)
    parent = channel(entry("aaaa-1"))
    await hook.sync(parent)
    taken = await hook.consumer(STREAM, THEIRS)
    assert taken is not None
    assert not limits.keys() & taken.keys()

    await edit(hook, **limits)
    await hook.sync(parent)
    # They may be the server's, which would put them back; `forward` obeys them.
    assert hook.changes == []


async def test_what_nats_does_not_change_on_a_consumer_is_told(hook: Hook, peer: GoChannel) -> None:
    await peer.make("limits", mem_storage=True)
    answer = await hook.sync(channel(entry("aaaa-1")))
    [row] = answer["status"]["subscribers"]
    assert (row["ready"], row["message"][:22]) == ("True", "mem_storage stays True")
    await hook.sync(channel(entry("aaaa-1")))
    assert hook.changes == []


async def test_a_consumer_whose_mark_is_nonsense_is_known_by_its_name_and_keeps_its_position(
    hook: Hook, peer: GoChannel
) -> None:
    parent = channel(entry("aaaa-1"))
    await hook.sync(parent)
    await peer.publish(3)
    assert await peer.pulled(THEIRS) == [0, 1, 2]
    await edit(hook, metadata=DAMAGED)

    for _ in range(2):
        answer = await hook.sync(parent)
        # Beyond the grace of one that nobody wants.
        hook.later(120)

    assert answer["status"]["subscribers"] == READY
    found = await hook.subscriber(STREAM, THEIRS)
    assert found is not None
    assert found.uid == "aaaa-1"
    await peer.publish(1)
    assert await peer.pulled(THEIRS) == [3]


@pytest.mark.parametrize(
    "consumer",
    [
        pytest.param({"ack_policy": "all"}, id="it acknowledges otherwise"),
        pytest.param({"ack_policy": "none", "max_deliver": -1}, id="it acknowledges nothing"),
        pytest.param({"deliver_subject": "somebody.elses"}, id="it is pushed elsewhere"),
        pytest.param({"metadata": {"headrace.dev/other": "1"}}, id="it has a mark of ours that says nothing"),
        pytest.param({"metadata": {"headrace.dev/subscriber": "]"}}, id="its mark is nonsense, and no channel's"),
    ],
)
async def test_a_consumer_of_that_name_that_nobody_can_tell_whose_it_is_is_let_be_and_told_of(
    hook: Hook, peer: GoChannel, consumer: dict[str, Any]
) -> None:
    await peer.make("limits", **consumer)
    before = await hook.consumer(STREAM, THEIRS)

    answer = await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))
    hook.later(120)
    await hook.sync(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))
    await hook.finalize(channel(entry("aaaa-1"), entry("bbbb-2", "mail")))

    first, second = answer["status"]["subscribers"]
    assert (first["ready"], second["ready"]) == ("False", "True")
    told = "is a push consumer" if "deliver_subject" in consumer else "exists"
    assert f"consumer {THEIRS} {told}" in first["message"]
    assert await hook.consumer(STREAM, THEIRS) == before


async def test_a_push_consumer_with_a_subscriber_beside_its_group_is_still_delivered_from(
    hook: Hook, peer: GoChannel, stranger: nats.aio.client.Client
) -> None:
    """Without a group: the first dispatchers made it so."""
    await peer.make("limits", deliver_subject=DELIVER)
    listening = await stranger.subscribe(DELIVER)
    await flushed(stranger)
    answer = await hook.sync(channel(entry("aaaa-1")))
    assert condition(answer, "PeerTakenOver")["reason"] == "PeerStillDelivers"
    assert await hook.durables(STREAM) == [THEIRS]
    await listening.unsubscribe()


# ── streams of that name ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_stream_that_takes_the_subject_by_a_wildcard_is_somebody_elses_and_stays_as_it_is(hook: Hook) -> None:
    await make_stream(hook, subjects=["shop.*._knative", "legacy.>"], max_msgs=77)
    before = await hook.stream(STREAM)

    answer = await hook.sync(channel(entry("aaaa-1")))

    assert condition(answer, "Ready")["status"] == "True"
    made = await hook.consumer(STREAM, THEIRS)
    assert made is not None
    assert made["filter_subject"] == SUBJECT
    await hook.finalize(channel(entry("aaaa-1")))
    assert await hook.stream(STREAM) == before
    assert await hook.durables(STREAM) == []


async def test_one_that_takes_the_subjects_of_the_aside_stream_too_is_told_of_in_the_servers_words(hook: Hook) -> None:
    await make_stream(hook, subjects=["shop.>"])
    before = await hook.stream(STREAM)

    answer = await hook.sync(channel(entry("aaaa-1")))

    told = condition(answer, "StreamReady")
    assert (told["status"], "subjects overlap" in told["message"]) == ("False", True)
    assert await hook.stream(STREAM) == before


async def test_a_stream_of_the_go_channel_that_answers_no_publish_is_mended(
    hook: Hook, stranger: nats.aio.client.Client
) -> None:
    await make_stream(hook, no_ack=True)
    answer = await hook.sync(channel(entry("aaaa-1")))
    assert condition(answer, "Ready")["status"] == "True"
    assert (await stranger.jetstream().publish(SUBJECT, b"{}", timeout=30)).seq == 1


async def test_a_sealed_stream_is_told_of_and_what_it_holds_can_be_delivered(hook: Hook, peer: GoChannel) -> None:
    await make_stream(hook)
    await peer.publish(2)
    sealed = {**(await hook.stream(STREAM) or {}), "sealed": True}
    await hook.api.call(f"STREAM.UPDATE.{STREAM}", sealed)

    answer = await hook.sync(channel(entry("aaaa-1")))

    assert condition(answer, "Ready")["status"] == "False"
    assert condition(answer, "StreamReady")["reason"] == "StreamSealed"
    assert await peer.pulled(THEIRS) == [0, 1]
    await hook.sync(channel(entry("aaaa-1")))
    assert hook.changes == []


async def test_channels_of_two_namespaces_whose_names_look_alike_share_nothing(hook: Hook) -> None:
    """`a--b` and `c` spell like `a` and `b--c`."""
    places = [("a--b", "c"), ("a", "b--c"), ("a-b", "c"), ("a", "b-c")]
    parents = [channel(entry("aaaa-1"), name=name, namespace=namespace, uid=name) for namespace, name in places]
    for parent in parents:
        assert condition(await hook.sync(parent), "Ready")["status"] == "True"
    listed = (await hook.api.call("STREAM.NAMES"))["streams"]
    assert len(listed) == 2 * len(places)
    await hook.finalize(parents[0])
    assert len((await hook.api.call("STREAM.NAMES"))["streams"]) == 2 * (len(places) - 1)
    for parent in parents[1:]:
        await hook.sync(parent)
        assert hook.changes == []
