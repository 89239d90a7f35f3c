"""`deadletter` finds parked events, and brings them back without losing any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Place, Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import free_port
from tests.support.nats.parking import park
from tests.support.nats.streams import Channel, Lane, Nats


async def failing(nats: Nats, forward: Function, subscriber: Subscriber, *ids: str) -> tuple[Lane, Place]:
    """A subscriber that refuses these events, and then takes all."""
    place = subscriber.place(*[Say(400)] * len(ids), Say())
    lane = await nats.serve(forward, await marked(nats), subscriber=place.uri)
    for id in ids:
        await park(lane, id)
    return lane, place


async def test_parked_events_are_listed_shown_and_counted(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, place = await failing(nats, forward, subscriber, "a", "b")
    channel = lane.channel.path[1:]

    listed = (await cli("deadletter", "list", channel, "-o", "json")).ok().json["items"]
    summary = (await cli("deadletter", "list", channel, "--summary")).ok().out.splitlines()
    shown = (await cli("deadletter", "show", channel, str(listed[0]["position"]))).ok().out

    assert [(item["id"], item["subscription"], item["status"]) for item in listed] == [
        ("a", "demo/billing", 400),
        ("b", "demo/billing", 400),
    ]
    assert summary[1].split()[:2] == [channel, "demo/billing"]
    assert summary[1].split()[-1] == "2"
    assert f"failed at:        {place.uri} with 400" in shown


HOSTILE = b"\r\n\r\nHeadrace-Reason: forged\x1b[2J\x00 \xc2\x9b2J\xe2\x80\xae"


@pytest.mark.parametrize(
    ("says", "told", "shown"),
    [
        pytest.param(
            Say(400, {"content-type": "application/problem+json"}, b'{"detail": "no such customer"}'),
            {"contentType": "application/problem+json", "cut": False, "text": '{"detail": "no such customer"}'},
            ["  what came back (application/problem+json, 30 bytes):", '    {"detail": "no such customer"}'],
            id="an explanation",
        ),
        pytest.param(
            Say(400, {"content-type": "text/plain"}, b"a" * 766 + "\u00fc\u00fc".encode() + b"b" * 1024 * 1024),
            {"contentType": "text/plain", "cut": True, "text": "a" * 766 + "\u00fc"},
            ["  what came back (text/plain, the first 768 bytes):", "    " + "a" * 766 + "\u00fc"],
            id="of 1 MiB the beginning",
        ),
        pytest.param(
            Say(400, {}, b"\xff\xfe\x00garbage"),
            {"contentType": None, "cut": False, "base64": "//4AZ2FyYmFnZQ=="},
            ["  what came back (10 bytes):", "    ff fe 00 67 61 72 62 61 67 65 …"],
            id="no text",
        ),
        pytest.param(
            Say(400, {"content-type": "text/plain; a=\xff"}, HOSTILE),
            {"contentType": "text/plain; a=?", "cut": False, "text": HOSTILE.decode()},
            ["    Headrace-Reason: forged\\x1b[2J\\x00 \\x9b2J\\u202e"],
            id="what a header and a terminal would obey",
        ),
        pytest.param(Say(400), None, [], id="nothing"),
    ],
)
async def test_what_the_subscriber_has_answered_is_shown(
    cli: Cli,
    nats: Nats,
    forward: Function,
    subscriber: Subscriber,
    says: Say,
    told: dict[str, Any] | None,
    shown: list[str],
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(says).uri)
    await park(lane, "a")
    channel = lane.channel.path[1:]
    [listed] = (await cli("deadletter", "list", channel, "-o", "json")).ok().json["items"]
    position = str(listed["position"])

    [whole] = (await cli("deadletter", "show", channel, position, "-o", "json")).ok().lines
    text = (await cli("deadletter", "show", channel, position)).ok().out.splitlines()
    written = (await cli("deadletter", "list", channel, "-o", "yaml")).ok().out

    assert all(line.isprintable() for line in written.split("\n"))
    assert yaml.safe_load(written)["items"][0]["answer"] == told
    assert whole["answer"] == listed["answer"] == told
    assert whole["reason"] == "no dead letter sink, and subscriber gave status 400 on attempt 1"
    assert [line for line in text if line in shown] == shown


async def test_a_subscriber_that_does_not_answer_is_not_said_to_have_answered(
    cli: Cli, nats: Nats, forward: Function
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=f"http://127.0.0.1:{free_port()}/")
    await park(lane, "a")
    channel = lane.channel.path[1:]
    [item] = (await cli("deadletter", "list", channel, "-o", "json")).ok().json["items"]

    table = (await cli("deadletter", "list", channel)).ok().out.splitlines()[1]
    shown = (await cli("deadletter", "show", channel, str(item["position"]))).ok().out

    assert (item["status"], item["answered"]) == (500, False)
    assert " 500 " not in table
    assert "/ without an answer\n" in shown
    assert "what came back" not in shown


async def test_a_subscriber_that_answers_as_if_it_were_silent_is_believed_to_have_answered(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    """Word for word what a sink is told of a failed connection."""
    pretends = Say(500, {}, b"dispatch error: can't connect")
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(pretends).uri)
    await park(lane, "a")
    channel = lane.channel.path[1:]
    [item] = (await cli("deadletter", "list", channel, "-o", "json")).ok().json["items"]

    shown = (await cli("deadletter", "show", channel, str(item["position"]))).ok().out

    assert (item["status"], item["answered"]) == (500, True)
    assert " with 500\n" in shown
    assert "    dispatch error: can't connect\n" in shown


@pytest.mark.parametrize("verb", [("deadletter", "replay", "CHANNEL", "--all"), ("replay", "CHANNEL", "--from-start")])
async def test_an_address_that_nobody_can_post_to_is_refused_at_once(
    cli: Cli, orders: Channel, verb: tuple[str, ...]
) -> None:
    ran = await cli(*(orders.path[1:] if word == "CHANNEL" else word for word in verb), "--to-uri", "ftp://x/")
    assert (ran.status, ran.err) == (2, "headrace: --to-uri 'ftp://x': only http and https can be delivered to\n")


async def test_filters_choose(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane, _ = await failing(nats, forward, subscriber, "a")
    channel = lane.channel.path[1:]

    async def found(*options: str) -> int:
        return len((await cli("deadletter", "list", channel, *options, "-o", "json")).ok().json["items"])

    assert await found("--reason", "STATUS 400", "--type", "order.*", "--subscription", "billing") == 1
    assert await found("--reason", "status 503") == 0
    assert await found("--type", "other") == 0
    assert await found("--subscription", "other") == 0
    assert await found("--older-than", "1h") == 0
    assert await found("--newer-than", "1h") == 1


async def test_a_replay_brings_them_back_to_their_subscriber(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, place = await failing(nats, forward, subscriber, "a", "b")

    ran = await cli("deadletter", "replay", lane.channel.path[1:], "--all", "--run", "r1")

    assert "2 parked events of" in ran.err
    ran.ok()
    assert (await lane.lease())["delivered"] == 2
    assert await lane.aside() == []
    assert (sorted(place.ids[:2]), sorted(place.ids[2:])) == (["a", "b"], ["a", "b"])


async def test_a_dry_run_changes_nothing_and_nothing_said_is_not_everything(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, _ = await failing(nats, forward, subscriber, "a")

    dry = await cli("deadletter", "replay", lane.channel.path[1:], "--all", "--dry-run")
    nothing = await cli("deadletter", "replay", lane.channel.path[1:])

    assert "1 parked event of" in dry.err
    assert "would be replayed" in dry.err
    assert (nothing.status, "positions, a filter, or --all" in nothing.err) == (2, True)
    assert len(await lane.aside()) == 1


async def test_a_replay_to_another_channel_and_to_an_address(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, _ = await failing(nats, forward, subscriber, "a", "b")
    repaired, place = await marked(nats), subscriber.place(Say(500), Say())
    first, second = [
        str(item["position"])
        for item in (await cli("deadletter", "list", lane.channel.path[1:], "-o", "json")).ok().json["items"]
    ]

    (await cli("deadletter", "replay", lane.channel.path[1:], first, "--to-channel", repaired.path[1:])).ok()
    refused = await cli("deadletter", "replay", lane.channel.path[1:], second, "--to-uri", place.uri)
    (await cli("deadletter", "replay", lane.channel.path[1:], second, "--to-uri", place.uri)).ok()

    assert [each.headers["ce-id"] for each in await nats.stored(repaired.stream)] == ["a"]
    assert (refused.status, f"{second} stays: {place.uri}: it answered 500" in refused.err) == (1, True)
    assert place.ids[-1] == "b"
    assert await lane.aside() == []


async def test_one_that_cannot_be_replayed_stays_and_the_others_go(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane, _ = await failing(nats, forward, subscriber, "a")
    other = await nats.serve(forward, lane.channel, subscriber=subscriber.place(Say(400)).uri, name="audit")
    await park(other)
    await nats.call(f"CONSUMER.DELETE.{lane.channel.stream}.{other.consumer}")

    ran = await cli("deadletter", "replay", lane.channel.path[1:], "--all")

    assert ran.status == 1
    assert "stays: no consumer of" in ran.err
    assert "1 could not be, and stays" in ran.err
    assert (len(await lane.aside()), len(await other.aside())) == (0, 1)


async def test_discarding_asks_and_can_save(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber, tmp_path: Path
) -> None:
    lane, _ = await failing(nats, forward, subscriber, "a", "b")
    saved = tmp_path / "saved.jsonl"

    asked = await cli("deadletter", "discard", lane.channel.path[1:], "--all")
    (await cli("deadletter", "discard", lane.channel.path[1:], "--all", "--yes", "--save", str(saved))).ok()

    assert (asked.status, "Delete 2 parked events" in asked.err, "add --yes" in asked.err) == (2, True, True)
    assert await lane.aside() == []
    assert [json.loads(line)["event"]["id"] for line in saved.read_text().splitlines()] == ["a", "b"]


async def test_nothing_is_discarded_that_could_not_be_saved(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber, tmp_path: Path
) -> None:
    lane, _ = await failing(nats, forward, subscriber, "a")
    file = tmp_path / "nowhere" / "saved.jsonl"

    ran = await cli("deadletter", "discard", lane.channel.path[1:], "--all", "--yes", "--save", str(file))

    told = f"headrace: --save {file} can't be written, and nothing was discarded: No such file or directory\n"
    assert (ran.status, ran.err) == (2, told)
    assert len(await lane.aside()) == 1


async def test_the_go_channel_has_none(cli: Cli, nats: Nats) -> None:
    await nats.make_stream("KN_PEERS__BARE", "peers.bare._knative")

    ran = await cli("deadletter", "list", "peers/bare")

    assert (ran.status, "the Go channel parks nothing" in ran.err) == (1, True)
