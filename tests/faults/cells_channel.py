"""What people do to streams and consumers by hand; `reconcile`, a process too, mends it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import aiohttp

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.lane import Lane
from tests.faults.processes import Host
from tests.faults.sink import Say
from tests.support.functions.channels import channel as manifest
from tests.support.functions.channels import entry
from tests.support.functions.functions import TOKEN
from tests.support.nats.streams import METADATA_KEY, Channel

RATE = 60.0


class Reconciled:
    """A channel that `reconcile` has made, and makes again."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.host: Host = bench.host("reconcile")
        self.bench.others.append(self.host)
        self.parent = manifest(
            entry(subscriberUri=bench.sink.uri("/r/subscriber"), delivery={"retry": 5, "backoffDelay": "PT0.1S"}),
            name="kept",
        )

    async def start(self) -> Lane:
        await asyncio.to_thread(self.host.start)
        await self.sync()
        channel = Channel("shop", "kept")
        consumers = await self.bench.nats.call(f"CONSUMER.NAMES.{channel.stream}")
        subscriber, reply, sink = map(self.bench.sink.place, ("/r/subscriber", "/r/reply", "/r/dead"))
        lane = Lane(channel, consumers["consumers"][0], subscriber, reply, sink, replies=False)
        lane.subscriber.decide = lambda _: Say(delay=0.02)
        self.bench.lanes.append(lane)
        return lane

    async def sync(self) -> None:
        body = {"controller": {}, "parent": self.parent, "children": {}, "related": {}, "finalizing": False}
        async with (
            aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session,
            session.post(f"{self.host.url}/sync", json=body) as answer,
        ):
            assert answer.status == 200, await answer.text()


@cell(
    "consumer-deleted",
    "the consumer is deleted by hand, and made again by reconcile 2 s later",
    "both",
    "everything before: with the consumer its position is gone, and the new one begins at the beginning",
)
async def consumer_deleted(bench: Bench) -> None:
    kept = Reconciled(bench)
    lane = await kept.start()
    await bench.start_scaler()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane).send(bench.ids(200), rate=RATE))
        await asyncio.sleep(2)
        await bench.nats.call(f"CONSUMER.DELETE.{lane.channel.stream}.{lane.consumer}")
        await asyncio.sleep(2)
        bench.row.in_hands += len(lane.arrivals)
        await kept.sync()


@cell(
    "stream-deleted",
    "the stream is deleted by hand with a backlog, and made again by reconcile",
    "both",
    "what was acked on its way",
)
async def stream_deleted(bench: Bench) -> None:
    kept = Reconciled(bench)
    lane = await kept.start()
    await bench.producer(lane).send(bench.ids(100, "before"))
    await bench.start_scaler()
    await bench.until(lambda: len(lane.arrivals) >= 30, 20, "30 events came")
    await bench.stop_scaler()
    # Until the given-up lease has finished what it held.
    await asyncio.sleep(1)
    info = await bench.info(lane)
    bench.row.discarded += info["num_pending"] + info["num_ack_pending"]
    await bench.nats.call(f"STREAM.DELETE.{lane.channel.stream}")
    bench.row.notes.append("lost is what the deleted stream still held for the subscriber")
    sending = asyncio.create_task(bench.producer(lane).send(bench.ids(20, "between"), rate=RATE))
    await asyncio.sleep(1)
    await kept.sync()
    await bench.start_scaler()
    await sending
    await bench.producer(lane).send(bench.ids(100, "after"), rate=RATE)


@cell("consumer-paused", "the consumer is paused by hand for 4 s", "both")
async def consumer_paused(bench: Bench) -> None:
    lane = await bench.lane()
    lane.subscriber.decide = lambda _: Say(delay=0.02)
    await bench.start_scaler()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane).send(bench.ids(240), rate=RATE))
        await asyncio.sleep(1)
        until = (datetime.now(UTC) + timedelta(seconds=4)).isoformat().replace("+00:00", "Z")
        await bench.nats.call(f"CONSUMER.PAUSE.{lane.channel.stream}.{lane.consumer}", {"pause_until": until})


@cell("metadata-garbage", "the consumer's metadata is overwritten by hand, and mended by reconcile", "both")
async def metadata_garbage(bench: Bench) -> None:
    kept = Reconciled(bench)
    lane = await kept.start()
    await bench.start_scaler()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane).send(bench.ids(240), rate=RATE))
        await asyncio.sleep(1)
        info = await bench.info(lane)
        damaged = {**info["config"]["metadata"], METADATA_KEY: '{"v": 1, "subscriber": 7'}
        await bench.nats.edit_consumer(lane.channel, lane.consumer, damaged)
        await asyncio.sleep(3)
        await kept.sync()
