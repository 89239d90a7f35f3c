"""What `bench.nats_floor` measures: the same publishes and pulls by the engine, nats-py and bare protocols."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable

import nats

from bench import nats_bare
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.nats_wire import Arrival, PullRun, header_block
from headrace.io.nats.client import Client

WINDOW = 512
BATCH = 256
SUBJECT, STREAM, CONSUMER = "bench.floor", "FLOOR", "puller"
DATA = b"x" * 1024
HEADERS = {
    "ce-specversion": "1.0",
    "ce-id": "run-1-000001",
    "ce-source": "/orders/shop",
    "ce-type": "com.example.order.created",
    "ce-time": "2026-01-01T00:00:00Z",
    "content-type": "application/json",
}
BLOCK = header_block(HEADERS)
NEXT = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{CONSUMER}"
PULL = json.dumps({"batch": BATCH, "expires": 5_000_000_000}).encode()

Work = Callable[[str, int], Awaitable[float]]


async def _publish_with(publish: Callable[[], Awaitable[object]], messages: int) -> float:
    """CPU seconds for that many publishes, by as many workers as the window has places."""
    left = messages

    async def worker() -> None:
        nonlocal left
        while left > 0:
            left -= 1
            await publish()

    cpu = time.process_time()
    await asyncio.gather(*(worker() for _ in range(WINDOW)))
    return time.process_time() - cpu


async def bare_publish(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    return await link.publish_all(SUBJECT, BLOCK, DATA, messages, WINDOW)


async def future_publish(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    link.prepare(SUBJECT, BLOCK, DATA)
    return await _publish_with(link.publish, messages)


async def engine_publish(url: str, messages: int) -> float:
    return await _engine_publish(url, messages, HEADERS)


async def engine_publish_block(url: str, messages: int) -> float:
    return await _engine_publish(url, messages, BLOCK)


async def _engine_publish(url: str, messages: int, headers: dict[str, str] | bytes) -> float:
    engine = Client(NatsSettings(url=url))
    await engine.ready(5)
    cpu = await _publish_with(lambda: engine.request(SUBJECT, DATA, headers=headers, timeout=5), messages)
    await engine.close()
    return cpu


async def callback_publish(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    link.prepare(SUBJECT, BLOCK, DATA)
    return await _ask_with(link.ask, messages)


async def engine_ask(url: str, messages: int) -> float:
    engine = Client(NatsSettings(url=url))
    await engine.ready(5)

    def ask(on_answer: Callable[[object], None]) -> None:
        if not engine.ask(SUBJECT, DATA, BLOCK, 5, on_answer):
            # Paused: again in the next turn.
            asyncio.get_running_loop().call_soon(ask, on_answer)

    cpu = await _ask_with(ask, messages)
    await engine.close()
    return cpu


async def _ask_with(ask: Callable[[Callable[[object], None]], None], messages: int) -> float:
    """CPU seconds for that many publishes, each when an answer to a former one has come."""
    answered = 0
    done = asyncio.Event()

    def on_answer(_: object) -> None:
        nonlocal answered
        answered += 1
        if answered == messages:
            done.set()
        elif answered <= messages - WINDOW:
            ask(on_answer)

    cpu = time.process_time()
    for _ in range(WINDOW):
        ask(on_answer)
    await done.wait()
    return time.process_time() - cpu


async def nats_py_publish(url: str, messages: int) -> float:
    client = await nats.connect(url)
    jetstream = client.jetstream()
    cpu = await _publish_with(lambda: jetstream.publish(SUBJECT, DATA, headers=HEADERS, timeout=5), messages)
    await client.close()
    return cpu


async def bare_pull(url: str, messages: int) -> float:
    link = await nats_bare.connect(url)
    return await link.pull_all(NEXT, PULL, BATCH, messages)


async def engine_pull(url: str, messages: int) -> float:
    return await _engine_pull(url, messages, look=False)


async def engine_pull_headers(url: str, messages: int) -> float:
    return await _engine_pull(url, messages, look=True)


async def _engine_pull(url: str, messages: int, *, look: bool) -> float:
    engine = Client(NatsSettings(url=url))
    await engine.ready(5)
    acked = 0
    full = asyncio.Event()

    def count(messages: int) -> None:
        nonlocal acked
        acked += messages
        if acked % BATCH == 0:
            full.set()

    def on_arrival(arrival: Arrival) -> None:
        # From callbacks, as `forward` does it; the floor acks as it reads, too.
        if look and arrival.headers["ce-id"] != HEADERS["ce-id"]:
            raise RuntimeError(f"got {arrival.headers}")
        if not engine.answer(arrival.reply, b"+ACK"):
            raise RuntimeError("the socket takes no more acks")
        count(1)

    def on_pull_run(run: PullRun) -> None:
        for reply, _, _ in zip(run.replies, run.blocks, run.payloads, strict=True):
            if not engine.answer(reply, b"+ACK"):
                raise RuntimeError("the socket takes no more acks")
        count(len(run.replies))

    await engine.subscribe("_INBOX.pull", on_arrival, None if look else on_pull_run)
    cpu = time.process_time()
    for _ in range(messages // BATCH):
        await engine.publish(NEXT, PULL, reply="_INBOX.pull")
        await full.wait()
        full.clear()
    await engine.flush(5)
    cpu = time.process_time() - cpu
    await engine.close()
    return cpu


async def nats_py_pull(url: str, messages: int) -> float:
    client = await nats.connect(url)
    subscription = await client.jetstream().pull_subscribe_bind(CONSUMER, STREAM)
    cpu = time.process_time()
    for _ in range(messages // BATCH):
        for message in await subscription.fetch(BATCH, timeout=5):
            await message.ack()
    await client.flush()
    cpu = time.process_time() - cpu
    await client.close()
    return cpu


PUBLISH: dict[str, tuple[str, Work]] = {
    "bare": ("bare protocol, frames encoded beforehand, acks counted", bare_publish),
    "bare-future": ("the same, a future per publish", future_publish),
    "bare-callback": ("the same, a callback per publish", callback_publish),
    "engine-block": ("engine, header block encoded beforehand", engine_publish_block),
    "engine": ("engine, headers as a mapping", engine_publish),
    "engine-ask": ("engine, block encoded beforehand, answers told without a coroutine, as in `receive`", engine_ask),
    "nats-py": ("nats-py, JetStream publish", nats_py_publish),
}
PULLS: dict[str, tuple[str, Work]] = {
    "pull-bare": ("bare protocol, frames split, acks written", bare_pull),
    "pull-engine": ("engine, headers not looked into", engine_pull),
    "pull-engine-headers": ("engine, headers read", engine_pull_headers),
    "pull-nats-py": ("nats-py, fetch and ack", nats_py_pull),
}
ROWS = PUBLISH | PULLS


async def prepare(url: str, messages: int) -> None:
    """A fresh stream on disk with a consumer, holding as many messages as a round of pulls takes."""
    engine = Client(NatsSettings(url=url))
    stream = {"name": STREAM, "subjects": [SUBJECT], "storage": "file"}
    consumer = {
        "stream_name": STREAM,
        "config": {"durable_name": CONSUMER, "ack_policy": "explicit", "max_ack_pending": 100_000},
    }
    await engine.request(f"$JS.API.STREAM.DELETE.{STREAM}", timeout=5)
    for subject, body in (
        (f"$JS.API.STREAM.CREATE.{STREAM}", stream),
        (f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.{CONSUMER}", consumer),
    ):
        answer = json.loads((await engine.request(subject, json.dumps(body).encode(), timeout=5)).data)
        if "error" in answer:
            raise RuntimeError(f"{subject}: {answer['error']}")
    await engine.close()
    await engine_publish_block(url, messages)
