"""One cell's world: a nats-server, the functions, sinks, producers and a scaler, all real and all killable.

A cell is a coroutine over a `Bench`: it makes lanes (a channel with one subscriber), sends, breaks things by a seeded
schedule, and the bench then waits until everything is settled and draws up the account.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import nats.errors

from headrace.core.delivery.lease import Lease
from headrace_operator.scaling.lease_client import LeaseClient
from tests.faults.lane import Lane
from tests.faults.ledger import Held, Row, Strike, allow, settle
from tests.faults.partitions.network import BENCH, Network
from tests.faults.processes import Cluster, Host, ScalerProcess, SinkProcess
from tests.faults.producer import Producer
from tests.faults.scaling import scale
from tests.faults.sink import Sink
from tests.support.functions.functions import TOKEN
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, ApiError, Nats, Stored, metadata
from tests.support.programs.process import LOOPBACK, Site

ASK_AGAIN = 0.1
ELECTED_SECONDS = 60.0
Asked, Said = TypeVar("Asked"), TypeVar("Said")
AWAY = (nats.errors.Error, TimeoutError, OSError, ApiError)


class Bench:
    """See above; use it as an asynchronous context manager.

    Attributes:
        rng: the seeded chance; whatever a cell leaves to chance comes from here.
        size: of the cell; 1.0 is the short version.
        forwards: a lease goes to the one whose turn it is.
    """

    def __init__(
        self, directory: Path, row: Row, server: NatsServer | Cluster, size: float, network: Network | None = None
    ) -> None:
        self.directory = directory
        self.row = row
        self.rng = random.Random(row.seed)
        self.size = size
        self.server = server
        self.network = network
        self.sink = Sink(address=self.site(BENCH).address)
        self.lanes: list[Lane] = []
        self.receive = self.host("receive")
        self.forwards = [self.host("forward")]
        self.strikes: list[Strike] = []
        self.others: list[Host] = []
        self.max_in_flight = 20
        self.sweep_seconds = 2.0
        self.nats = Nats(server.url.split(",")[0])
        self.last = self.forward
        self._turn = 0
        self._clients: list[LeaseClient] = []
        self._scaling: asyncio.Task[None] | None = None
        self.scaler: ScalerProcess | None = None

    def site(self, host: str) -> Site:
        """Where a process of this host runs; all on loopback without a network."""
        return self.network.site(host) if self.network is not None else LOOPBACK

    def host(self, target: str, name: str = "", **settings: str) -> Host:
        """A function that is not started yet; `name` of its host, if it is not the function's."""
        return Host(target, self.server.url, self.directory, site=self.site(name or target), **settings)

    @property
    def forward(self) -> Host:
        return self.forwards[0]

    async def __aenter__(self) -> Bench:
        try:
            await self._start()
        except BaseException:
            # Whatever has come up must not outlive us.
            await self.__aexit__()
            raise
        return self

    async def _start(self) -> None:
        await asyncio.to_thread(self.server.start)
        # The others of a cluster are discovered.
        await self.nats.__aenter__()
        starts = [asyncio.to_thread(host.start) for host in (self.receive, *self.forwards)]
        # All of them end one way or the other, before anything is undone.
        for outcome in await asyncio.gather(*starts, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    async def __aexit__(self, *_: object) -> None:
        await self.stop_scaler()
        if self.scaler is not None:
            self.scaler.kill()
        for client in self._clients:
            await client.__aexit__()
        for host in (self.receive, *self.forwards, *self.others):
            await asyncio.to_thread(host.end)
        for lane in self.lanes:
            if lane.process is not None:
                lane.process.kill()
        if hasattr(self.nats, "client"):
            await self.nats.client.close()
        await asyncio.to_thread(self.server.kill)
        self.sink.close()

    async def second_forward(self, **settings: str) -> Host:
        host = self.host("forward", "forward-2", **settings)
        await asyncio.to_thread(host.start)
        self.forwards.append(host)
        return host

    async def lane(
        self,
        *,
        replies: bool = False,
        dead: bool = False,
        process: SinkProcess | None = None,
        policy: dict[str, object] | None = None,
        stream: dict[str, Any] | None = None,
        consumer: dict[str, Any] | None = None,
        **more: object,
    ) -> Lane:
        """A channel and its consumer; `policy`, `stream` and `consumer` are members that are not default."""
        number = len(self.lanes)
        channel = self.nats.name_channel()
        replicas = 3 if isinstance(self.server, Cluster) else 1
        config = {"num_replicas": replicas, **(stream or {})}
        await self._make_stream(channel.stream, channel.subject, config)
        aside = {"max_msgs_per_subject": 1, "allow_direct": True, "discard": "new", "num_replicas": replicas}
        await self._make_stream(channel.aside, f"{channel.namespace}.{channel.name}._knative_aside.>", aside)
        paths = f"/{number}/subscriber", f"/{number}/reply", f"/{number}/dead"
        said = metadata(
            channel,
            subscriber=(process or self.sink).uri(paths[0]),
            reply=self.sink.uri(paths[1]) if replies else None,
            dead_letter=self.sink.uri(paths[2]) if dead else None,
            policy={"backoffDelay": "PT0.1S", "timeout": "PT10S", **(policy or {})},
            **more,
        )
        durable = await self.nats.make_consumer(channel, {METADATA_KEY: json.dumps(said)}, **(consumer or {}))
        subscriber, reply, sink = map(self.sink.place, paths)
        lane = Lane(channel, durable, subscriber, reply, sink, replies, process=process)
        self.lanes.append(lane)
        return lane

    async def _make_stream(self, name: str, subject: str, config: dict[str, Any]) -> None:
        """A cluster that has just been started may still be electing."""
        for _ in range(4):
            with suppress(*AWAY):
                return await self.nats.make_stream(name, subject, **config)
            await asyncio.sleep(1)
        return await self.nats.make_stream(name, subject, **config)

    def producer(self, lane: Lane, **settings: float) -> Producer:
        return Producer(self.receive.url + lane.channel.path, lane.sent, **settings)

    def ids(self, count: int, prefix: str = "e") -> list[str]:
        """Names of events; the count is for the short version."""
        return [f"{prefix}{number}" for number in range(self.scaled(count))]

    def scaled(self, count: int) -> int:
        return max(1, int(count * self.size))

    async def send(self, lane: Lane, count: int = 150, **how: Any) -> None:
        """Events that are all accepted, before anything breaks."""
        await self.producer(lane).send(self.ids(count), **how)

    # -- leases

    async def start_scaler(self) -> None:
        """A scaler that knows nothing yet, as after a restart of the operator."""
        ready = asyncio.Event()
        self._scaling = asyncio.create_task(self._scale(ready))
        await ready.wait()

    async def _scale(self, ready: asyncio.Event) -> None:
        await scale(
            self.server.url,
            [lane.channel.stream for lane in self.lanes],
            lambda: self.turn().url,
            ready.set,
            max_in_flight=self.max_in_flight,
            sweep_seconds=self.sweep_seconds,
        )

    async def start_scaler_process(self) -> ScalerProcess:
        """The same as a process of its own, on the host `operator` of a network."""
        self.scaler = ScalerProcess(
            self.site("operator"),
            nats_url=self.server.url,
            streams=[lane.channel.stream for lane in self.lanes],
            forwards=[host.url for host in self.forwards],
            max_in_flight=self.max_in_flight,
            sweep_seconds=self.sweep_seconds,
        )
        await asyncio.to_thread(self.scaler.start)
        return self.scaler

    async def stop_scaler(self) -> None:
        task, self._scaling = self._scaling, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    def turn(self) -> Host:
        """The `forward` for the next lease; `last` is the one before."""
        self._turn += 1
        self.last = self.forwards[self._turn % len(self.forwards)]
        return self.last

    def client_of_leases(self) -> LeaseClient:
        """Leases opened by the cell itself."""
        self._clients.append(LeaseClient(TOKEN))
        return self._clients[-1]

    def lease(self, lane: Lane, **changes: Any) -> Lease:
        wanted = {"seconds": 20.0, "linger": 0.5, "max_in_flight": self.max_in_flight, **changes}
        return Lease(lane.channel.stream, lane.consumer, **wanted)

    # -- faults

    def strike(self, most: int | None = None) -> Strike:
        """Something that holds events dies now: what is in hands may come twice."""
        now = time.monotonic()
        strike = Strike(now, now, self.max_in_flight if most is None else most)
        self.strikes.append(strike)
        return strike

    async def at_random(self, times: int, over: float, strike: Callable[[], Awaitable[None]]) -> None:
        """Strike so many times, at moments that the seed chooses."""
        moments = sorted(self.rng.uniform(0.2, over) for _ in range(times))
        began = time.monotonic()
        for moment in moments:
            await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
            await strike()

    # -- the end

    async def until(self, holds: Callable[[], bool], seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                self.row.notes.append(f"FAILED: after {seconds:g} s it was still not so that {what}")
                return
            await asyncio.sleep(0.01)

    def measure(self, what: str, seconds: float, most: float) -> None:
        self.row.notes.append(f"{'' if seconds <= most else 'FAILED: '}{what}: {seconds:.2f} s (at most {most:g} s)")

    async def info(self, lane: Lane) -> dict[str, Any]:
        return await self.nats.call(f"CONSUMER.INFO.{lane.channel.stream}.{lane.consumer}")

    async def leader_of(self, stream: str) -> str:
        """The node that leads a stream; between two leaders it waits for the next."""
        until = time.monotonic() + ELECTED_SECONDS
        while time.monotonic() < until:
            with suppress(*AWAY):
                if leader := (await self.nats.call(f"STREAM.INFO.{stream}")).get("cluster", {}).get("leader"):
                    return str(leader)
            await asyncio.sleep(ASK_AGAIN)
        raise AssertionError(f"stream {stream} has had no leader for {ELECTED_SECONDS:.0f} s")

    async def quiet(self, seconds: float = 45.0) -> None:
        """Wait until every consumer has settled everything; twice in a row, since counters lag a little."""
        deadline = time.monotonic() + seconds
        calm = 0
        while calm < 2 and time.monotonic() < deadline:
            await asyncio.sleep(ASK_AGAIN)
            with suppress(*AWAY):
                left = [await self._left(lane) for lane in self.lanes]
                calm = 0 if any(left) else calm + 1

    async def _left(self, lane: Lane) -> int:
        info = await self.info(lane)
        return int(info["num_pending"]) + int(info["num_ack_pending"])

    async def account(self) -> None:
        """Draw up the row; the functions may have gone, nats-server must be there."""
        for lane in self.lanes:
            stored = await self._surely(self._count, lane.channel.stream)
            prefix = f"{lane.channel.namespace}.{lane.channel.name}._knative_aside.parked.{lane.consumer}."
            parked = [one for one in await self.stored(lane.channel.aside) if one.subject.startswith(prefix)]
            held = Held(
                subscriber=list(lane.arrivals),
                replies=list(lane.reply.arrivals) if lane.replies else None,
                dead=list(lane.dead.arrivals),
                parked=[one.headers["ce-id"] for one in parked],
                stored=stored,
                left=await self._surely(self._left, lane),
            )
            settle(self.row, lane.sent, held)
            allow(self.row, held, self.strikes)

    async def _count(self, stream: str) -> int:
        return int((await self.nats.call(f"STREAM.INFO.{stream}"))["state"]["messages"])

    async def stored(self, stream: str) -> list[Stored]:
        """All that a stream holds."""
        return await self._surely(self.nats.stored, stream)

    @staticmethod
    async def _surely(ask: Callable[[Asked], Awaitable[Said]], about: Asked) -> Said:
        """Ask a cluster that may still be electing."""
        for _ in range(20):
            with suppress(*AWAY):
                return await ask(about)
            await asyncio.sleep(0.5)
        return await ask(about)
