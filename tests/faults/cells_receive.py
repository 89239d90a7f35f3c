"""`receive` dies, freezes, restarts while producers send at a steady rate; and what it must refuse."""

from __future__ import annotations

import asyncio
import base64
import itertools
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_subscriber import expect
from tests.faults.lane import Lane
from tests.faults.processes import own_port
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import ApiError
from tests.support.waiting import until

RATE = 60.0
SECONDS = 5.0
SAME_ID = "none: a producer that got no answer sends the same event again, which the server's duplicate window knows"
MIB = 1024 * 1024


async def steady(bench: Bench, strike: Callable[[], Awaitable[None]], times: int = 2) -> Lane:
    """Producers send and a scaler drains, while something is struck at random."""
    lane = await bench.lane(policy={"retry": 10})
    await bench.start_scaler()
    async with asyncio.TaskGroup() as tasks:
        seconds = SECONDS * bench.size
        tasks.create_task(bench.producer(lane).send(bench.ids(int(RATE * SECONDS)), rate=RATE))
        tasks.create_task(bench.at_random(times, seconds * 0.8, strike))
    return lane


@cell("receive-killed", "SIGKILL of receive, twice", "sending", SAME_ID)
async def receive_killed(bench: Bench) -> None:
    await steady(bench, lambda: asyncio.to_thread(bench.receive.revive))


@cell("receive-frozen", "SIGSTOP of receive for 3 s", "sending", SAME_ID)
async def receive_frozen(bench: Bench) -> None:
    async def strike() -> None:
        bench.receive.freeze()
        await asyncio.sleep(3)
        bench.receive.thaw()

    await steady(bench, strike, 1)


@cell("receive-restarted", "SIGTERM of receive and a new start, twice", "sending", SAME_ID)
async def receive_restarted(bench: Bench) -> None:
    async def strike() -> None:
        bench.receive.terminate()
        status = await asyncio.to_thread(bench.receive.wait, 20)
        if status != 0:
            bench.row.notes.append(f"FAILED: receive ended with {status}")
        await asyncio.to_thread(bench.receive.start)

    await steady(bench, strike)


@cell("stream-full-new", "stream full, discard New", "sending")
async def stream_full_new(bench: Bench) -> None:
    lane = await bench.lane(stream={"max_msgs": 40, "discard": "new"})
    await bench.producer(lane).send(bench.ids(100))
    await bench.start_scaler()
    _expect(bench, lane, 507, len(bench.ids(100)) - 40)


@cell("stream-full-old", "stream full, discard Old", "sending")
async def stream_full_old(bench: Bench) -> None:
    lane = await bench.lane(stream={"max_msgs": 40, "discard": "old"})
    await bench.producer(lane).send(bench.ids(100))
    await count_discarded(bench, lane)
    await bench.start_scaler()
    await bench.until(lambda: len(lane.arrivals) >= 40, 20, "what is left was delivered")
    # A lease counts at its end, which comes when it has lingered.

    async def counted() -> bool:
        return await counted_as_discarded(bench, lane) > 0

    await until("what was discarded is counted", counted)
    expect(bench, "discarded, by Headrace's own count", await counted_as_discarded(bench, lane), bench.row.discarded)


async def counted_as_discarded(bench: Bench, lane: Lane) -> int:
    """What the consumer's condition says (ADR 018)."""
    channel = lane.channel
    subject = f"{channel.namespace}.{channel.name}._knative_aside.stage.{lane.consumer}.discarded.total"
    with suppress(ApiError):
        found = await bench.nats.call(f"STREAM.MSG.GET.{channel.aside}", {"last_by_subj": subject})
        return int(base64.b64decode(found["message"]["data"]))
    return 0


async def count_discarded(bench: Bench, lane: Lane) -> None:
    """What the server threw away before anyone pulled, by its own count (design 10.17)."""
    state = (await bench.nats.call(f"STREAM.INFO.{lane.channel.stream}"))["state"]
    bench.row.discarded += state["last_seq"] - state["messages"]


@cell("too-large", "events larger than max_payload among others", "sending")
async def too_large(bench: Bench) -> None:
    lane = await bench.lane()
    await bench.start_scaler()
    sizes = {"fits": MIB - 64 * 1024, "just-not": MIB - 8 * 1024, "never": 4 * MIB}
    producer = bench.producer(lane, try_seconds=10.0)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(producer.send(bench.ids(50, "small"), rate=50))
        for name, size in sizes.items():
            tasks.create_task(producer.send([f"{name}{n}" for n in range(3)], data=b"x" * size))
    _expect(bench, lane, 413, 6)


def _expect(bench: Bench, lane: Lane, status: int, count: int) -> None:
    found = [id for id, said in lane.sent.refused.items() if said == status]
    bench.row.notes.append(f"{len(found)} × {status}")
    if len(found) != count or len(lane.sent.refused) != count:
        bench.row.notes.append(f"FAILED: {count} × {status} expected, {lane.sent.refused}")


@contextmanager
def small_disk(directory: Path) -> Iterator[bool]:
    """A file system of 4 MiB, where we may mount one."""
    directory.mkdir(parents=True, exist_ok=True)
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", directory], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        yield False
        return
    try:
        yield True
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


def little_store(directory: Path) -> NatsServer:
    server = NatsServer(directory / "nats", port=own_port())
    # Before `jetstream {}` of the server's own configuration: a second block would be refused.
    server.data = directory / "little"
    return server


@cell("disk-full", "the disk under nats-server is full, and has room again", "sending", server=little_store)
async def disk_full(bench: Bench) -> None:
    assert isinstance(bench.server, NatsServer)
    bench.server.kill()
    with small_disk(bench.server.data) as mounted:
        store = bench.server.data if mounted else bench.directory / "limited"
        limit = "" if mounted else ", max_file_store: 3MB"
        bench.row.notes.append("tmpfs of 4 MiB" if mounted else "max_file_store of 3 MB: nothing may be mounted here")
        # The last `jetstream` of a configuration counts.
        config = f'jetstream {{ store_dir: "{store}"{limit} }}'
        await asyncio.to_thread(bench.server.start, config=config)
        try:
            await _fill(bench)
        finally:
            bench.server.kill()


async def _fill(bench: Bench) -> None:
    lane = await bench.lane(stream={"max_bytes": -1})
    producer = bench.producer(lane, patience=3.0)
    await producer.send((f"big{n}" for n in range(80)), data=b"x" * 64 * 1024, rate=40)
    said = sorted(set(lane.sent.refused.values()))
    bench.row.notes.append(f"refused with {said}, {len(lane.sent.unknown)} without an answer but 503")
    if len(lane.sent.accepted) == 80:
        bench.row.notes.append("FAILED: the disk was never full")
    await bench.start_scaler()
    await bench.quiet(20)
    await bench.nats.call(f"STREAM.PURGE.{lane.channel.stream}", {"keep": 1})
    await producer.send((f"again{n}" for n in itertools.chain(range(10))), rate=20)
    await bench.quiet(20)
    await bench.account()
    bench.lanes.clear()
