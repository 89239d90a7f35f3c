"""`report`, `check` and `doctor` on real channels, well and ill."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.stream import Owner, Role
from headrace_cli.access import session as sessions
from headrace_cli.access.place import Place
from headrace_cli.catalog.names import ChannelScope, NamespacedName
from headrace_cli.health import facts
from headrace_cli.health.findings import findings
from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli, run
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.parking import park
from tests.support.nats.streams import Channel, Nats


async def found(cli: Cli, channel: Channel) -> dict[str, dict[str, Any]]:
    """The doctor's findings by their codes."""
    ran = await cli("doctor", channel.path[1:], "-o", "json")
    return {item["code"]: item for item in ran.json["items"]}


async def test_a_report_has_lag_sizes_and_rates(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a", "b", "c")

    told = (await cli("report", lane.channel.path[1:], "--interval", "0.05", "-o", "json")).ok().json
    text = (await cli("report", lane.channel.path[1:], "--interval", "0")).ok().out

    (channel,), (one,) = told["channels"], told["subscriptions"]
    assert (channel["messages"], channel["storedPerSecond"]) == (3, 0.0)
    assert (one["subscription"], one["pending"], one["unsettled"], one["deliveredPerSecond"]) == (
        "demo/billing",
        3,
        0,
        0.0,
    )
    assert text.startswith("account: ")
    assert "PENDING" in text


@pytest.mark.parametrize(
    ("limits", "status", "said"),
    [
        ((), 0, "OK - all is well (1 channel, 1 Subscription) | pending=3 unsettled=0 parked=0"),
        (("--pending", "3,10"), 1, "WARNING - Subscription demo/billing of"),
        (("--pending", "1,2"), 2, "CRITICAL - Subscription demo/billing of"),
        (("--pending", "many"), 3, "UNKNOWN - --pending is 'many': give WARNING,CRITICAL"),
    ],
)
async def test_a_check_speaks_as_monitoring_plugins_do(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber, limits: tuple[str, ...], status: int, said: str
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a", "b", "c")

    ran = await cli("check", lane.channel.path[1:], *limits)

    assert (ran.status, ran.out.startswith(said)) == (status, True), ran


async def test_a_check_for_prometheus(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say(400)).uri)
    await park(lane, "a")

    ran = await cli("check", lane.channel.path[1:], "--prometheus")

    labels = f'{{namespace="demo",channel="{lane.channel.name}"'
    assert ran.status == 1
    assert f"headrace_channel_parked_events{labels}}} 1\n" in ran.out
    assert f'headrace_subscription_pending_events{labels},subscription="billing"}} 0\n' in ran.out
    assert ran.out.endswith("headrace_check_status 1\n")


def test_a_server_that_is_away_is_critical_and_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "CONNECT_SECONDS", 0.2)
    check = run("check", "--nats", "nats://127.0.0.1:1")
    doctor = run("doctor", "--nats", "nats://127.0.0.1:1")

    assert (check.status, check.out.startswith("CRITICAL - no NATS at nats://127.0.0.1:1")) == (2, True)
    assert (doctor.status, "[nats-unreachable]" in doctor.out, "port-forward" in doctor.out) == (1, True, True)


async def test_a_server_without_jetstream_is_told_from_one_that_is_away(tmp_path: Any) -> None:
    server = NatsServer(tmp_path / "nats")
    users = (
        "accounts { A { users: [{user: a, password: a}] }, J { jetstream: enabled, users: [{user: j, password: j}] } }"
    )
    server.start(config=f"{users}\nno_auth_user: a")
    try:
        ran = await Cli(server.url)("doctor")
    finally:
        server.kill()

    assert (ran.status, "[jetstream-off]" in ran.out) == (1, True), ran


