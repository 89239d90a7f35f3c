"""A server whose limits leave no room for events: told at the start, in a condition and by `doctor`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel
from tests.support.functions.functions import Function
from tests.support.functions.reconciling import Hook, condition
from tests.support.http.sending import BINARY, send
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served", "tests.support.functions.scaled"]

ORDERS = Channel("shop", "orders")
LARGE = bytes(60_000)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    """Its whole store is a megabyte."""
    started = NatsServer(tmp_path / "small", store="max_file_store: 1MB").start()
    yield started
    started.kill()


@asynccontextmanager
async def hook_of(server: NatsServer) -> AsyncIterator[Hook]:
    client = Client(NatsSettings(url=server.url), name="test")
    try:
        yield Hook(client)
    finally:
        await client.close()


async def fill(receive: Function) -> int:
    """Send until nothing is taken any more; the last status."""
    for number in range(40):
        reply = await send(f"{receive.url}{ORDERS.path}", LARGE, {**BINARY, "ce-id": str(number)})
        if reply.status != 202:
            return reply.status
    return 202


async def test_a_full_store_is_told_in_a_condition_and_by_doctor_until_it_has_room(
    server: NatsServer, tmp_path: Path
) -> None:
    parent = channel()
    with Function("receive", server.url, tmp_path) as receive:
        async with hook_of(server) as hook:
            before = await hook.sync(parent)
            assert condition(before, "StreamHasRoom")["status"] == "True"
            # The question leaves nothing behind.
            info = await hook.api.call(f"STREAM.INFO.{ORDERS.aside}")
            assert info["state"]["last_seq"] == 0

            assert await fill(receive) == 507
            answer = await hook.sync(parent)
            told = condition(answer, "StreamHasRoom")
            assert (told["status"], told["reason"], told["severity"]) == ("False", "StoreFull", "Info")
            assert told["message"].startswith("NATS has no room for any message: insufficient resources; events are ")
            assert condition(answer, "Ready")["status"] == "True"
            # Nobody tells when there is room again, so it is looked at again.
            assert answer["resyncAfterSeconds"] == 30.1

            ran = await Cli(server.url)("doctor", "shop/orders", "-o", "json")
            codes = {item["code"]: item["severity"] for item in ran.json["items"]}
            assert codes["store-full"] == "problem"
            checked = await Cli(server.url)("check", "shop/orders")
            assert (checked.status, checked.out.partition(":")[0]) == (2, "CRITICAL - NATS has no room for any message")

            await hook.api.call(f"STREAM.PURGE.{ORDERS.stream}")
            assert condition(await hook.sync(parent), "StreamHasRoom")["status"] == "True"
            ran = await Cli(server.url)("doctor", "shop/orders", "-o", "json")
            assert "store-full" not in {item["code"] for item in ran.json["items"]}


async def test_a_stream_that_is_full_by_its_own_limits_and_refuses_events_is_told(server: NatsServer) -> None:
    parent = channel(stream={"config": {"maxMsgs": 2, "discard": "New"}})
    async with hook_of(server) as hook, Nats(server.url) as nats:
        assert condition(await hook.sync(parent), "StreamHasRoom")["status"] == "True"
        for _ in range(2):
            await nats.client.request(ORDERS.subject, b"{}")
        told = condition(await hook.sync(parent), "StreamHasRoom")
        assert (told["status"], told["reason"]) == ("False", "StreamFull")
        assert "holds 2 messages, of 2 that may be; it refuses events (507)" in told["message"]


async def test_a_receive_that_finds_no_room_has_the_channel_looked_at(server: NatsServer, tmp_path: Path) -> None:
    with Function("receive", server.url, tmp_path) as receive:
        async with hook_of(server) as hook, Nats(server.url) as nats:
            await hook.sync(channel())
            heard: list[bytes] = []

            async def on_hint(hint: object) -> None:
                heard.append(hint.data)  # type: ignore[attr-defined]  # a message

            await nats.client.subscribe(f"headrace.wake.{ORDERS.stream}", cb=on_hint)
            await nats.client.flush()
            assert await fill(receive) == 507
            await until("it is told that there is no room", lambda: b"full" in heard)
            for number in range(5):
                await send(f"{receive.url}{ORDERS.path}", LARGE, {**BINARY, "ce-id": f"more-{number}"})
            await asyncio.sleep(0.3)
            assert heard.count(b"full") == 1


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[NatsServer]:
    """It takes messages of 4 KiB at most."""
    started = NatsServer(tmp_path / "tiny", config="max_payload: 4096").start()
    yield started
    started.kill()


async def test_a_server_that_no_event_fits_is_told_at_the_start_in_a_condition_and_by_doctor(
    tiny: NatsServer, tmp_path: Path
) -> None:
    words = (
        "the NATS server's max_payload is 4096 bytes, of which 8192 are kept free for what a retry or a parked event"
    )
    with Function("receive", tiny.url, tmp_path) as receive:
        async with hook_of(tiny) as hook:
            answer = await hook.sync(channel())
        ready = condition(answer, "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "NoEventFits")
        assert condition(answer, "EventsFit")["message"].startswith(words)

        reply = await send(f"{receive.url}{ORDERS.path}", b"{}", BINARY)
        assert (reply.status, reply.headers["Retry-After"]) == (503, "10")
        assert reply.json["detail"].startswith(words)
        await send(f"{receive.url}/health/readiness", method="GET")
        assert receive.log.count('"event": "no event fits"') == 1

    ran = await Cli(tiny.url)("doctor", "shop/orders", "-o", "json")
    assert {item["code"]: item["severity"] for item in ran.json["items"]}["no-event-fits"] == "problem"
