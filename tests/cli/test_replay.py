"""`replay` brings stored events again, to the receiver that it is given, and can stop and go on at any of them."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.streams import Channel, Nats, binary_event


async def store(nats: Nats, channel: Channel, *ids: str, **attributes: str) -> None:
    for id in ids:
        await nats.store(channel.subject, b'{"n": 1}', binary_event(id, **attributes))


async def ids(nats: Nats, channel: Channel) -> list[str]:
    return [each.headers["ce-id"] for each in await nats.stored(channel.stream)]


async def test_a_replay_to_one_subscription_reaches_it_alone(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    mine, others = subscriber.place(Say()), subscriber.place(Say())
    lane = await nats.serve(forward, await marked(nats), subscriber=mine.uri, name="billing")
    other = await nats.serve(forward, lane.channel, subscriber=others.uri, name="audit")
    await lane.store("a", "b", "c")
    await lane.lease()
    await other.lease()

    ran = await cli("replay", lane.channel.path[1:], "--sequence", "2", "--to-subscription", "billing")

    assert "2 events of" in ran.ok().err
    assert (await lane.lease())["delivered"] == 2
    assert (await other.lease())["skipped"] == 2
    assert (sorted(mine.ids[:3]), sorted(mine.ids[3:])) == (["a", "b", "c"], ["b", "c"])
    assert len(others.received) == 3


async def test_a_replay_is_published_where_a_stream_that_moves_subjects_listens(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say())
    moved = await marked(nats, subject_transform={"src": ">", "dest": "v1.>"})
    lane = await nats.serve(forward, moved, subscriber=place.uri)
    await lane.store("a")
    await lane.lease()

    (await cli("replay", moved.path[1:], "--from-start", "--to-subscription", "billing")).ok()

    assert (await lane.lease())["delivered"] == 1
    assert place.ids == ["a", "a"]
    assert {one.subject for one in await nats.stored(moved.stream)} == {f"v1.{moved.subject}"}


async def test_copies_are_not_copied_again(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a")
    for _ in range(2):
        (await cli("replay", lane.channel.path[1:], "--from-start", "--to-subscription", "billing")).ok()

    assert await ids(nats, lane.channel) == ["a", "a", "a"]


async def test_a_replay_to_a_channel_is_filtered_and_its_events_are_the_same(
    cli: Cli, nats: Nats, orders: Channel
) -> None:
    await store(nats, orders, "a", type="shop.order", tenant="x")
    await store(nats, orders, "b", type="other")
    copies = await marked(nats)

    command = ("replay", orders.path[1:], "--since", "1h", "--type", "shop.*", "--to-channel", copies.path[1:])
    (await cli(*command, "--dry-run")).ok()
    assert await ids(nats, copies) == []
    (await cli(*command)).ok()

    (copy,) = await nats.stored(copies.stream)
    assert (copy.data, copy.headers["ce-id"], copy.headers["ce-tenant"]) == (b'{"n": 1}', "a", "x")


async def test_to_the_channel_itself_only_if_that_is_said(cli: Cli, nats: Nats, orders: Channel) -> None:
    await store(nats, orders, "a")
    command = ("replay", orders.path[1:], "--from-start", "--to-channel", orders.path[1:])

    assert (await cli(*command)).status == 2
    (await cli(*command, "--to-same-channel")).ok()

    assert await ids(nats, orders) == ["a", "a"]


async def test_it_stops_where_an_address_fails_and_goes_on_there(
    cli: Cli, nats: Nats, orders: Channel, subscriber: Subscriber, tmp_path: Path
) -> None:
    await store(nats, orders, "a", "b", "c")
    place = subscriber.place(Say(), Say(400), Say())
    checkpoint = tmp_path / "replay.json"
    command = ("replay", orders.path[1:], "--from-start", "--to-uri", place.uri, "--checkpoint", str(checkpoint))

    first = await cli(*command)
    kept = json.loads(checkpoint.read_text())
    second = await cli(*command)

    assert (first.status, (kept["next"], kept["last"], kept["replayed"])) == (1, (2, 3, 1))
    assert "sequence 2: " in first.err
    assert f"the same command with --checkpoint {checkpoint}" in first.err
    assert "going on at sequence 2 of 3" in second.ok().err
    assert place.ids == ["a", "b", "b", "c"]
    assert not checkpoint.exists()


async def test_it_stops_at_an_event_that_the_channel_behind_an_address_has(
    cli: Cli, nats: Nats, orders: Channel, receive: Function
) -> None:
    await store(nats, orders, "a", "b")
    copies = await marked(nats)
    command = ("replay", orders.path[1:], "--from-start", "--to-uri", receive.url + copies.path)

    (await cli(*command)).ok()
    again = await cli(*command)

    assert (again.status, "has an event of the same source and id" in again.err) == (1, True), again
    assert "it stopped at sequence 1" in again.err
    assert await ids(nats, copies) == ["a", "b"]


async def test_a_checkpoint_of_another_replay_is_refused(cli: Cli, nats: Nats, orders: Channel, tmp_path: Path) -> None:
    checkpoint = tmp_path / "replay.json"
    checkpoint.write_text(
        json.dumps({"run": "r", "stream": "OTHER", "target": "http://x", "next": 1, "last": 2, "replayed": 0})
    )

    options = ("--to-uri", "http://127.0.0.1:1/", "--checkpoint", str(checkpoint))
    ran = await cli("replay", orders.path[1:], "--from-start", *options)

    assert (ran.status, "is of a replay of OTHER to http://x" in ran.err) == (2, True)


async def test_the_same_run_again_stores_nothing_twice(cli: Cli, nats: Nats, orders: Channel) -> None:
    await store(nats, orders, "a", "b")
    copies = await marked(nats)
    command = ("replay", orders.path[1:], "--from-start", "--to-channel", copies.path[1:], "--run", "r1")

    for _ in range(2):
        (await cli(*command)).ok()

    assert await ids(nats, copies) == ["a", "b"]


async def test_nobody_to_get_them_and_no_beginning_are_mistakes(cli: Cli) -> None:
    nobody = await cli("replay", "orders", "--from-start")
    nowhere = await cli("replay", "orders", "--to-uri", "http://127.0.0.1:1/")

    assert (nobody.status, "nobody is to get them" in nobody.err) == (2, True)
    assert (nowhere.status, "say from where" in nowhere.err) == (2, True)


async def test_a_checkpoint_that_can_not_be_written_is_told_before_anything_is_brought(
    cli: Cli, nats: Nats, orders: Channel, tmp_path: Path
) -> None:
    await nats.store(orders.subject, b"", binary_event("a"))
    copies, file = await marked(nats), tmp_path / "nowhere" / "r.json"
    target = ("--to-channel", copies.path[1:], "--checkpoint", str(file))

    ran = await cli("replay", orders.path[1:], "--from-start", *target)

    assert (ran.status, ran.err) == (2, f"headrace: --checkpoint {file} can't be written: No such file or directory\n")
    assert await nats.stored(copies.stream) == []