async def test_a_healthy_channel_is_well(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a")
    await lane.lease()

    ran = await cli("doctor", lane.channel.path[1:])

    assert ran.status == 0
    assert ran.out.startswith("all is well: every Subscription gets its events\n\nNOTE  NATS  [sync-unseen]\n")


async def test_a_channel_that_nobody_subscribes(cli: Cli, nats: Nats, orders: Channel) -> None:
    await nats.store(orders.subject, b"")

    assert "1 event waits" in (await found(cli, orders))["no-subscription"]["what"]


async def test_a_failing_subscriber_is_told_with_its_last_answer(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    policy = {"retry": 3, "backoffDelay": "PT60S"}
    place = subscriber.place(Say(503))
    lane = await nats.serve(forward, await marked(nats), subscriber=place.uri, policy=policy)
    await lane.store("a")
    await lane.lease()

    failing = (await found(cli, lane.channel))["failing"]

    assert failing["severity"] == "problem"
    assert "1 event failed and waits for another attempt, the next retry in " in failing["what"]
    assert "503" in failing["what"]
    assert place.uri in failing["do"]


async def test_parked_paused_refused_and_gone(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    channel = await marked(nats)
    lane = await nats.serve(forward, channel, subscriber=subscriber.place(Say(400)).uri)
    await nats.serve(forward, channel, name="refused", state="refused", reason="no address")
    await nats.serve(forward, channel, name="gone", state="gone", goneSince="2026-01-31T12:00:00Z")
    await park(lane, "a")
    await nats.call(f"CONSUMER.PAUSE.{channel.stream}.{lane.consumer}", {"pause_until": "2100-01-01T00:00:00Z"})

    codes = await found(cli, channel)

    assert codes.keys() >= {"parked", "refused", "gone", "paused"}
    assert f"deadletter replay demo/{channel.name} --all" in codes["parked"]["do"]
    assert codes["refused"]["what"] == "it can't be delivered to: no address"


async def test_full_streams(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    channel = await marked(nats, max_msgs=1, discard="new")
    lane = await nats.serve(forward, channel, subscriber=subscriber.place(Say()).uri)
    await lane.store("a")

    assert "refuses events when it is full (507)" in (await found(cli, channel))["stream-full"]["what"]


async def test_a_full_window_and_a_filter_that_sees_nothing(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    channel = await marked(nats)
    policy = {"retry": 3, "backoffDelay": "PT60S"}
    uri = subscriber.place(Say(503)).uri
    lane = await nats.serve(forward, channel, {"max_ack_pending": 1}, subscriber=uri, policy=policy)
    await nats.serve(forward, channel, {"filter_subject": "other.>"}, subscriber=uri, name="blind")
    await lane.store("a", "b")
    await lane.lease()

    codes = await found(cli, channel)

    assert "1 of at most 1 event handed out" in codes["window-full"]["what"]
    assert codes["filter-sees-nothing"]["where"] == f"demo/blind of demo/{channel.name}"


async def test_events_that_no_subscription_sees(cli: Cli, nats: Nats) -> None:
    channel = nats.name_channel()
    mark = Owner("default", channel.namespace, channel.name, "u").mark(Role.CHANNEL)
    await nats.make_stream(channel.stream, channel.subject, f"extra.{channel.name}", metadata=mark)
    await nats.make_stream(channel.aside, f"{channel.namespace}.{channel.name}._knative_aside.>")
    await nats.make_consumer(channel, {}, filter_subject=channel.subject)
    await nats.store(f"extra.{channel.name}", b"")

    assert f"extra.{channel.name}" in (await found(cli, channel))["irrelevant-events"]["what"]


async def test_no_channel_at_all(cli: Cli) -> None:
    ran = await cli("doctor", "-n", "empty-namespace")

    assert (ran.status, "[no-channel]" in ran.out) == (1, True)


async def test_a_check_of_nothing_is_not_content(cli: Cli) -> None:
    ran = await cli("check", "-n", "empty-namespace")

    assert (ran.status, ran.out.startswith("UNKNOWN - there is no channel in namespace empty-namespace")) == (3, True)


async def test_a_single_server_has_nobody_to_step_down_for(cli: Cli, orders: Channel) -> None:
    ran = await cli("step-down", orders.path[1:])

    assert ran.status == 1
    assert f"this NATS is a single server: there is no other that could lead stream {orders.stream}" in ran.err


async def test_pulls_that_bring_nothing_are_told_with_the_servers_words(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place().uri)
    groups = {"priority_groups": ["theirs"], "priority_policy": "overflow"}
    await nats.edit_consumer(lane.channel, lane.consumer, **groups)
    await lane.store("a")
    assert (await lane.ask())[0] == 409

    codes = await found(cli, lane.channel)

    assert codes["pulls-bring-nothing"]["severity"] == "problem"
    assert "400 Bad Request - Priority Group missing" in codes["pulls-bring-nothing"]["what"]
    assert "narrow-pulls" not in codes


async def test_narrow_pulls_are_told(cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place().uri)
    await nats.edit_consumer(lane.channel, lane.consumer, max_batch=1)

    assert "(max_batch 1)" in (await found(cli, lane.channel))["narrow-pulls"]["what"]


@pytest.mark.parametrize(
    ("subscribers", "code"),
    [
        pytest.param(0, "no-subscription", id="the channel has none"),
        pytest.param(2, "no-consumer", id="it has some, and NATS refused their consumers"),
        pytest.param(None, "no-subscription", id="nobody knows"),
    ],
)
async def test_that_there_is_no_subscription_is_concluded_from_the_channels_subscribers(
    nats: Nats, orders: Channel, shared_server: NatsServer, subscribers: int | None, code: str
) -> None:
    spec = {"subscribers": [{"uid": str(number)} for number in range(subscribers or 0)]}
    body = {"metadata": {"namespace": orders.namespace, "name": orders.name}, "spec": spec}
    async with sessions.session(Place(NatsSettings(url=shared_server.url), None, "the test")) as connected:
        known = await facts.gather(
            connected, ChannelScope(orders.namespace, NamespacedName(orders.namespace, orders.name))
        )

    found = findings(facts.beside_objects(known, [] if subscribers is None else [body]))

    assert [each.code for each in found if each.code.startswith("no-")] == [code]


async def test_events_of_the_channel_itself_that_nobody_sees_are_a_problem(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    channel = await marked(nats, subject_transform={"src": ">", "dest": "v1.>"})
    filtered = {"filter_subject": channel.subject}
    lane = await nats.serve(forward, channel, filtered, subscriber=subscriber.place().uri)
    await lane.store("a")

    codes = await found(cli, channel)

    assert codes["own-events-unseen"]["severity"] == "problem"
    assert codes["own-events-unseen"]["what"] == (
        f"1 event of the channel itself, on v1.{channel.subject}, that no Subscription sees"
    )
    assert codes["filter-sees-nothing"]["severity"] == "problem"
    assert "irrelevant-events" not in codes


async def test_events_of_others_that_nobody_sees_are_a_note(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    channel = await marked(nats)
    info = await nats.call(f"STREAM.INFO.{channel.stream}")
    both = {**info["config"], "subjects": [channel.subject, f"legacy.{channel.name}"]}
    await nats.call(f"STREAM.UPDATE.{channel.stream}", both)
    await nats.serve(forward, channel, {"filter_subject": channel.subject}, subscriber=subscriber.place().uri)
    await nats.store(f"legacy.{channel.name}", b"")

    codes = await found(cli, channel)

    assert codes["irrelevant-events"]["severity"] == "note"
    assert "own-events-unseen" not in codes
