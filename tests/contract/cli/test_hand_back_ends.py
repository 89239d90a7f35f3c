"""A hand-back that breaks off anywhere loses nothing, and one that would do harm is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import nats.aio.client
import pytest

from headrace.core import names
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from headrace_cli.access.place import find
from headrace_cli.access.session import Session
from headrace_cli.catalog import channels as catalog
from headrace_cli.catalog.subscriptions import subscriptions
from headrace_cli.hand_back.hand_over import HandOver
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.handing_back import hand_back, idle, marks, ours_settles
from tests.support.functions.reconciling import Hook
from tests.support.laptop.cli import Cli
from tests.support.nats.go_channel import OURS, PUSH, RETENTION, STREAM, THEIRS, GoChannel
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.strangers import flushed


@pytest.fixture
def hook(connection: Client) -> Hook:
    return Hook(connection)


@pytest.fixture
def peer(hook: Hook, stranger: nats.aio.client.Client) -> GoChannel:
    return GoChannel(hook, stranger)


@pytest.fixture
def cli(nats_server: NatsServer) -> Cli:
    return Cli(nats_server.url)


class Interrupted(Exception):
    """The command was killed."""


class Dying(JetStreamApi):
    """The API, until so many changes are made."""

    def __init__(self, connection: Client, changes: int) -> None:
        super().__init__(connection)
        self.left = changes

    async def call(self, subject: str, *arguments: Any, **more: Any) -> dict[str, Any]:
        if not subject.startswith(("STREAM.INFO", "STREAM.LIST", "CONSUMER.INFO", "CONSUMER.LIST", "STREAM.PURGE")):
            if not self.left:
                raise Interrupted
            self.left -= 1
        return await super().call(subject, *arguments, **more)


async def interrupted(connection: Client, after: int) -> None:
    """A hand-back of all that ends after so many changes."""

    api = Dying(connection, after)
    session = Session(find("nats://unused"), connection, api, JetStream(connection, api))
    [where] = await catalog.channels(api)
    work = HandOver(session, where, pull=False)
    for one in await subscriptions(session.admin, where):
        await work.consumer(one, spare=False)
    await work.streams()


async def served(hook: Hook, parent: dict[str, Any]) -> str:
    """The one that serves the Subscription, once what stands beside it has had its grace."""
    hook.later(30 * 86_400)
    answer = await hook.sync(parent)
    [durable] = await hook.durables(STREAM)
    assert answer["status"]["consumers"][0]["durable"] == durable
    return str(durable)


def again(cli: Cli, hook: Hook, parent: dict[str, Any]) -> Callable[[], Awaitable[object]]:
    return lambda: hand_back(cli)


def forward(cli: Cli, hook: Hook, parent: dict[str, Any]) -> Callable[[], Awaitable[object]]:
    return lambda: hook.sync(parent)


@pytest.mark.parametrize("retention", list(RETENTION))
@pytest.mark.parametrize("taken", [False, True], ids=["made by ours", "taken over before"])
@pytest.mark.parametrize("then", [again, forward])
async def test_wherever_it_breaks_off_nothing_is_lost(
    connection: Client,
    hook: Hook,
    peer: GoChannel,
    cli: Cli,
    stranger: nats.aio.client.Client,
    retention: str,
    taken: bool,
    then: Callable[..., Callable[[], Awaitable[object]]],
) -> None:
    parent = channel(entry("aaaa-1"), stream=stream(retention=RETENTION[retention]))
    go_on = then(cli, hook, parent)
    for after in range(12):
        if taken:
            await peer.make(retention, **PUSH)
        await hook.sync(parent)
        [durable] = await hook.durables(STREAM)
        peer.published.clear()
        await peer.publish(4)
        await ours_settles(stranger, durable, 2)
        await idle(hook, durable)
        ended = False
        try:
            await interrupted(connection, after)
            ended = True
        except Interrupted:
            await peer.publish(1)
        await go_on()
        if then is again:
            if retention == "workqueue" and not await hook.durables(STREAM):
                # Between the two nobody knows of it any more; the Go controller makes what a Subscription lacks.
                await peer.consume("all", **PUSH)
            assert await hook.durables(STREAM) == [THEIRS], f"after {after} changes"
            assert await marks(hook) == []
            await hook.sync(parent)
        got = await peer.pulled(await served(hook, parent))
        assert sorted(got) == peer.published[2:], f"after {after} changes"
        for name in (STREAM, f"{STREAM}_aside"):
            await hook.api.call(f"STREAM.DELETE.{name}")
        if ended:
            break
    assert ended
    assert after > 3


async def test_it_refuses_while_a_lease_is_open(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry("aaaa-1")))
    bound = await stranger.jetstream().pull_subscribe_bind(THEIRS, STREAM)
    inbox = stranger.new_inbox()
    waiting = await stranger.subscribe(inbox)
    await stranger.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{THEIRS}", b'{"batch":1,"expires":60000000000}', inbox)
    await flushed(stranger)

    refused = await hand_back(cli)

    assert (refused.status, "served just now (shop/orders for shop/billing)" in refused.err) == (1, True)
    assert await hook.durables(STREAM) == [THEIRS]
    assert await marks(hook) != []
    (await hand_back(cli, "--force")).ok()
    assert await marks(hook) == []
    await waiting.unsubscribe()
    await bound.unsubscribe()


async def test_it_refuses_while_an_operator_is_at_work_though_there_is_nothing_to_do(
    hook: Hook, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry("aaaa-1")))
    heard = await stranger.subscribe(names.wake_subject(">"))
    await flushed(stranger)

    refused = await hand_back(cli)

    assert (refused.status, "an operator is at work" in refused.err) == (1, True)
    assert await marks(hook) != []
    await heard.unsubscribe()
    await flushed(stranger)
    (await hand_back(cli)).ok()
    assert await marks(hook) == []


async def test_it_refuses_while_a_by_key_lease_has_its_pin(
    hook: Hook, peer: GoChannel, cli: Cli, stranger: nats.aio.client.Client
) -> None:
    await hook.sync(channel(entry("aaaa-1"), annotations={"headrace.dev/delivery-order": "by-key"}))
    await peer.publish(1)
    inbox = stranger.new_inbox()
    got = await stranger.subscribe(inbox)
    pull = b'{"batch":1,"expires":5000000000,"group":"headrace"}'
    groups = (await hook.consumer(STREAM, THEIRS) or {})["priority_groups"]
    pull = pull.replace(b"headrace", groups[0].encode())
    await stranger.publish(f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{THEIRS}", pull, inbox)
    await got.next_msg(timeout=10)

    refused = await hand_back(cli)

    assert (refused.status, "served just now" in refused.err) == (1, True)
    await got.unsubscribe()


async def test_it_refuses_while_the_go_dispatcher_delivers_already(hook: Hook, peer: GoChannel, cli: Cli) -> None:
    await peer.make("limits", **PUSH)
    await hook.sync(channel(entry("aaaa-1")))
    await peer.consume("all", **PUSH)
    async with peer.dispatching():
        refused = await hand_back(cli)
        assert (refused.status, "delivers from KN_SUB_AAAA1 already" in refused.err) == (1, True)
        assert await hook.durables(STREAM) == [THEIRS, OURS]
    await peer.unbound()

    (await hand_back(cli)).ok()

    assert await hook.durables(STREAM) == [THEIRS]
