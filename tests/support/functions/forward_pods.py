"""Processes of `forward` behind one address, as pods are behind Knative's activator, and a scaler that wakes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.subscriber import Subscriber
from headrace.core.errors import Unavailable
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from headrace_operator.scaling.scaler import Scaler
from tests.support.functions.functions import Function
from tests.support.functions.scaling import TOKEN
from tests.support.nats.streams import Lane, Nats

# Of each lease.
IN_FLIGHT = 20


@dataclass
class Request:
    """One lease that was asked for; `told` is when it first said that it had delivered something."""

    seconds: float
    began: float
    ended: float = 0.0
    told: float = float("inf")
    failed: bool = False


@dataclass
class Pods:
    """Processes of `forward` behind one address, as Knative's activator has them: who lives and has least to do."""

    forwards: list[Function]
    leases: LeaseClient
    requests: list[Request] = field(default_factory=list)
    open: dict[str, int] = field(default_factory=dict)
    most: int = 0
    alive: list[Function] = field(default_factory=list)

    async def open_lease(self, _: Subscriber, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        request = Request(lease.seconds, time.monotonic())
        self.requests.append(request)

        def counted(so_far: Mapping[str, int]) -> None:
            if so_far["delivered"]:
                request.told = min(request.told, time.monotonic())
            meanwhile.counted(so_far)

        url = min(self.alive or self.forwards, key=lambda each: self.open.get(each.url, 0)).url
        self.open[url] = self.open.get(url, 0) + 1
        self.most = max(self.most, sum(self.open.values()))
        try:
            return await self.leases.open(url, lease, meanwhile._replace(counted=counted))
        except Unavailable:
            request.failed = True
            raise
        finally:
            request.ended = time.monotonic()
            self.open[url] -= 1

    def kill(self, *forwards: Function) -> None:
        """SIGKILL."""
        self.alive = [each for each in self.alive if each not in forwards]
        for forward in forwards:
            forward.kill()

    async def revive(self, forward: Function) -> float:
        """It is started again; when it is ready."""
        await asyncio.to_thread(forward.start)
        self.alive.append(forward)
        return time.monotonic()


@asynccontextmanager
async def scaled(
    client: Client, lane: Lane, forwards: list[Function], sweep_seconds: float = 5.0
) -> AsyncIterator[Pods]:
    """A scaler that serves the lane, for the time of the block."""
    async with LeaseClient(TOKEN) as leases:
        pods = Pods(forwards, leases, alive=list(forwards))
        scaler = Scaler(
            client, JetStreamApi(client), pods.open_lease, max_in_flight=IN_FLIGHT, sweep_seconds=sweep_seconds
        )
        scaler.serve([lane.channel.stream])
        running = asyncio.create_task(scaler.run())
        try:
            yield pods
        finally:
            running.cancel()
            await asyncio.wait([running])


async def stored(nats: Nats, lane: Lane, events: int) -> None:
    """Without waiting for each PubAck."""
    for number in range(events):
        await nats.client.publish(
            lane.channel.subject,
            b"{}",
            headers={
                "ce-specversion": "1.0",
                "ce-id": f"e{number}",
                "ce-source": "/shop",
                "ce-type": "order.created",
            },
        )
    await nats.client.flush()
