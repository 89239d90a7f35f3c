"""Parked events on a real server: listed, counted, shown and discarded; what `forward` parks the library reads back."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from headrace.core.delivery.parked import ParkedFilter
from headrace.core.errors import Refused
from headrace.io.jetstream.aside import Page
from headrace.io.nats.client import Client
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.parking import ids, park, shelf
from tests.support.nats.streams import Nats, binary_event
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

SECOND = timedelta(seconds=1)

# ── list, count, show ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_parked_is_listed_oldest_first(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(400))
    lane = await nats.serve(forward, subscriber=place.uri)
    for id in ("a", "b"):
        await park(lane, id)
    page = await shelf(client, lane.channel).page()
    assert (ids(page), page.next) == (["a", "b"], None)
    first = page.events[0]
    assert (first.stream, first.sequence, first.subject) == (lane.channel.stream, 1, lane.channel.subject)
    assert (first.consumer, first.subscription) == (lane.consumer, "demo/billing")
    assert (first.destination, first.status, first.attempts) == (place.uri, 400, 1)
    assert first.reason == "no dead letter sink, and subscriber gave status 400 on attempt 1"
    assert abs(first.parked_at - datetime.now(UTC)) < 60 * SECOND
    assert (first.data, first.size) == (b"", 8)


async def test_pages_follow_one_another(nats: Nats, client: Client, forward: Function, subscriber: Subscriber) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    for id in "abcde":
        await park(lane, id)
    events = shelf(client, lane.channel)
    first = await events.page(limit=2)
    assert first.next is not None
    second = await events.page(after=first.next, limit=2)
    assert second.next is not None
    third = await events.page(after=second.next, limit=2)
    assert (ids(first), ids(second), ids(third), third.next) == (["a", "b"], ["c", "d"], ["e"], None)


async def test_a_list_is_narrowed_by_subscription_time_and_reason(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri, name="billing")
    other = await nats.serve(forward, lane.channel, subscriber=subscriber.place(Say(422)).uri, name="audit")
    await park(lane, "a")
    await park(other)
    await asyncio.sleep(0.05)
    between = datetime.now(UTC)
    await asyncio.sleep(0.05)
    await park(lane, "b")
    await park(other)
    events = shelf(client, lane.channel)
    assert ids(await events.page(ParkedFilter(subscription="demo/audit"))) == ["a", "b"]
    assert ids(await events.page(ParkedFilter(since=between, subscription="demo/billing"))) == ["b"]
    assert ids(await events.page(ParkedFilter(until=between, subscription="demo/billing"))) == ["a"]
    assert [one.subscription for one in (await events.page(ParkedFilter(reason="Status 422"))).events] == [
        "demo/audit"
    ] * 2
    assert await events.counts() == {"demo/billing": 2, "demo/audit": 2}
    assert await events.counts(ParkedFilter(since=between)) == {"demo/billing": 1, "demo/audit": 1}


async def test_more_than_one_batch_is_listed_whole(nats: Nats, client: Client) -> None:
    channel = await nats.make_channel()
    ours = {
        "Headrace-Origin-Stream": channel.stream,
        "Headrace-Origin-Subject": channel.subject,
        "Headrace-Consumer": "C",
        "Headrace-Subscription": "demo/billing",
        "Headrace-Attempts": "1",
        "Headrace-Reason": "no",
    }
    prefix = f"{channel.namespace}.{channel.name}._knative_aside"
    for number in range(1, 1202):
        headers = {**ours, "Headrace-Origin-Sequence": str(number), **binary_event(str(number))}
        await nats.client.publish(f"{prefix}.parked.C.{number}.{number}", b"x" * 10, headers=headers)
    # Others that live in an aside stream.
    await nats.store(f"{prefix}.stage.C.1", b"{}")
    await nats.store(f"{prefix}.parked.C.9999.1", b"by hand")
    events = shelf(client, channel)
    assert await events.counts() == {"demo/billing": 1201}
    assert len((await events.page(limit=5000)).events) == 1201
    left = await nats.call(f"CONSUMER.NAMES.{channel.aside}")
    assert left["consumers"] in (None, [])


async def test_nothing_parked_is_an_empty_list(nats: Nats, client: Client) -> None:
    events = shelf(client, await nats.make_channel())
    assert (await events.page(), await events.counts()) == (Page((), None), {})


async def test_one_event_is_shown_with_its_bytes(
    nats: Nats, client: Client, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    stored = {**binary_event("1", note="gr%C3%BC"), "traceparent": "00-1-2-01"}
    await nats.store(lane.channel.subject, b"\x00\xff", stored)
    await park(lane)
    events = shelf(client, lane.channel)
    shown = await events.show((await events.page()).events[0].position)
    assert (dict(shown.headers), shown.data, shown.size) == (stored, b"\x00\xff", 2)
    assert (shown.event.attributes["note"], shown.passing) == ("grü", ((b"traceparent", b"00-1-2-01"),))


@pytest.mark.parametrize("position", [7, 1])
async def test_where_nothing_is_parked_nothing_is_shown(nats: Nats, client: Client, position: int) -> None:
    channel = await nats.make_channel()
    await nats.store(f"{channel.namespace}.{channel.name}._knative_aside.stage.C.1", b"{}")
    with pytest.raises(Refused) as refused:
        await shelf(client, channel).show(position)
    assert refused.value.status == 404


# ── discard ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_what_is_discarded_is_gone(nats: Nats, client: Client, forward: Function, subscriber: Subscriber) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "a")
    await park(lane, "b")
    events = shelf(client, lane.channel)
    first, second = (await events.page()).events
    assert await events.discard(first.position)
    assert not await events.discard(first.position)
    assert not await events.discard(999)
    assert [one.position for one in (await events.page()).events] == [second.position]


# ── a stream that was lost and made again ───────────────────────────────────────────────────────────────────────────


async def test_events_of_a_stream_that_was_made_again_are_parked_beside_the_old_ones(
    nats: Nats, forward: Function, client: Client, subscriber: Subscriber
) -> None:
    """Sequences begin again at 1, and the consumer has the same name."""
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "before")
    info = await lane.info()
    await nats.call(f"STREAM.DELETE.{lane.channel.stream}")
    await nats.make_stream(lane.channel.stream, lane.channel.subject)
    again = {"stream_name": lane.channel.stream, "config": info["config"]}
    await nats.call(f"CONSUMER.CREATE.{lane.channel.stream}.{lane.consumer}", again)
    await park(lane, "after")
    events = shelf(client, lane.channel)

    async def both() -> bool:
        return ids(await events.page()) == ["before", "after"]

    await until("both are parked", both)
    assert [one.sequence for one in (await events.page()).events] == [1, 1]
