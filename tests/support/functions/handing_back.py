"""Common steps of the tests of `hand-back`: run it, let ours deliver some before, look for marks after."""

from __future__ import annotations

import nats.aio.client

from tests.support.functions.reconciling import Hook
from tests.support.laptop.cli import Cli, Ran
from tests.support.nats.go_channel import STREAM
from tests.support.waiting import until


async def hand_back(cli: Cli, *options: str) -> Ran:
    return await cli("hand-back", "shop/orders", "--yes", *options)


async def ours_settles(stranger: nats.aio.client.Client, durable: str, take: int, *, but: int | None = None) -> None:
    """Ours delivers the next so many and settles them, all but one."""
    bound = await stranger.jetstream().pull_subscribe_bind(durable, STREAM)
    for place, message in enumerate(await bound.fetch(take, timeout=10)):
        if place != but:
            await message.ack_sync()
    await bound.unsubscribe()


async def idle(hook: Hook, durable: str) -> None:
    """Wait until no pull is open."""

    async def nobody() -> bool:
        return not (await hook.api.call(f"CONSUMER.INFO.{STREAM}.{durable}"))["num_waiting"]

    await until("no pull is open", nobody, 30)


async def marks(hook: Hook) -> list[str]:
    """All keys of ours that are left, on the stream and on its consumers."""
    bodies = [await hook.api.call(f"STREAM.INFO.{STREAM}"), *[one async for one in hook.api.consumers(STREAM)]]
    return [key for each in bodies for key in each["config"].get("metadata") or {} if key.startswith("headrace.dev/")]
