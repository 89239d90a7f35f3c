"""The statuses of docs/status-codes.md that belong to no other subject."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats

pytest_plugins = ["tests.support.functions.served"]

BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def hooks(shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    with Function("reconcile", shared_server.url, served_directory) as function:
        yield function


async def test_a_sealed_stream_takes_no_more_events(receive: Function, nats: Nats) -> None:
    orders = await nats.make_channel()
    config = (await nats.call(f"STREAM.INFO.{orders.stream}"))["config"]
    await nats.call(f"STREAM.UPDATE.{orders.stream}", {**config, "sealed": True})
    reply = await send(receive.url + orders.path, b"{}", BINARY)
    assert reply.status == 403
    assert "takes no more events" in reply.detail


async def test_a_lease_that_found_nothing_to_do_ends_well(
    forward: Function, nats: Nats, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place().uri)
    asked = {"stream": lane.channel.stream, "consumer": lane.consumer, "linger": 0.05}
    reply = await send(forward.url, json.dumps(asked).encode(), BEARER)
    assert reply.status == 200


async def test_a_lease_is_not_asked_for_with_a_large_body(forward: Function) -> None:
    assert (await send(forward.url, bytes(64 * 1024 + 1), BEARER)).status == 413


@pytest.mark.parametrize(
    ("method", "path", "answered"),
    [
        pytest.param("POST", "/paint", 404, id="no such hook"),
        pytest.param("PUT", "/sync", 405, id="a hook is called with POST"),
    ],
)
async def test_only_hooks_are_answered_by_reconcile(hooks: Function, method: str, path: str, answered: int) -> None:
    assert (await send(hooks.url + path, b"{}", BEARER, method)).status == answered
