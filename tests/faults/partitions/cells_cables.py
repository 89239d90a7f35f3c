"""Partitions: a host for each process, three nats-servers, and cables that fail in one direction or both"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import pairwise

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.lane import Lane
from tests.faults.partitions import network
from tests.faults.partitions.network import BENCH, Network
from tests.faults.processes import Cluster
from tests.faults.sink import Arrival, Say, http

SERVERS = Cluster.NAMES
FORWARDS = ("forward", "forward-2")
EVENTS, RATE, MOST_RATE = 1_500, 150.0, 1_000.0
MOST_STRIKES = 4
# So many seconds a backlog may take, for each `EVENTS`: a long run sends faster than two busy cores deliver.
BACKLOG = 4.0
# The server's for an event without an ack, and the leases of one consumer at most (both in the consumer's metadata).
ACK_WAIT, LEASES = 8.0, 4
# TCP sends again after ever longer pauses: what waited for a cable's mending waits about as long again.
TAIL = 2.0
UNSURE = "what was in hands: an ack that doesn't arrive within the ack wait is as good as none"

Strike = Callable[[Bench], Awaitable[None]]


def links(bench: Bench) -> Network:
    assert bench.network is not None
    return bench.network


def partition(name: str, fault: str, *, short: bool = False) -> Callable[[Strike], Strike]:
    """Register a cell: producers send, a scaler drains, and the strike is what happens meanwhile, once or more."""

    def register(strike: Strike) -> Strike:
        async def run(bench: Bench) -> None:
            await flood(bench, strike)
            if not links(bench).struck:
                bench.row.notes.append("FAILED: no packet has met the fault")

        cell(name, fault, "both", UNSURE, short=short, lacks=network.why_not, apart=True)(run)
        return strike

    return register


async def flood(bench: Bench, strike: Strike, patience: float = 90.0) -> None:
    """A steady flow through a subscriber that refuses each fiftieth event once, and strikes from beginning to end.

    Args:
        patience: seconds until all is settled, at most.
    """
    lane = await bench.lane(policy={"retry": 10})
    refused: set[str] = set()

    def decide(arrival: Arrival) -> Say:
        if arrival.id.endswith(("07", "57")) and arrival.id not in refused:
            refused.add(arrival.id)
            return Say(http(503), takes=False)
        return Say(delay=bench.rng.uniform(0.0, 0.02))

    lane.subscriber.decide = decide
    bench.row.takes_all = True
    await bench.second_forward()
    await bench.start_scaler_process()
    producer = bench.producer(lane, patience=120.0)
    sending = asyncio.create_task(producer.send(bench.ids(EVENTS), rate=min(MOST_RATE, RATE * bench.size)))
    times = 0
    try:
        while not sending.done() and times < (MOST_STRIKES if bench.size > 1 else 1):
            await asyncio.wait([sending], timeout=bench.rng.uniform(2.0, 4.0))
            await strike(bench)
            times += 1
            # Between two strikes everything settles.
            await asyncio.wait([sending], timeout=bench.rng.uniform(10.0, 15.0))
        await sending
    finally:
        sending.cancel()
    since = time.monotonic()
    await bench.quiet(patience + BACKLOG * bench.size)
    _note(bench, lane, times, time.monotonic() - since)


def _note(bench: Bench, lane: Lane, strikes: int, seconds: float) -> None:
    """How the fault was felt: by the subscriber and by producers."""
    at = sorted(arrival.at for arrival in lane.arrivals)
    silence = max((later - earlier for earlier, later in pairwise(at)), default=0.0)
    answers = ", ".join(f"{count} × {said}" for said, count in sorted(lane.sent.after.items())) or "none"
    bench.row.notes.append(
        f"struck {strikes} times; longest time without a delivery {silence:.1f} s; "
        f"all settled {seconds:.0f} s after the last was accepted; sent again after: {answers}"
    )


async def struck(bench: Bench, seconds: float, do: Callable[[], None], undo: Callable[[], None]) -> None:
    """A fault for so long; what each lease held meanwhile may come twice, as often as an ack wait passes."""
    most = bench.max_in_flight * LEASES * (2 + int(seconds / ACK_WAIT))
    hit = bench.strike(most)
    await asyncio.to_thread(do)
    try:
        await asyncio.sleep(seconds)
    finally:
        await asyncio.to_thread(undo)
    hit.until = time.monotonic() + TAIL * seconds


async def leader_of(bench: Bench) -> tuple[str, list[str]]:
    """The node that leads the channel's stream, and the two others."""
    name = await bench.leader_of(bench.lanes[0].channel.stream)
    return name, [other for other in SERVERS if other != name]


async def cut(bench: Bench, seconds: float, some: tuple[str, ...], others: tuple[str, ...]) -> None:
    await struck(bench, seconds, partial(links(bench).cut, some, others), links(bench).mend)


async def deaf(bench: Bench, seconds: float, some: tuple[str, ...], to: tuple[str, ...]) -> None:
    """Those on the one side don't hear those on the other, who hear them."""

    def do() -> None:
        for one in some:
            for other in to:
                links(bench).lose(other, one)

    await struck(bench, seconds, do, links(bench).mend)


# -- nats-servers among themselves


@partition("nats-leader-apart", "the leader is cut from both others for 10 s; clients reach all three", short=True)
async def leader_apart(bench: Bench) -> None:
    leader, others = await leader_of(bench)
    await cut(bench, 10, (leader,), tuple(others))


@partition("nats-follower-apart", "a follower is cut from both others for 10 s; clients reach all three")
async def follower_apart(bench: Bench) -> None:
    _, others = await leader_of(bench)
    one = bench.rng.choice(others)
    await cut(bench, 10, (one,), tuple(set(SERVERS) - {one}))


