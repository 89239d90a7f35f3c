"""Pausing, resuming, resetting and deleting a Subscription; purging and deleting events: each says what it costs."""

from __future__ import annotations

import pytest

from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Place, Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.streams import Channel, Lane, Nats


async def delivered(
    nats: Nats, forward: Function, subscriber: Subscriber, *ids: str, **consumer: str
) -> tuple[Lane, Place]:
    """A subscriber that has got these events."""
    place = subscriber.place(Say())
    lane = await nats.serve(forward, await marked(nats), consumer, subscriber=place.uri)
    await lane.store(*ids)
    if ids:
        await lane.lease()
    return lane, place


async def test_a_paused_subscription_gets_nothing_until_it_is_resumed(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, place = await delivered(nats, forward, subscriber)

    paused = await cli("subscription", "pause", "demo/billing", "--channel", lane.channel.path[1:])
    await lane.store("a")
    assert (await lane.lease())["delivered"] == 0
    resumed = await cli("subscription", "resume", "demo/billing", "--channel", lane.channel.path[1:])
    assert (await lane.lease())["delivered"] == 1

    assert "demo/billing is paused until it is resumed" in paused.ok().out
    assert resumed.ok().out == "demo/billing goes on with 1 pending event\n"
    assert place.ids == ["a"]


async def test_a_pause_may_have_an_end(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane, _ = await delivered(nats, forward, subscriber)
    command = ("subscription", "pause", "demo/billing", "--channel", lane.channel.path[1:])

    assert (await cli(*command, "--until", "2020-01-01T00:00:00Z")).status == 2
    (await cli(*command, "--for", "1h")).ok()

    assert 3500e9 < (await lane.info())["pause_remaining"] < 3601e9


@pytest.mark.parametrize("policy", ["all", "new"], ids=["by the server", "by making it again"])
@pytest.mark.parametrize(
    ("options", "got"),
    [(("--to-sequence", "2"), ["b", "c"]), (("--all",), ["a", "b", "c"]), (("--to-time", "1h"), ["a", "b", "c"])],
)
async def test_a_reset_brings_events_again(
    cli: Cli,
    nats: Nats,
    forward: Function,
    subscriber: Subscriber,
    options: tuple[str, ...],
    got: list[str],
    policy: str,
) -> None:
    lane, place = await delivered(nats, forward, subscriber, "a", "b", "c", deliver_policy=policy)

    (await cli("subscription", "reset", "demo/billing", "--channel", lane.channel.path[1:], *options, "--yes")).ok()
    await lane.lease()

    # Nobody promises an order within a lease: the events are in flight together.
    assert (sorted(place.ids[:3]), sorted(place.ids[3:])) == (["a", "b", "c"], got)


async def test_a_reset_says_what_it_costs_and_asks(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, place = await delivered(nats, forward, subscriber, "a", "b")
    await lane.store("c", "d", "e")
    command = ("subscription", "reset", "demo/billing", "--channel", lane.channel.path[1:])

    dry = await cli(*command, "--to-sequence", "5", "--dry-run")
    asked = await cli(*command, "--new")
    await lane.lease()

    assert "At sequence 5 it never gets up to 2 events that it has not settled." in dry.ok().err
    assert (asked.status, "never gets up to 3 events" in asked.err, "add --yes" in asked.err) == (2, True, True)
    assert (sorted(place.ids[:2]), sorted(place.ids[2:])) == (["a", "b"], ["c", "d", "e"])
    (await cli(*command, "--new", "--yes")).ok()
    assert (await lane.info())["num_pending"] == 0


async def test_a_reset_beyond_the_end_is_refused(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, _ = await delivered(nats, forward, subscriber, "a", "b")
    command = ("subscription", "reset", "demo/billing", "--channel", lane.channel.path[1:], "--dry-run")

    beyond = await cli(*command, "--to-sequence", "4")

    assert (beyond.status, "--to-sequence is 4, but the stream's next event is 3" in beyond.err) == (2, True)
    (await cli(*command, "--to-sequence", "3")).ok()


async def test_a_purge_is_told_one_thing(cli: Cli, orders: Channel) -> None:
    ran = await cli("purge", orders.path[1:], "--keep", "1", "--all", "--dry-run")
    told = "--all is not alone: of --until-sequence, --older-than, --keep and --all one says how far"
    assert (ran.status, told in ran.err) == (2, True)


async def test_a_reset_that_would_lose_events_is_refused(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    channel = await marked(nats, retention="interest")
    lane = await nats.serve(forward, channel, {"deliver_policy": "new"}, subscriber=subscriber.place(Say()).uri)
    await lane.store("a")

    ran = await cli("subscription", "reset", "demo/billing", "--channel", channel.path[1:], "--all", "--yes")

    assert (ran.status, "would lose its events" in ran.err) == (1, True)
    assert (await lane.info())["num_pending"] == 1


async def test_a_reset_forgets_what_was_noted_of_deliveries(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    policy = {"retry": 3, "backoffDelay": "PT60S"}
    place = subscriber.place(Say(503), Say())
    lane = await nats.serve(forward, await marked(nats), subscriber=place.uri, policy=policy)
    await lane.store("a")
    await lane.lease()
    assert len(await lane.aside("stage")) == 1

    (await cli("subscription", "reset", "demo/billing", "--channel", lane.channel.path[1:], "--all", "--yes")).ok()

    assert await lane.aside("stage") == []
    assert (await lane.lease())["delivered"] == 1


async def test_a_consumer_is_deleted(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane, _ = await delivered(nats, forward, subscriber)
    await lane.store("a")
    command = ("subscription", "delete", lane.consumer, "--channel", lane.channel.path[1:])

    asked = await cli(*command)
    (await cli(*command, "--yes")).ok()

    assert "1 event is not delivered to it" in asked.err
    assert "a running operator makes it again" in asked.err
    assert (await nats.call(f"CONSUMER.LIST.{lane.channel.stream}"))["total"] == 0


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (("--all",), []),
        (("--until-sequence", "2"), [3, 4]),
        (("--keep", "1"), [4]),
        (("--older-than", "1h"), [1, 2, 3, 4]),
        (("--older-than", "0s"), []),
    ],
)
async def test_a_purge_takes_what_it_is_told(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber, options: tuple[str, ...], left: list[int]
) -> None:
    lane, _ = await delivered(nats, forward, subscriber, "a", "b", "c", "d")

    (await cli("purge", lane.channel.path[1:], *options, "--yes")).ok()

    assert [each.sequence for each in await nats.stored(lane.channel.stream)] == left


async def test_a_purge_says_whose_events_go(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane, _ = await delivered(nats, forward, subscriber, "a")
    await lane.store("b", "c")

    dry = await cli("purge", lane.channel.path[1:], "--until-sequence", "2", "--dry-run")
    asked = await cli("purge", lane.channel.path[1:], "--all")
    nothing = await cli("purge", lane.channel.path[1:])

    assert dry.ok().err.splitlines() == [
        f"2 events of {lane.channel.path[1:]} to be deleted for good.",
        "  demo/billing has not settled up to 1 of them",
        "Nothing was purged.",
    ]
    assert (asked.status, "has not settled up to 2 of them" in asked.err) == (2, True)
    assert (nothing.status, "say what goes" in nothing.err) == (2, True)
    assert len(await nats.stored(lane.channel.stream)) == 3


async def test_single_events_are_deleted_and_shown_before(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, _ = await delivered(nats, forward, subscriber, "a")
    await lane.store("b", "c")

    asked = await cli("rm-event", lane.channel.path[1:], "1", "2")
    missing = await cli("rm-event", lane.channel.path[1:], "9", "--yes")
    (await cli("rm-event", lane.channel.path[1:], "1", "2", "--yes")).ok()

    assert asked.status == 2
    assert "order.created b; not settled for sure by demo/billing" in asked.err
    assert "order.created a;" not in asked.err
    assert (missing.status, "holds no event at sequence 9" in missing.err) == (1, True)
    assert [each.sequence for each in await nats.stored(lane.channel.stream)] == [3]
