"""Events in a dead letter sink are told, and only events that wait for longer than a start are called stalled."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from headrace.core.installation.nats_settings import NatsSettings
from headrace_cli.access import session as sessions
from headrace_cli.access.place import Place
from headrace_cli.catalog.names import ChannelScope, NamespacedName
from headrace_cli.health import check, facts
from headrace_cli.health.check import Limits, Status
from headrace_cli.health.facts import Facts
from headrace_cli.health.findings import findings
from headrace_cli.view import units
from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Lane, Nats


async def sunk(nats: Nats, forward: Function, subscriber: Subscriber) -> Lane:
    """Two events that the subscriber has refused and the sink has taken."""
    sink = subscriber.place(Say(202))
    uri = subscriber.place(Say(400)).uri
    lane = await nats.serve(forward, await marked(nats), subscriber=uri, dead_letter=sink.uri)
    await lane.store("a", "b")
    assert (await lane.lease())["dead_lettered"] == 2
    return lane


async def test_a_subscriber_that_refuses_everything_into_its_sink_is_not_well(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    channel = (await sunk(nats, forward, subscriber)).channel.path[1:]

    ran = await cli("doctor", channel, "-o", "json")
    (told,) = [one for one in ran.json["items"] if one["code"] == "sunk"]
    assert (ran.status, told["severity"], told["where"]) == (1, "risk", f"demo/billing of {channel}")
    assert told["what"].startswith("2 events went to its dead letter sink http://")
    assert told["what"].endswith("ago: subscriber gave status 400 on attempt 1")

    warned = await cli("check", channel)
    assert (warned.status, "has 2 events that its dead letter sink took" in warned.out) == (1, True), warned
    assert (await cli("check", channel, "--sunk", "3,10")).status == 0
    numbers = (await cli("check", channel, "--prometheus")).out
    assert (
        f'headrace_subscription_sunk_events{{namespace="demo",channel="{channel[5:]}",subscription="billing"}} 2'
        in numbers
    )


async def test_report_describe_and_deadletter_list_tell_how_many_and_the_last_answer(
    cli: Cli, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await sunk(nats, forward, subscriber)
    channel, last = lane.channel.path[1:], "subscriber gave status 400 on attempt 1"

    (one,) = (await cli("report", channel, "--interval", "0", "-o", "json")).ok().json["subscriptions"]
    assert (one["sunk"], one["lastSunkAnswer"], one["parked"]) == (2, last, 0)
    described = (await cli("subscription", "describe", "demo/billing", "--channel", channel)).ok().out
    assert "Took in its place" in described
    assert f": {last}\n" in described
    (of_channel,) = (await cli("channel", "describe", channel, "-o", "json")).ok().json["subscriptions"]
    assert (of_channel["sunk"]["events"], of_channel["sunk"]["lastAnswer"]) == (2, last)

    (listed,) = (await cli("deadletter", "list", channel, "--sunk", "-o", "json")).ok().json["items"]
    assert (listed["subscription"], listed["events"], listed["lastAnswer"]) == ("demo/billing", 2, last)
    assert last in (await cli("deadletter", "list", channel, "--sunk")).ok().out
    # They are at the sink, and parked nowhere.
    assert (await cli("deadletter", "list", channel)).ok().err == "nothing is parked\n"

    # The count goes on.
    await lane.store("c")
    await lane.lease()
    (listed,) = (await cli("deadletter", "list", channel, "--sunk", "-o", "json")).ok().json["items"]
    assert listed["events"] == 3


async def test_where_a_sink_took_nothing_that_is_said(cli: Cli, orders: Channel) -> None:
    ran = (await cli("deadletter", "list", orders.path[1:], "--sunk")).ok()
    assert ran.err == "nothing went to a dead letter sink\n"
    refused = await cli("deadletter", "list", orders.path[1:], "--sunk", "--reason", "x")
    assert (refused.status, "--reason is of parked events, and --sunk lists none" in refused.err) == (2, True)


async def gathered(server: NatsServer, channel: Channel, **info: Any) -> Facts:
    """What is known of the channel, with these members in the CONSUMER.INFO of its one Subscription."""
    async with sessions.session(Place(NatsSettings(url=server.url), None, "the test")) as session:
        known = await facts.gather(
            session, ChannelScope(channel.namespace, NamespacedName(channel.namespace, channel.name))
        )
    ((one,),) = [each.subscriptions for each in known.channels]
    subscription = replace(one.subscription, info={**one.subscription.info, **info})
    changed = replace(known.channels[0], subscriptions=(replace(one, subscription=subscription),))
    return replace(known, channels=(changed,))


async def test_an_event_after_a_long_rest_is_stalled_only_once_it_waits_longer_than_a_start_takes(
    shared_server: NatsServer, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a")
    await lane.lease()
    await lane.store("b")
    known = await gathered(shared_server, lane.channel)
    rested = units.stamp(known.at - timedelta(minutes=5))
    delivered = {**known.channels[0].subscriptions[0].subscription.info["delivered"], "last_active": rested}
    rest = {"delivered": delivered, "created": units.stamp(known.at - timedelta(hours=1))}
    known = await gathered(shared_server, lane.channel, **rest)

    assert [one.code for one in findings(known)] == []
    assert check.troubles(known, Limits()) == []

    later = replace(known, at=known.at + timedelta(seconds=70))
    (stalled,) = [one for one in findings(later) if one.code == "stalled"]
    assert "1 event is pending, none was handed out for 1m, and nobody pulls" in stalled.what
    (warned,) = check.troubles(later, Limits())
    assert (warned.status, "has 1 event pending and got none for 1m" in warned.text) == (Status.WARNING, True)


async def test_a_long_backlog_that_is_worked_off_is_not_stalled(
    shared_server: NatsServer, nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a")
    await lane.lease()
    await lane.store("b")
    known = await gathered(shared_server, lane.channel)
    soon = {"delivered": {**known.channels[0].subscriptions[0].subscription.info["delivered"]}}
    soon["delivered"]["last_active"] = units.stamp(known.at + timedelta(seconds=60))
    known = replace(await gathered(shared_server, lane.channel, **soon), at=known.at + timedelta(seconds=70))

    assert [one.code for one in findings(known)] == []
