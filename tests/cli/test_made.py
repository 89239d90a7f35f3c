"""Channels are made and deleted in NATS alone, as the operator would make them."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.core.nats.stream import UID_KEY
from headrace_cli.access import announcement
from headrace_cli.laptop import file_channels
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli, run
from tests.support.laptop.manifest_files import CHANNEL
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.parking import park
from tests.support.nats.streams import Channel, Nats


async def test_a_channel_is_made_as_asked_and_can_be_sent_to(cli: Cli, nats: Nats) -> None:
    made = await cli("channel", "create", "made/orders", "--max-age", "168h", "--discard", "New", "--storage", "Memory")
    again = await cli("channel", "create", "made/orders")

    assert made.ok().out == "channel made/orders is created: stream KN_MADE__ORDERS\n"
    assert (again.status, "channel made/orders exists" in again.err) == (1, True)
    config = (await nats.call("STREAM.INFO.KN_MADE__ORDERS"))["config"]
    assert (config["discard"], config["storage"], config["max_age"]) == ("new", "memory", 168 * 3600 * 10**9)
    (await cli("send", "made/orders", "--type", "t")).ok()
    assert (await cli("channel", "list", "-n", "made", "-o", "name")).ok().out == "made/orders\n"


async def test_a_file_takes_such_a_channel_over(cli: Cli, nats: Nats, tmp_path: Path) -> None:
    (await cli("channel", "create", "made/later")).ok()
    shown = (await cli("channel", "create", "made/later", "--dry-run")).ok().out
    (tmp_path / "channel.yaml").write_text(shown)

    (parent,) = file_channels.load([str(tmp_path)], "http://x").channels.values()

    config = (await nats.call("STREAM.INFO.KN_MADE__LATER"))["config"]
    assert config["metadata"][UID_KEY] == parent["metadata"]["uid"]


async def test_a_dry_run_prints_the_manifest_and_asks_nobody() -> None:
    options = ("--replicas", "3", "--stream", "LEGACY", "--annotation", "headrace.dev/max-scale=2", "--dry-run")
    shown = yaml.safe_load(run("channel", "create", "shop/orders", *options, "--nats", "nats://127.0.0.1:1").ok().out)

    assert shown["metadata"]["annotations"] == {"headrace.dev/max-scale": "2"}
    assert shown["spec"] == {"stream": {"overrideName": "LEGACY", "config": {"replicas": 3}}}


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--max-age", "soon"), "headrace: spec.stream.config.maxAge is 'soon', which is not a duration"),
        (("--annotation", "headrace.dev/delivery-order=odd"), "is 'odd': it should be unordered, ordered, by-key"),
        (("--annotation", "headrace.dev/delivery-oder=ordered"), "did you mean headrace.dev/delivery-order?"),
        (("--annotation", "x"), "--annotation is 'x': give name=value"),
        (("--retention", "Never"), "'Never' is not one of"),
    ],
)
async def test_what_cannot_be_is_refused(cli: Cli, options: tuple[str, ...], told: str) -> None:
    ran = await cli("channel", "create", "made/wrong", *options)

    assert (ran.status, told in ran.err) == (2, True), ran


async def test_what_nats_refuses_is_told(cli: Cli) -> None:
    ran = await cli("channel", "create", "made/many", "--replicas", "3")

    assert (ran.status, "replicas > 1 not supported" in ran.err) == (1, True), ran


async def test_a_channel_is_deleted_with_what_it_holds_but_for_parked_events(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    (await cli("channel", "create", "made/gone")).ok()
    channel = Channel("made", "gone")
    lane = await nats.serve(forward, channel, subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "a")
    await lane.store("b")

    asked = await cli("channel", "delete", "made/gone")
    deleted = await cli("channel", "delete", "made/gone", "--yes")

    assert asked.status == 2
    assert "Channel made/gone goes with 2 events." in asked.err
    assert "made/billing has not settled 1 of them" in asked.err
    assert deleted.ok().out == "channel made/gone is deleted; KN_MADE__GONE_aside stays, with 1 parked event\n"
    left = [info["config"]["name"] for info in (await nats.call("STREAM.LIST"))["streams"]]
    assert (channel.stream in left, channel.aside in left) == (False, True)
    # What is parked can still be seen to, and then all is gone.
    assert (await cli("deadletter", "list", "made/gone", "-o", "json")).ok().json["items"][0]["id"] == "a"
    assert "[channel-gone]" in (await cli("doctor", "made/gone")).ok().out
    (await cli("deadletter", "discard", "made/gone", "--all", "--yes")).ok()
    (await cli("channel", "delete", "made/gone", "--yes")).ok()
    assert (await cli("channel", "describe", "made/gone")).status == 1


async def test_the_go_channels_streams_are_not_deleted(cli: Cli, nats: Nats) -> None:
    await nats.make_stream("KN_PEERS__KEPT", "peers.kept._knative")

    ran = await cli("channel", "delete", "peers/kept", "--yes")

    assert (ran.status, "was made by the Go channel" in ran.err) == (1, True)


def test_where_headrace_up_serves_files_these_are_the_place(
    shared_server: NatsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    with announcement.announce(shared_server.url, "http://127.0.0.1:1"):
        ran = run("channel", "create", "made/never")

    assert (ran.status, "serves what its files say: add this to one" in ran.err) == (2, True)
    assert yaml.safe_load(ran.err[ran.err.index("apiVersion") :])["metadata"]["name"] == "never"


def test_a_subscription_is_written_for_a_file(tmp_path: Path) -> None:
    options = ("--channel", "orders", "--uri", "http://127.0.0.1:9090/", "--retry", "3", "--backoff-delay", "PT0.5S")
    ran = run("subscription", "create", "billing", *options, "--dead-letter-uri", "http://127.0.0.1:9091/")
    (tmp_path / "orders.yaml").write_text(CHANNEL + ran.ok().out)

    served = file_channels.load([str(tmp_path)], "http://127.0.0.1:8080").channels["default", "orders"]

    (entry,) = served["spec"]["subscribers"]
    assert (entry["name"], entry["subscriberUri"]) == ("billing", "http://127.0.0.1:9090/")
    assert entry["delivery"] == {
        "retry": 3,
        "backoffDelay": "PT0.5S",
        "backoffPolicy": "exponential",
        "deadLetterSink": {"uri": "http://127.0.0.1:9091/"},
    }
    assert "nothing was made: add it to a file of headrace up" in ran.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--channel", "orders"), "spec has neither a subscriber nor a reply"),
        (("--channel", "orders", "--uri", "ftp://x"), "'ftp://x': only http and https"),
        (("--channel", "orders", "--uri", "http://x", "--timeout", "5s"), "spec.delivery.timeout is '5s'"),
        (("--channel", "shop/orders", "--uri", "http://x"), "a Subscription is in the namespace of its channel"),
        (("--uri", "http://x"), "--channel"),
    ],
)
def test_a_subscription_that_can_not_be_is_not_written(options: tuple[str, ...], told: str) -> None:
    ran = run("subscription", "create", "billing", *options)
    assert (ran.status, ran.out, told in ran.err) == (2, "", True), ran


def test_a_subscription_has_the_name_of_an_object() -> None:
    ran = run("subscription", "create", "Billing", "--channel", "orders", "--uri", "http://x")
    assert (ran.status, "metadata.name is 'Billing'" in ran.err) == (2, True), ran
