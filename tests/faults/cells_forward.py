"""`forward` dies at every step of a delivery, freezes, restarts.

The exact moments: SIGSTOP from inside the subscriber, then its answer, then SIGKILL: the answer was given, and
`forward` has not read it.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.ledger import Strike
from tests.faults.processes import Host
from tests.faults.sink import TAKE, Arrival, Place, Say, http

IN_HANDS = "what was in the subscriber's (sink's) hands, or answered and not yet acked, when it died"
KILLS = 3


def reply_event(arrival: Arrival) -> Say:
    """202 may hold no reply, so 200; its id is that of the event with `r-` before it."""
    headers = {"ce-specversion": "1.0", "ce-id": f"r-{arrival.id}", "ce-source": "/subscriber", "ce-type": "reply"}
    return Say(http(200, b'{"r": 1}', content_type="application/json", **headers))


def every(bench: Bench, strike: Callable[[], None]) -> Callable[[], None]:
    """Strike at `KILLS` calls that the seed chooses."""
    chosen = set(bench.rng.sample(range(5, bench.scaled(60)), KILLS))
    calls = itertools.count()

    def called() -> None:
        if next(calls) in chosen:
            strike()

    return called


def die_in(bench: Bench, place: Place) -> None:
    """SIGKILL between the arrival of an event and its answer."""
    decide = place.decide

    def strike() -> None:
        bench.strike()
        bench.forward.shoot()

    struck = every(bench, strike)

    def decided(arrival: Arrival) -> Say:
        answer = decide(arrival)
        struck()
        return answer

    place.decide = decided


def die_after(bench: Bench, place: Place) -> None:
    """SIGKILL after the answer was given and before it is read."""
    decide, frozen = place.decide, list[Strike]()

    def strike() -> None:
        frozen.append(bench.strike())
        bench.forward.freeze()

    struck = every(bench, strike)

    def decided(arrival: Arrival) -> Say:
        answer = decide(arrival)
        struck()
        return answer

    def after(_: Arrival) -> None:
        if frozen:
            bench.forward.shoot()
            frozen.pop().until = time.monotonic()

    place.decide, place.after = decided, after


async def revived(bench: Bench, host: Host) -> None:
    """Start it again whenever it has died, as Kubernetes does."""
    while True:
        await asyncio.sleep(0.05)
        if host.dead():
            await asyncio.to_thread(host.revive)


async def drain(bench: Bench) -> None:
    """Let a scaler drain everything, `forward` being revived meanwhile."""
    keeper = asyncio.create_task(revived(bench, bench.forward))
    await bench.start_scaler()
    await bench.quiet()
    if keeper.done():
        keeper.result()
    keeper.cancel()
    await asyncio.wait([keeper])


@cell("forward-killed-before-post", "SIGKILL of forward as it connects to the subscriber", "draining", IN_HANDS)
async def before_post(bench: Bench) -> None:
    lane = await bench.lane()
    # A connection for each event, so that there are enough of them.
    lane.subscriber.decide = lambda _: Say(hangs_up=True)
    await bench.send(lane)

    def strike() -> None:
        bench.strike()
        bench.forward.shoot()

    bench.sink.on_connect = every(bench, strike)
    await drain(bench)


@cell("forward-killed-in-post", "SIGKILL of forward before the subscriber's answer", "draining", IN_HANDS)
async def in_post(bench: Bench) -> None:
    lane = await bench.lane()
    await bench.send(lane)
    die_in(bench, lane.subscriber)
    await drain(bench)


@cell("forward-killed-after-2xx", "SIGKILL of forward after the subscriber's 2xx, before the ack", "draining", IN_HANDS)
async def after_2xx(bench: Bench) -> None:
    lane = await bench.lane()
    await bench.send(lane)
    die_after(bench, lane.subscriber)
    await drain(bench)


@cell("forward-killed-before-reply", "SIGKILL of forward before the reply's POST", "draining", IN_HANDS)
async def before_reply(bench: Bench) -> None:
    lane = await bench.lane(replies=True)
    await bench.send(lane)
    lane.subscriber.decide = reply_event
    die_after(bench, lane.subscriber)
    await drain(bench)


@cell("forward-killed-in-reply", "SIGKILL of forward before the reply address answers", "draining", IN_HANDS)
async def in_reply(bench: Bench) -> None:
    lane = await bench.lane(replies=True)
    await bench.send(lane)
    lane.subscriber.decide = reply_event
    die_in(bench, lane.reply)
    await drain(bench)


@cell("forward-killed-after-reply", "SIGKILL of forward after the reply address's 2xx", "draining", IN_HANDS)
async def after_reply(bench: Bench) -> None:
    lane = await bench.lane(replies=True)
    await bench.send(lane)
    lane.subscriber.decide = reply_event
    die_after(bench, lane.reply)
    await drain(bench)


REFUSE = Say(http(400, b"no"), takes=False)


@cell("forward-killed-before-dead-letter", "SIGKILL of forward before the dead letter POST", "draining", IN_HANDS)
async def before_dead_letter(bench: Bench) -> None:
    lane = await bench.lane(dead=True)
    await bench.send(lane)
    lane.subscriber.decide = lambda _: REFUSE
    die_after(bench, lane.subscriber)
    await drain(bench)


@cell("forward-killed-in-dead-letter", "SIGKILL of forward before the sink answers", "draining", IN_HANDS)
async def in_dead_letter(bench: Bench) -> None:
    lane = await bench.lane(dead=True)
    await bench.send(lane)
    lane.subscriber.decide = lambda _: REFUSE
    die_in(bench, lane.dead)
    await drain(bench)


@cell("forward-killed-after-dead-letter", "SIGKILL of forward after the sink's 2xx", "draining", IN_HANDS)
async def after_dead_letter(bench: Bench) -> None:
    lane = await bench.lane(dead=True)
    await bench.send(lane)
    lane.subscriber.decide = lambda _: REFUSE
    die_after(bench, lane.dead)
    await drain(bench)


@cell("forward-killed-parking", "SIGKILL of forward while it parks and retries", "draining", IN_HANDS)
async def parking(bench: Bench) -> None:
    lane = await bench.lane(policy={"retry": 2})
    await bench.send(lane)
    lane.subscriber.decide = lambda _: Say(http(503), takes=False)
    die_after(bench, lane.subscriber)
    await drain(bench)


@cell("forward-killed-at-random", "SIGKILL of forward at 4 random moments", "both", IN_HANDS)
async def at_random(bench: Bench) -> None:
    lane = await bench.lane(policy={"retry": 3})
    # A third is refused once: retries and their records are in the game, too.
    lane.subscriber.says(TAKE)
    flaky = lane.subscriber.decide
    seen: set[str] = set()

    def decide(arrival: Arrival) -> Say:
        if arrival.id.endswith(("3", "6", "9")) and arrival.id not in seen:
            seen.add(arrival.id)
            return Say(http(503), takes=False)
        answer = flaky(arrival)
        return Say(answer.raw, delay=bench.rng.uniform(0.0, 0.1))

    lane.subscriber.decide = decide
    await bench.start_scaler()

    async def strike() -> None:
        bench.strike()
        await asyncio.to_thread(bench.forward.revive)

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane).send(bench.ids(300), rate=60))
        tasks.create_task(bench.at_random(4, 5.0 * bench.size, strike))


@cell(
    "forward-frozen", "SIGSTOP of forward for 10 s, longer than the ack wait, beside another one", "draining", IN_HANDS
)
async def frozen(bench: Bench) -> None:
    # The deadlines of the POSTs pass while it stands still; the answers wait in its sockets.
    lane = await bench.lane(policy={"timeout": "PT5S"})
    await bench.send(lane)
    lane.subscriber.decide = lambda _: Say(delay=0.1)
    await bench.second_forward()
    leases = bench.client_of_leases()
    stuck = asyncio.create_task(leases.open(bench.forward.url, bench.lease(lane)))
    await bench.until(lambda: len(lane.arrivals) >= 20, 20, "20 events came")
    # All that it has pulled may come twice: once by each of the two.
    strike = bench.strike()
    bench.forward.freeze()
    bench.forwards.reverse()
    await bench.start_scaler()
    await asyncio.sleep(10)
    bench.forwards[1].thaw()
    answer = await stuck
    strike.until = time.monotonic()
    if answer.counts["parked"]:
        bench.row.notes.append(f"FAILED: {answer.counts['parked']} parked that the subscriber had taken")


@cell("forward-restarted", "SIGTERM of forward with a lease in flight, three times", "draining")
async def restarted(bench: Bench) -> None:
    lane = await bench.lane()
    await bench.send(lane, 300)
    lane.subscriber.decide = lambda _: Say(delay=bench.rng.uniform(0.05, 0.3))
    await bench.start_scaler()

    async def strike() -> None:
        bench.forward.terminate()
        status = await asyncio.to_thread(bench.forward.wait, 30)
        if status != 0:
            bench.row.notes.append(f"FAILED: forward ended with {status}")
        await asyncio.to_thread(bench.forward.start)

    await bench.at_random(3, 4.0 * bench.size, strike)


@cell(
    "forward-vanished",
    "SIGSTOP of forward for good: its lease never ends, nor does its connection",
    "draining",
    "what was in the subscriber's hands",
)
async def vanished(bench: Bench) -> None:
    """As when a node dies without a word: the scaler has to give the lease up by itself."""
    lane = await bench.lane()
    await bench.send(lane)
    lane.subscriber.decide = lambda _: Say(delay=0.1)
    await bench.start_scaler()
    await bench.until(lambda: len(lane.arrivals) >= 20, 20, "20 events came")
    bench.strike()
    bench.forward.freeze()
    since = time.monotonic()
    await bench.second_forward()
    bench.forwards.reverse()
    bench.forwards.pop()
    bench.others.append(bench.last)
    seen = len(lane.arrivals)
    await bench.until(lambda: len(lane.arrivals) > seen + bench.max_in_flight, 40, "the other forward delivered")
    bench.measure("first delivery by the other forward", time.monotonic() - since, 32.0)
