"""Events that `receive` refuses for their size, or because the stream is full: 413 and 507, at the byte."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Ask, send
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]

# The server's max_payload of 1 MiB, less 8 KiB.
LIMIT = 1_040_384
DATA = b'{"n": 1}'
STRUCTURED = {"content-type": "application/cloudevents+json"}
JSON_EVENT = b'{"specversion":"1.0","id":"1","source":"/shop","type":"order.created"%b}'


async def test_an_event_may_fill_the_limit_to_the_last_byte_and_one_more_costs_no_connection(
    receive: Function, ask: Ask, nats: Nats, orders: Channel
) -> None:
    await ask(orders.path, b"")
    [small] = await nats.stored(orders.stream)
    head = "".join(f"{name}: {value}\r\n" for name, value in small.headers.items())
    most = LIMIT - len(f"NATS/1.0\r\n{head}\r\n")
    over = await ask(orders.path, bytes(most + 1), {**BINARY, "ce-id": "2"})
    assert over.status == 413
    assert "1040384" in over.detail
    assert (await ask(orders.path, bytes(most), {**BINARY, "ce-id": "3"})).status == 202
    assert [len(one.data) for one in await nats.stored(orders.stream)] == [0, most]
    assert "lost" not in receive.log


async def test_a_body_that_is_announced_too_large_is_refused_before_it_comes(
    receive: Function, orders: Channel
) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", receive.port)
    head = {"host": "x", "content-length": "1040385", **BINARY}
    lines = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"POST {orders.path} HTTP/1.1\r\n{lines}\r\n".encode())
    answer = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 30)
    writer.close()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert re.search(rb"(?i)\r\nallow: POST, OPTIONS\r\n", answer)


async def test_a_body_that_grows_too_large_chunk_by_chunk_is_refused(ask: Ask, orders: Channel) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield bytes(64 * 1024)

    assert (await ask(orders.path, chunks())).status == 413


async def test_a_structured_event_may_be_longer_on_the_way_in_than_it_is_stored(
    ask: Ask, nats: Nats, orders: Channel
) -> None:
    body = JSON_EVENT % (b',"datacontenttype":"image/png","data_base64":"%b"' % (b"AAAA" * 340_000))
    assert len(body) > LIMIT
    assert (await ask(orders.path, body, STRUCTURED)).status == 202
    [stored] = await nats.stored(orders.stream)
    assert stored.data == bytes(1_020_000)


async def test_an_event_larger_than_the_stream_takes_is_refused(ask: Ask, nats: Nats) -> None:
    orders = await nats.make_channel(max_msg_size=1000)
    assert (await ask(orders.path, bytes(2000))).status == 413
    assert (await ask(orders.path, bytes(500))).status == 202


@pytest.mark.parametrize("limit", [{"max_msgs": 1}, {"max_bytes": 1000}], ids=["of messages", "of bytes"])
async def test_a_full_stream_answers_507_and_when_to_try_again(ask: Ask, nats: Nats, limit: dict[str, Any]) -> None:
    orders = await nats.make_channel(discard="new", **limit)
    assert (await ask(orders.path, bytes(500))).status == 202
    reply = await ask(orders.path, bytes(500), {**BINARY, "ce-id": "2"})
    assert (reply.status, reply.headers["Retry-After"]) == (507, "10")
    assert "full" in reply.detail
    assert [one.headers["ce-id"] for one in await nats.stored(orders.stream)] == ["1"]


async def test_a_full_account_is_a_full_channel(tmp_path: Path) -> None:
    limits = "accounts { A { jetstream: { max_file: 40KB, max_mem: 0 }, users: [{ user: a, password: a }] } }"
    server = NatsServer(tmp_path / "nats", config=f"{limits}\nno_auth_user: a").start()
    try:
        with Function("receive", server.url, tmp_path) as receive:
            async with Nats(server.url) as nats:
                orders = await nats.make_channel()
            sent = [{**BINARY, "ce-id": str(number)} for number in range(4)]
            replies = [await send(receive.url + orders.path, bytes(15_000), headers) for headers in sent]
    finally:
        server.kill()
    assert [reply.status for reply in replies] == [202, 202, 507, 507]
    assert replies[-1].headers["Retry-After"] == "10"
