"""`peek` and `tail` show what is there, and leave no trace."""

from __future__ import annotations

import asyncio

import pytest

from tests.cli.conftest import marked
from tests.support.laptop.cli import Cli
from tests.support.nats.streams import Channel, Nats, binary_event


async def store(nats: Nats, channel: Channel, *ids: str, **attributes: str) -> None:
    for id in ids:
        await nats.store(channel.subject, b'{"n": 1}', binary_event(id, **attributes))


async def peeked(cli: Cli, channel: Channel, *options: str) -> list[str]:
    ran = await cli("peek", channel.path[1:], "-o", "json", *options)
    return [line["event"]["id"] for line in ran.ok().lines]


async def test_peek_shows_the_last_ten_or_from_a_sequence(cli: Cli, nats: Nats, orders: Channel) -> None:
    await store(nats, orders, *map(str, range(1, 16)))

    assert await peeked(cli, orders) == [str(n) for n in range(6, 16)]
    assert await peeked(cli, orders, "--sequence", "3", "--limit", "2") == ["3", "4"]
    assert await peeked(cli, orders, "--last", "2") == ["14", "15"]


async def test_peek_passes_over_what_was_deleted(cli: Cli, nats: Nats, orders: Channel) -> None:
    await store(nats, orders, *map(str, range(1, 8)))
    for sequence in (2, 5, 7):
        await nats.call(f"STREAM.MSG.DELETE.{orders.stream}", {"seq": sequence, "no_erase": True})

    assert await peeked(cli, orders, "--sequence", "2", "--limit", "9") == ["3", "4", "6"]
    assert await peeked(cli, orders, "--last", "3") == ["3", "4", "6"]


async def test_peek_by_time_begins_at_the_first_event_since(cli: Cli, nats: Nats, orders: Channel) -> None:
    await store(nats, orders, "1", "2")
    seen = (await cli("peek", orders.path[1:], "-o", "json", "--last", "1")).ok().lines[0]["stored"]
    await asyncio.sleep(0.005)
    await store(nats, orders, "3")

    assert await peeked(cli, orders, "--since", "1h") == ["1", "2", "3"]
    # The time is told in milliseconds, cut: 2 was stored within that one, 3 was not.
    assert (await peeked(cli, orders, "--since", seen))[-2:] == ["2", "3"]
    assert await peeked(cli, orders, "--since", "2100-01-01T00:00:00Z") == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (("--type", "shop.*"), ["a", "b"]),
        (("--type", "shop.order", "--type", "other"), ["a", "c"]),
        (("--source", "/eu/*"), ["b"]),
        (("--attribute", "tenant=x?"), ["c"]),
        (("--type", "shop.*", "--source", "/shop"), ["a"]),
    ],
)
async def test_filters(cli: Cli, nats: Nats, orders: Channel, options: tuple[str, ...], found: list[str]) -> None:
    await store(nats, orders, "a", type="shop.order")
    await store(nats, orders, "b", type="shop.paid", source="/eu/1")
    await store(nats, orders, "c", type="other", tenant="x1")

    assert await peeked(cli, orders, *options) == found


async def test_nobody_is_disturbed_where_a_consumer_would_count(cli: Cli, nats: Nats) -> None:
    channel = await marked(nats, retention="interest")
    await nats.make_consumer(channel, {})
    await store(nats, channel, "1", "2")

    assert await peeked(cli, channel) == ["1", "2"]

    state = (await nats.call(f"STREAM.INFO.{channel.stream}"))["state"]
    assert (state["messages"], state["consumer_count"]) == (2, 1)
    created = await nats.call(f"CONSUMER.LIST.{channel.stream}")
    assert created["consumers"][0]["delivered"]["consumer_seq"] == 0


async def test_the_pretty_form_shows_attributes_and_data_and_nothing_that_a_terminal_obeys(
    cli: Cli, nats: Nats, orders: Channel
) -> None:
    headers = {**binary_event("1", tenant="a"), "content-type": "text/plain"}
    await nats.store(orders.subject, b"red \x1b[31m", headers)

    out = (await cli("peek", orders.path[1:])).ok().out

    assert out.startswith("#1  20")
    assert "  tenant:           a\n" in out
    assert "  red \\x1b[31m\n" in out


async def test_what_is_for_scripts_is_the_same_event_without_anything_that_a_terminal_obeys(
    cli: Cli, nats: Nats, orders: Channel
) -> None:
    hostile = "\x9b31mred\u202eder\u2066\u2028\ufeff\x7f"
    await nats.store(orders.subject, hostile.encode(), {**binary_event("1"), "content-type": "text/plain"})

    ran = (await cli("peek", orders.path[1:], "-o", "json")).ok()

    assert ran.out.removesuffix("\n").isprintable()
    assert ran.lines[0]["event"]["data"] == hostile


async def test_tail_shows_what_comes(cli: Cli, nats: Nats, orders: Channel) -> None:
    await store(nats, orders, "before")
    tail = asyncio.create_task(cli("tail", orders.path[1:], "-o", "json", "--sequence", "1", "--count", "3"))
    await store(nats, orders, "1", "2")

    ran = await tail

    assert [line["event"]["id"] for line in ran.ok().lines] == ["before", "1", "2"]


async def test_an_empty_channel_says_so(cli: Cli, orders: Channel) -> None:
    ran = await cli("peek", orders.path[1:])

    assert (ran.ok().out, ran.err) == ("", "nothing is there: the stream is empty\n")
