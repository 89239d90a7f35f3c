"""`send` stores the events that it is given, whichever way they go."""

from __future__ import annotations

import json

import pytest

from tests.support.functions.functions import Function
from tests.support.laptop.cli import Cli
from tests.support.nats.streams import Channel, Nats

LINE = {"specversion": "1.0", "id": "a", "source": "/s", "type": "t", "data": {"n": 1}}


async def test_an_event_from_options_is_stored_as_receive_stores_it(cli: Cli, nats: Nats, orders: Channel) -> None:
    ran = await cli("send", orders.name, "-n", orders.namespace, "--type", "t", "--id", "7", "--data", '{"n": 1}')

    assert ran.ok().out == f"sent 7 to {orders.namespace}/{orders.name} as sequence 1\n"
    (stored,) = await nats.stored(orders.stream)
    assert stored.data == b'{"n": 1}'
    assert stored.headers["ce-type"] == "t"
    assert stored.headers["content-type"] == "application/json"


async def test_fields_make_json_and_extensions_are_attributes(cli: Cli, nats: Nats, orders: Channel) -> None:
    fields = ("--field", "order.items=3", "--field", "order.to=Ann", "-e", "tenant=a")
    (await cli("send", orders.path[1:], "--type", "t", *fields)).ok()

    (stored,) = await nats.stored(orders.stream)
    assert json.loads(stored.data) == {"order": {"items": 3, "to": "Ann"}}
    assert stored.headers["ce-tenant"] == "a"


async def test_many_from_standard_input_and_the_same_again_are_stored_once(
    cli: Cli, nats: Nats, orders: Channel
) -> None:
    lines = b"".join(json.dumps({**LINE, "id": str(n)}).encode() + b"\n" for n in range(5))

    first = await cli("send", orders.path[1:], "-f", "-", stdin=lines)
    again = await cli("send", orders.path[1:], "-f", "-", "-o", "json", stdin=lines)

    assert first.ok().out == f"sent 5 events to {orders.path[1:]}\n"
    assert [line["duplicate"] for line in again.ok().lines] == [True] * 5
    assert len(await nats.stored(orders.stream)) == 5


async def test_the_same_again_is_told_to_be_delivered_no_more(cli: Cli, orders: Channel) -> None:
    one = ("send", orders.path[1:], "--type", "t", "--id", "7")
    (await cli(*one)).ok()

    again = await cli(*one)

    assert "as sequence 1, stored before and not delivered again" in again.ok().out


async def test_the_same_again_over_http_is_told_to_be_delivered_no_more(
    cli: Cli, orders: Channel, receive: Function
) -> None:
    one = ("send", orders.path[1:], "--type", "t", "--id", "7", "--url", receive.url + orders.path)
    first, again, lines = await cli(*one), await cli(*one), await cli(*one, "-o", "json")

    assert first.ok().out == f"sent 7 to {orders.path[1:]}\n"
    assert f"sent 7 to {orders.path[1:]}, stored before and not delivered again" in again.ok().out
    assert [line["duplicate"] for line in lines.ok().lines] == [True]


async def test_nobody_is_woken_for_an_event_that_was_stored_before(cli: Cli, nats: Nats, orders: Channel) -> None:
    hints = await nats.client.subscribe(f"headrace.wake.{orders.stream}")
    await nats.client.flush()
    for _ in range(2):
        (await cli("send", orders.path[1:], "--type", "t", "--id", "7")).ok()
    await nats.client.flush()

    assert hints.pending_msgs == 1


async def test_an_event_has_a_new_id_each_time_and_those_of_a_file_when_asked_for(
    cli: Cli, nats: Nats, orders: Channel
) -> None:
    lines = json.dumps(LINE).encode() + b"\n"
    for _ in range(2):
        (await cli("send", orders.path[1:], "--type", "t", "--count", "2")).ok()
        (await cli("send", orders.path[1:], "-f", "-", "--new-ids", stdin=lines)).ok()
        (await cli("send", orders.path[1:], "-f", "-", stdin=lines)).ok()

    ids = [each.headers["ce-id"] for each in await nats.stored(orders.stream)]
    assert len(set(ids)) == len(ids) == 7
    assert ids.count("a") == 1


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("-f", "-", "--id", "7"), "--id is for an event of --type"),
        (("-f", "-", "-d", "x"), "--data is for an event of --type"),
        (("-f", "-", "-e", "a=b"), "--extension is for an event of --type"),
        (("-f", "-", "--count", "2"), "--count is for an event of --type"),
        (("--type", "t", "--new-ids"), "--new-ids is for -f"),
        (("--type", "t", "--id", "7", "--count", "2"), "--id makes all events the same"),
    ],
)
async def test_what_would_not_count_is_refused(cli: Cli, orders: Channel, options: tuple[str, ...], told: str) -> None:
    ran = await cli("send", orders.path[1:], *options)
    assert (ran.status, told in ran.err) == (2, True), ran


async def test_a_file_that_is_not_there_is_all_that_is_told(cli: Cli, orders: Channel) -> None:
    ran = await cli("send", orders.path[1:], "-f", "/nowhere.jsonl")
    assert (ran.status, ran.err) == (2, "headrace: -f /nowhere.jsonl can't be read: No such file or directory\n")


async def test_structured_mode_stores_the_json_format(cli: Cli, nats: Nats, orders: Channel) -> None:
    (await cli("send", orders.path[1:], "--type", "t", "--data", "x", "--mode", "structured")).ok()

    (stored,) = await nats.stored(orders.stream)
    assert json.loads(stored.data)["data"] == "x"


async def test_a_url_gets_a_post(cli: Cli, nats: Nats, orders: Channel, receive: Function) -> None:
    (await cli("send", orders.path[1:], "--type", "t", "--data", "x", "--url", receive.url + orders.path)).ok()

    assert len(await nats.stored(orders.stream)) == 1


async def test_a_channel_that_does_not_exist_is_told(cli: Cli) -> None:
    ran = await cli("send", "nowhere", "--type", "t")

    assert (ran.status, ran.out) == (1, "")
    assert "there is no channel 'nowhere' in namespace 'default'" in ran.err


async def test_what_a_receiver_refuses_is_told_in_its_words(cli: Cli, receive: Function) -> None:
    ran = await cli("send", "nowhere", "--type", "t", "--url", receive.url + "/default/nowhere")

    assert ran.status == 1
    assert "/default/nowhere answered 404: there is no channel 'nowhere' in namespace 'default'" in ran.err
    assert "{" not in ran.err


async def test_a_faulty_line_is_named_and_what_came_before_is_sent(cli: Cli, nats: Nats, orders: Channel) -> None:
    lines = json.dumps(LINE).encode() + b'\n{"id": 1}\n'

    ran = await cli("send", orders.path[1:], "-f", "-", stdin=lines)

    assert ran.status == 2
    assert "the event at line 2 is faulty" in ran.err
    assert "stopped: 1 event sent" in ran.err
    assert len(await nats.stored(orders.stream)) == 1
