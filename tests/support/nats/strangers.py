"""Habits of nats-py, the stranger of the tests, that one does not expect."""

from __future__ import annotations

import nats.aio.client


async def flushed(stranger: nats.aio.client.Client) -> None:
    """Return once the server has all that was written until now.

    One flush is not enough: nats-py writes its PING ahead of the commands that it still holds, and gives them to the
    socket afterwards. Only a second PING comes behind them.
    """
    await stranger.flush()
    await stranger.flush()
