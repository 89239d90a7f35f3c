"""Memory stays bounded, and one subscriber's trouble stays its own. The figures are in the notes of the table."""

from __future__ import annotations

import asyncio
import statistics

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_subscriber import expect
from tests.faults.lane import Lane
from tests.faults.sink import HANG, Say, http
from tests.support.nats.streams import binary_event

MIB = 1024 * 1024
# Python with our imports takes 45 to 60 MiB; what the settings allow comes on top: 64 MiB waiting for NATS in
# `receive`, 16 MiB in subscribers' hands per lease in `forward`, each of them in a copy or two.
RECEIVE_MIB, FORWARD_MIB = 250, 160


def peaks(bench: Bench) -> None:
    bench.receive.remember_peak()
    bench.forward.remember_peak()
    for host, most in ((bench.receive, RECEIVE_MIB), (bench.forward, FORWARD_MIB)):
        found = host.peak / MIB
        bench.row.notes.append(f"{'' if found <= most else 'FAILED: '}peak of {host.target} {found:.0f} MiB")


@cell(
    "memory-backlog",
    "a backlog of 100,000 small events, published past receive and drained for 10 s; memory only, no account",
    "draining",
    short=False,
)
async def backlog(bench: Bench) -> None:
    lane = await bench.lane()
    for number in range(100_000):
        await bench.nats.client.publish(lane.channel.subject, b"{}", headers=binary_event(f"b{number}"))
        if number % 500 == 0:
            await bench.nats.client.flush()
    await bench.nats.client.flush()
    await bench.start_scaler()
    await asyncio.sleep(10)
    bench.row.notes.append(f"{len(lane.arrivals) / 10:.0f} events/s beside the bench's own work")
    await bench.stop_scaler()
    peaks(bench)
    # Who reads a hundred thousand back one by one? The other cells count.
    bench.row.sent = bench.row.accepted = bench.row.stored = 100_000
    bench.row.delivered = len(lane.arrivals)
    bench.lanes.clear()


@cell("memory-large", "events of 960 KiB, 64 at once", "both")
async def large(bench: Bench) -> None:
    lane = await bench.lane()
    bench.max_in_flight = 100
    await bench.start_scaler()
    await bench.producer(lane, try_seconds=15.0).send(bench.ids(80), data=b"x" * 960 * 1024)
    await bench.quiet()
    peaks(bench)


@cell("memory-hanging", "a subscriber that hangs until its timeout of 2 s, events of 256 KiB", "draining")
async def hanging(bench: Bench) -> None:
    lane = await bench.lane(policy={"timeout": "PT2S"})
    lane.subscriber.decide = lambda _: HANG
    bench.max_in_flight = 100
    await bench.producer(lane, try_seconds=15.0).send(bench.ids(150), data=b"x" * 256 * 1024)
    await bench.start_scaler()
    await bench.quiet()
    peaks(bench)


def latencies(lane: Lane, since: int) -> list[float]:
    """Milliseconds from the first try of a producer to the subscriber."""
    return [1000 * (one.at - float(one.headers["ce-sentat"])) for one in lane.arrivals[since:]]


async def healthy(bench: Bench, lane: Lane, prefix: str) -> float:
    """The median latency of a subscriber that answers at once; the first second, with its cold start, is left out."""
    await bench.producer(lane).send(bench.ids(30, f"{prefix}warm"), rate=30)
    since = len(lane.arrivals)
    await bench.producer(lane).send(bench.ids(120, prefix), rate=40)
    return statistics.median(latencies(lane, since))


async def beside(bench: Bench, good: Lane, before: float) -> None:
    after = await healthy(bench, good, "beside")
    bench.row.notes.append(f"median latency of the healthy one {before:.1f} ms alone, {after:.1f} ms beside it")
    if after > 3 * before + 20:
        bench.row.notes.append("FAILED: the healthy subscriber is slowed")


@cell("stuck-beside-healthy", "a subscriber that hangs, beside a healthy one, on one forward", "both")
async def stuck(bench: Bench) -> None:
    good = await bench.lane()
    bad = await bench.lane(policy={"timeout": "PT3S"})
    bad.subscriber.decide = lambda _: HANG
    await bench.start_scaler()
    before = await healthy(bench, good, "alone")
    await bench.producer(bad).send(bench.ids(60))
    await bench.until(lambda: len(bad.arrivals) >= bench.max_in_flight, 10, "the window was full of hanging events")
    await beside(bench, good, before)


@cell("window-full", "an ack window of 5 full of delayed retries, beside a healthy subscriber", "both")
async def window_full(bench: Bench) -> None:
    good = await bench.lane()
    bad = await bench.lane(
        policy={"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT4S"}, consumer={"max_ack_pending": 5}
    )
    bad.subscriber.decide = lambda _: Say(http(503), takes=False)
    await bench.start_scaler()
    before = await healthy(bench, good, "alone")
    await bench.producer(bad).send(f"bad{number}" for number in range(15))
    await bench.until(lambda: len(bad.arrivals) >= 5, 10, "five were tried")
    answer = await bench.client_of_leases().open(bench.forward.url, bench.lease(bad, seconds=1.0))
    expect(bench, "a lease's answer (pending, ack_pending)", (answer.pending, answer.ack_pending), (10, 5))
    await beside(bench, good, before)
