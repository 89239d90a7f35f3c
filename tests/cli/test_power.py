"""What `doctor` says of a loss of power, by real servers: when they sync, what is not written, what a loss leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace_cli.access import session as sessions
from headrace_cli.access.place import Place
from headrace_cli.catalog.names import ChannelScope, NamespacedName
from headrace_cli.health import facts
from headrace_cli.health.findings import findings
from tests.cli.conftest import marked
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Lane, Nats


@pytest.fixture
async def lane(nats: Nats, forward: Function, subscriber: Subscriber) -> Lane:
    lane = await nats.serve(forward, await marked(nats), subscriber=subscriber.place(Say()).uri)
    await lane.store("a")
    await lane.lease()
    return lane


@pytest.fixture(params=["", "sync_interval: 30s", "sync_interval: always"], ids=["default", "30s", "always"])
def monitored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """How a server syncs, and the URL of its monitoring port."""
    port = free_port()
    server = NatsServer(tmp_path / "nats", store=request.param, config=f'http: "127.0.0.1:{port}"').start()
    yield request.param, f"http://127.0.0.1:{port}"
    server.kill()


async def test_a_monitoring_port_says_what_a_loss_of_power_takes(
    cli: Cli, lane: Lane, monitored: tuple[str, str]
) -> None:
    sync, url = monitored

    ran = await cli("doctor", lane.channel.path[1:], "--monitor", url)

    every = {"": "2m", "sync_interval: 30s": "30s"}.get(sync)
    said = f"\nNOTE  {url}  [synced-late]\n  it writes down every {every} what it has acknowledged" if every else ""
    assert ran.status == 0
    assert ran.out.startswith(f"all is well: every Subscription gets its events\n{said}")
    assert ("[" in ran.out) == bool(every)


async def test_what_is_no_monitoring_port_is_quoted(cli: Cli, lane: Lane, forward: Function) -> None:
    for url in (f"http://127.0.0.1:{free_port()}", forward.url, "nats://127.0.0.1:4222"):
        ran = await cli("doctor", lane.channel.path[1:], "--monitor", url)

        assert (ran.status, f"--monitor is '{url}': no nats-server with JetStream" in ran.err) == (2, True), ran


@pytest.mark.parametrize(
    "config", ["[]", '"x"', "[" * 90_000, '{"sync_interval": "abc"}', '{"sync_interval": 1e999}', "{}"]
)
async def test_whatever_a_monitoring_port_says_the_rest_is_shown(cli: Cli, lane: Lane, config: str) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        body = f'{{"jetstream": {{"config": {config}}}}}'.encode()
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        ran = await cli("doctor", lane.channel.path[1:], "--monitor", f"http://me:secret@127.0.0.1:{port}")

    assert ran.out.startswith("all is well: every Subscription gets its events\n")
    assert "secret" not in ran.out + ran.err
    assert ("it writes down at times" in ran.out, ran.status) in ((True, 0), (False, 2))
    assert (ran.status == 2) == ("no nats-server with JetStream" in ran.err)


@pytest.mark.parametrize(
    ("config", "said"),
    [({"storage": "memory"}, "its events are in memory only"), ({"persist_mode": "async"}, "before it writes them")],
)
async def test_a_channel_whose_events_are_not_written_is_noted(
    cli: Cli, nats: Nats, config: dict[str, str], said: str
) -> None:
    channel = await marked(nats, **config)

    ran = await cli("doctor", channel.path[1:], "-o", "json")

    [one] = [item for item in ran.json["items"] if item["code"] == "acknowledged-unwritten"]
    assert (one["severity"], said in one["what"]) == ("note", True)


async def test_a_consumer_that_stands_ahead_of_its_stream_is_a_problem(lane: Lane, shared_server: NatsServer) -> None:
    channel = lane.channel
    async with sessions.session(Place(NatsSettings(url=shared_server.url), None, "the test")) as connected:
        scope = ChannelScope(channel.namespace, NamespacedName(channel.namespace, channel.name))
        known = await facts.gather(connected, scope)
    assert [each.last for each in known.channels] == [1]
    assert not [each for each in findings(known) if each.code == "position-ahead"]
    # What three servers leave that lose power together; none does when it is asked to.
    known.channels[0].subscriptions[0].subscription.info["delivered"]["stream_seq"] = 169

    [one] = [each for each in findings(known) if each.code == "position-ahead"]

    assert "stands ahead of its stream, which ends at 1: the next 168 events will not be handed to it" in one.what
    assert "subscription reset demo/billing --to-time" in one.do
