"""Subscribers, reply addresses and dead letter sinks that misbehave in every way that HTTP allows."""

from __future__ import annotations

import asyncio
import signal

from tests.faults.bench import Bench
from tests.faults.cell import cell
from tests.faults.cells_forward import reply_event
from tests.faults.lane import Lane
from tests.faults.processes import SinkProcess
from tests.faults.sink import HANG, TAKE, Arrival, Say, http

MIB = 1024 * 1024
PATIENT = {"retry": 12, "backoffPolicy": "linear", "backoffDelay": "PT0.2S", "timeout": "PT1S"}


async def drain(bench: Bench, lane: Lane, count: int = 60) -> None:
    await bench.send(lane, count)
    await bench.start_scaler()


def expect(bench: Bench, what: str, found: object, wanted: object) -> None:
    bench.row.notes.append(f"{what}: {found}" if found == wanted else f"FAILED: {what}: {found} instead of {wanted}")


@cell(
    "subscriber-killed",
    "the subscriber's process is killed and comes back after 2 s, twice",
    "both",
    "what it had taken down and not answered",
)
async def subscriber_killed(bench: Bench) -> None:
    await _process(bench, signal.SIGKILL)


@cell(
    "subscriber-frozen",
    "the subscriber's process stands still for 2 s, twice, its timeout is 1 s",
    "both",
    "what it took after its timeout, when it went on",
)
async def subscriber_frozen(bench: Bench) -> None:
    await _process(bench, signal.SIGSTOP)


async def _process(bench: Bench, number: signal.Signals) -> None:
    sink = SinkProcess(bench.directory, 0.02)
    await asyncio.to_thread(sink.start)
    lane = await bench.lane(process=sink, policy=PATIENT)
    await bench.start_scaler()

    async def strike() -> None:
        # Each time-out of one that stands still leaves a request behind, which it will take when it goes on.
        hit = bench.strike(bench.max_in_flight * (4 if number is signal.SIGSTOP else 1))
        sink.signal(number)
        await asyncio.sleep(2)
        if number is signal.SIGSTOP:
            sink.signal(signal.SIGCONT)
        else:
            await asyncio.to_thread(sink.kill)
            await asyncio.to_thread(sink.start)
        hit.until = asyncio.get_running_loop().time() + 1

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(bench.producer(lane).send(bench.ids(240), rate=60))
        tasks.create_task(bench.at_random(2, 3.0 * bench.size, strike))


@cell("subscriber-refuses", "the subscriber refuses connections for 4 s", "draining")
async def refuses(bench: Bench) -> None:
    lane = await bench.lane(policy=PATIENT)
    await bench.send(lane, 60)
    bench.sink.down()
    await bench.start_scaler()
    await asyncio.sleep(4)
    bench.sink.up()


@cell("subscriber-hangs", "the subscriber hangs beyond its timeout of 1 s, then takes", "draining")
async def hangs(bench: Bench) -> None:
    lane = await bench.lane(policy=PATIENT)
    lane.subscriber.says(HANG, TAKE)
    await drain(bench, lane)


@cell("subscriber-slow", "the subscriber answers after 11 s, longer than the ack wait", "draining")
async def slow(bench: Bench) -> None:
    lane = await bench.lane(policy={"timeout": "PT30S"})
    lane.subscriber.decide = lambda _: Say(delay=11.0)
    await bench.producer(lane).send(f"slow{number}" for number in range(30))
    await bench.start_scaler()


@cell("subscriber-hangs-up", "the subscriber ends the connection before or in mid-answer, then takes", "draining")
async def hangs_up(bench: Bench) -> None:
    lane = await bench.lane(policy=PATIENT)
    whole = http(200, b"x" * 100)
    half = Say(whole[:-50], takes=False, hangs_up=True)
    head = Say(whole[:20], takes=False, hangs_up=True)
    reset = Say(whole[:-50], takes=False, resets=True)
    nothing = Say(b"", takes=False, hangs_up=True)
    lane.subscriber.says(half, head, reset, nothing, TAKE)
    await drain(bench, lane)


@cell(
    "subscriber-talks",
    "2xx with bodies of 0 B to 1 MiB and more that are no event, HTML, garbage, 202 with an event",
    "draining",
)
async def talks(bench: Bench) -> None:
    """Nothing of this is a reply, so the reply address stays untouched."""
    lane = await bench.lane(replies=True)
    lane.replies = False
    event = {"ce-specversion": "1.0", "ce-id": "x", "ce-source": "/s", "ce-type": "t"}
    answers = [
        *(http(200, b"x" * size, content_type="application/octet-stream") for size in (0, 1, 1024, MIB, 2 * MIB)),
        http(200, b"<html>" * 1000, content_type="text/html"),
        http(200, b'{"a": 1}', content_type="application/json"),
        http(202, b'{"a": 1}', content_type="application/json", **event),
        http(200, b"not json", content_type="application/cloudevents+json"),
        http(200, b"{}", content_type="application/cloudevents+json"),
        http(200, b"", **{**event, "ce-specversion": "7"}),
        http(200, b"", **{"ce-specversion": "1.0", "ce-id": "x"}),
        http(204),
    ]
    lane.subscriber.decide = lambda arrival: Say(answers[int(arrival.id[1:]) % len(answers)])
    await drain(bench, lane, 5 * len(answers))
    await bench.quiet()
    expect(bench, "sent to the reply address", len(lane.reply.arrivals), 0)


