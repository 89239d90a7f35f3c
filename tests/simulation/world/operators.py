"""The operator's program: its passes over channels and its scaler, with the clients that they have.

The API server is left out: channels are kept as `headrace up` keeps them, and outlive the operator.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.operator_settings import WORKERS
from headrace.io.nats.client import Client
from headrace.io.process import environment
from headrace_cli.laptop.file_world import FileWorld
from headrace_operator.channels.channel_work import ChannelWork
from headrace_operator.channels.hook_client import HookClient
from headrace_operator.channels.one_channel import OneChannel
from headrace_operator.scaling.channel_scaler import ChannelScaler
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from tests.simulation.environment import TOKEN
from tests.simulation.loop import current

OpenLease = Callable[[LeaseClient, Lease, Meanwhile], Awaitable[LeaseAnswer]]
"""Chooses a `forward`, and opens a lease there with this client."""


class OperatorProgram:
    """One life of an operator.

    Attributes:
        ending: it was told to end.
        served: its scaler, once it has begun.
    """

    def __init__(self, channels: FileWorld, hook: str, open_lease: OpenLease) -> None:
        """Args:
        hook: where `reconcile` is.
        """
        self.ending = False
        self.served: ChannelScaler | None = None
        self._channels = channels
        self._hook = hook
        self._open = open_lease
        self._told = asyncio.Event()
        self._listeners: list[Any] = []

    @property
    def served_subscriptions(self) -> set[str]:
        """As `c0/s0`."""
        rows = self.served.scaler.rows() if self.served is not None else []
        return {f"{row['channel']}/{row['subscription']}" for row in rows}

    async def run(self) -> None:
        client = Client(environment.fill(NatsSettings), name="headrace-operator")
        async with HookClient(TOKEN) as hooks, LeaseClient(TOKEN) as leases:
            self.served = served = ChannelScaler(client, partial(self._open_lease, leases), max_in_flight=100)
            passes = OneChannel(self._channels, partial(hooks.call, self._hook))
            listeners = self._channels.channels.listeners
            before = len(listeners)
            work = ChannelWork(self._channels, passes, served, workers=WORKERS)
            # Whoever changes a channel, each operator hears of it by a watch of its own.
            self._listeners = listeners[before:] = [_in_own_process(one) for one in listeners[before:]]
            working = asyncio.create_task(_work(work, served))
            await asyncio.wait([working, asyncio.create_task(self._told.wait())], return_when=asyncio.FIRST_COMPLETED)
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        await client.close()

    def terminate(self) -> None:
        """SIGTERM."""
        self.ending = True
        self._told.set()

    def gone(self) -> None:
        """It does not run any more: the channels, which outlive it, tell it nothing."""
        listeners = self._channels.channels.listeners
        listeners[:] = [one for one in listeners if one not in self._listeners]

    async def _open_lease(self, leases: LeaseClient, _url: str, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        return await self._open(leases, lease, meanwhile)


def _in_own_process(listener: Callable[..., None]) -> Callable[..., None]:
    loop, process = asyncio.get_running_loop(), current.get()

    def heard(*change: Any) -> None:
        loop.call_in(process, listener, *change)

    return heard


async def _work(work: ChannelWork, served: ChannelScaler) -> None:
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(work.run(), name="work")
        tasks.create_task(served.tell_of_backlogs(), name="backlogs")