@partition("nats-follower-apart-100", "a follower is cut from both others for 100 s: their routes are given up, too")
async def follower_apart_100(bench: Bench) -> None:
    _, others = await leader_of(bench)
    one = bench.rng.choice(others)
    await cut(bench, 100, (one,), tuple(set(SERVERS) - {one}))


@partition("nats-leader-unheard", "no other server hears the leader for 10 s, and it hears them")
async def leader_unheard(bench: Bench) -> None:
    leader, others = await leader_of(bench)
    await deaf(bench, 10, tuple(others), (leader,))


@partition("nats-leader-deaf", "the leader hears no other server for 10 s, and they hear it")
async def leader_deaf(bench: Bench) -> None:
    leader, others = await leader_of(bench)
    await deaf(bench, 10, (leader,), tuple(others))


@partition("nats-two-of-three", "the leader and one follower don't hear each other for 10 s; the third hears both")
async def two_of_three(bench: Bench) -> None:
    leader, others = await leader_of(bench)
    await cut(bench, 10, (leader,), (others[0],))


@partition("nats-node-gone", "the leader is cut from everybody, clients too, for 15 s")
async def node_gone(bench: Bench) -> None:
    leader, others = await leader_of(bench)
    await cut(bench, 15, (leader,), (*others, "receive", *FORWARDS, "operator"))


# -- forward


@partition("forward-from-nats-5", "a forward is cut from NATS, not from the subscriber, for 5 s")
async def forward_5(bench: Bench) -> None:
    await cut(bench, 5, FORWARDS[:1], SERVERS)


@partition("forward-from-nats-12", "a forward is cut from NATS for 12 s: longer than pings and ack wait", short=True)
async def forward_12(bench: Bench) -> None:
    await cut(bench, 12, FORWARDS[:1], SERVERS)


@partition("forward-from-nats-35", "a forward is cut from NATS for 35 s: longer than a lease")
async def forward_35(bench: Bench) -> None:
    await cut(bench, 35, FORWARDS[:1], SERVERS)


@partition("forward-acks-lost", "what a forward says to NATS is lost for 12 s, and it hears NATS")
async def acks_lost(bench: Bench) -> None:
    await deaf(bench, 12, SERVERS, FORWARDS[:1])


@partition("forward-from-subscriber-5", "a forward is cut from the subscriber, not from NATS, for 5 s")
async def subscriber_5(bench: Bench) -> None:
    await cut(bench, 5, FORWARDS[:1], (BENCH,))


@partition("forward-from-subscriber-12", "a forward is cut from the subscriber for 12 s: longer than a timeout")
async def subscriber_12(bench: Bench) -> None:
    await cut(bench, 12, FORWARDS[:1], (BENCH,))


@partition("forward-from-subscriber-35", "a forward is cut from the subscriber for 35 s: longer than a lease")
async def subscriber_35(bench: Bench) -> None:
    await cut(bench, 35, FORWARDS[:1], (BENCH,))


@partition("answers-lost", "both forwards' requests reach the subscriber, whose answers are lost, for 12 s")
async def answers_lost(bench: Bench) -> None:
    await deaf(bench, 12, FORWARDS, (BENCH,))


# -- receive


@partition("receive-from-nats", "receive is cut from NATS for 10 s in mid-flood")
async def receive_cut(bench: Bench) -> None:
    await cut(bench, 10, ("receive",), SERVERS)


@partition("pubacks-lost", "publishes of receive arrive, and PubAcks are lost, for 10 s in mid-flood", short=True)
async def pubacks_lost(bench: Bench) -> None:
    await deaf(bench, 10, ("receive",), SERVERS)


@partition("publishes-lost", "publishes of receive are lost for 10 s in mid-flood, and it hears NATS")
async def publishes_lost(bench: Bench) -> None:
    await deaf(bench, 10, SERVERS, ("receive",))


# -- the operator's scaler


@partition("operator-from-forward", "the scaler is cut from both forwards for 12 s, in mid-lease")
async def operator_forward(bench: Bench) -> None:
    await cut(bench, 12, ("operator",), FORWARDS)


@partition("operator-from-nats", "the scaler is cut from NATS for 12 s")
async def operator_nats(bench: Bench) -> None:
    await cut(bench, 12, ("operator",), SERVERS)


@partition("operator-from-both", "the scaler is cut from both forwards and from NATS for 35 s: longer than a lease")
async def operator_both(bench: Bench) -> None:
    await cut(bench, 35, ("operator",), (*SERVERS, *FORWARDS))


# -- slow links


async def slow(bench: Bench, ends: list[tuple[str, str]]) -> None:
    def do() -> None:
        for one, other in ends:
            links(bench).slow(one, other, delay=0.2, jitter=0.05, loss=0.01)

    await struck(bench, 20, do, links(bench).mend)


@partition("slow-forward-nats", "200 ± 50 ms and 1 % loss between both forwards and NATS, for 20 s")
async def slow_forward(bench: Bench) -> None:
    await slow(bench, [(forward, server) for forward in FORWARDS for server in SERVERS])


@partition("slow-routes", "200 ± 50 ms and 1 % loss between the three servers, for 20 s")
async def slow_routes(bench: Bench) -> None:
    await slow(bench, [("n0", "n1"), ("n0", "n2"), ("n1", "n2")])


@partition("slow-receive-nats", "200 ± 50 ms and 1 % loss between receive and NATS, for 20 s")
async def slow_receive(bench: Bench) -> None:
    await slow(bench, [("receive", server) for server in SERVERS])