@cell("subscriber-garbles", "answers that are no HTTP, invalid and endless headers; then it takes", "draining")
async def garbles(bench: Bench) -> None:
    lane = await bench.lane(policy=PATIENT)
    raws = [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 abc Nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbroken header\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\ncontent-length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"y" * (2 * MIB) + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 50_000 + b"\r\n",
        b"\x00\xff" * 100,
    ]
    seen: set[str] = set()

    def decide(arrival: Arrival) -> Say:
        if arrival.id in seen:
            return TAKE
        seen.add(arrival.id)
        return Say(raws[int(arrival.id[1:]) % len(raws)], takes=False, hangs_up=True)

    lane.subscriber.decide = decide
    await drain(bench, lane, 3 * len(raws))


@cell("subscriber-redirects", "redirects, which are never followed: dead-lettered", "draining")
async def redirects(bench: Bench) -> None:
    lane = await bench.lane(dead=True)
    trap = bench.sink.place("/trap")
    statuses = (301, 302, 303, 307, 308)
    where = bench.sink.uri("/trap")
    answers = [Say(http(status, location=where), takes=False) for status in statuses]
    lane.subscriber.decide = lambda arrival: answers[int(arrival.id[1:]) % len(answers)]
    await drain(bench, lane, 20)
    await bench.quiet()
    expect(bench, "followed", len(trap.arrivals), 0)


@cell("subscriber-every-status", "every status from 100 to 599, one retry, timeout 1 s", "draining")
async def every_status(bench: Bench) -> None:
    lane = await bench.lane(dead=True, policy={"retry": 1, "timeout": "PT1S"})

    def decide(arrival: Arrival) -> Say:
        status = 100 + int(arrival.id[1:])
        return Say(http(status), takes=200 <= status < 300)

    lane.subscriber.decide = decide
    bench.max_in_flight = 100
    await bench.producer(lane).send(f"s{number}" for number in range(500))
    await bench.start_scaler()
    await bench.quiet()
    tries = {status: sum(a.id == f"s{status - 100}" for a in lane.arrivals) for status in range(100, 600)}
    retried = [status for status, count in tries.items() if count == 2]
    # 101 is a final answer; the other 1xx are followed by nothing.
    again = [100, *range(102, 200), 404, 408, 409, 429, *range(500, 600)]
    expect(bench, "retried though final, or final though to be retried", sorted(set(retried) ^ set(again)), [])
    expect(bench, "delivered", len({a.id for a in lane.arrivals if a.took}), 100)


@cell("reply-down", "the reply address answers 503 for 3 s", "draining")
async def reply_down(bench: Bench) -> None:
    lane = await bench.lane(replies=True, policy=PATIENT)
    lane.subscriber.decide = reply_event
    lane.reply.decide = lambda _: Say(http(503), takes=False)
    await drain(bench, lane)
    await asyncio.sleep(3)
    lane.reply.decide = lambda _: TAKE
    await bench.quiet()
    expect(bench, "calls of the subscriber", len(lane.arrivals), len(lane.sent.accepted))


@cell(
    "reply-gone",
    "the reply address is down for good: dead-lettered",
    "draining",
    "the subscriber has taken it, and so has the sink: both fates are right",
)
async def reply_gone(bench: Bench) -> None:
    lane = await bench.lane(replies=True, dead=True, policy={"retry": 2})
    lane.subscriber.decide = reply_event
    lane.reply.decide = lambda _: Say(http(500), takes=False)
    await drain(bench, lane)
    await bench.quiet()
    expect(bench, "calls of the subscriber", len(lane.arrivals), len(lane.sent.accepted))


@cell("dead-letter-down", "the dead letter sink answers 503 for 3 s", "draining")
async def dead_letter_down(bench: Bench) -> None:
    lane = await bench.lane(dead=True, policy=PATIENT)
    lane.subscriber.decide = lambda _: Say(http(400), takes=False)
    lane.dead.decide = lambda _: Say(http(503), takes=False)
    await drain(bench, lane)
    await asyncio.sleep(3)
    lane.dead.decide = lambda _: TAKE


@cell("dead-letter-gone", "the dead letter sink is down for good: parked", "draining")
async def dead_letter_gone(bench: Bench) -> None:
    lane = await bench.lane(dead=True, policy={"retry": 2})
    lane.subscriber.decide = lambda _: Say(http(400), takes=False)
    lane.dead.decide = lambda _: Say(http(503), takes=False)
    await drain(bench, lane)


@cell("no-dead-letter", "retries exhausted and no sink: parked", "draining")
async def no_dead_letter(bench: Bench) -> None:
    lane = await bench.lane(policy={"retry": 3})
    lane.subscriber.decide = lambda _: Say(http(500), takes=False)
    await drain(bench, lane)
