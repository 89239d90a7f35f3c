"""Both hosts serve all three functions, for real: own environments, own processes, a real nats-server.

What the functions do in every case is told elsewhere; here it counts that it comes through the host unharmed.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from typing import Any

import pytest
from tests.hosts.environments import Kind
from tests.support import channels

from headrace.core import names

TARGETS = ["receive", "forward", "reconcile"]
NAMESPACE = "shop"
DATA = b'{ "order" : 4711.0 }'
EVENT = {
    "ce-specversion": "1.0",
    "ce-id": "order-1",
    "ce-source": "/shop",
    "ce-type": "com.example.order.created",
    "content-type": "application/json",
}


async def synced(hosted, http, channel: str, *subscribers: dict[str, Any]) -> dict[str, Any]:
    """Call the hook as the operator does, and give back its whole answer."""
    parent = channels.channel(*subscribers, namespace=NAMESPACE, name=channel, uid=str(uuid.uuid4()))
    body = {"controller": {}, "parent": parent, "children": {}, "related": {}, "finalizing": False}
    headers = {"authorization": f"Bearer {hosted.token}"}
    async with http.post(f"{hosted.url('reconcile')}/sync", json=body, headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        return await answer.json()


def unique(word: str) -> str:
    """Tests share one NATS server, so each has channels of its own."""
    return f"{word}-{uuid.uuid4().hex[:8]}"


def lease(channel: str, uid: str, seconds: float) -> dict[str, Any]:
    return {
        "stream": names.stream(NAMESPACE, channel),
        "consumer": names.durable(uid),
        "seconds": seconds,
        "linger": 0.2,
        "max_in_flight": 10,
    }


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("probe", ["/health/liveness", "/health/readiness"])
async def test_every_function_answers_its_probes(hosted, http, target, probe):
    async with http.get(hosted.url(target) + probe) as answer:
        assert answer.status == 200


async def test_a_function_without_nats_is_alive_but_not_ready(hosted, http):
    receive = hosted.start("receive", NATS_URL="nats://127.0.0.1:9").wait_until_open()
    async with http.get(f"{receive.url}/health/liveness") as answer:
        assert answer.status == 200
    async with http.get(f"{receive.url}/health/readiness") as answer:
        assert answer.status == 503


async def test_a_channel_gets_its_stream(hosted, http, jetstream):
    channel = unique("orders")
    answer = await synced(hosted, http, channel)
    conditions = {condition["type"]: condition["status"] for condition in answer["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    stream = await jetstream.stream_info(names.stream(NAMESPACE, channel))
    assert stream.config.subjects == [names.channel(NAMESPACE, channel).subject]


async def test_a_binary_event_is_stored_with_its_bytes_untouched(hosted, http, jetstream):
    channel = unique("orders")
    await synced(hosted, http, channel)
    async with http.post(f"{hosted.url('receive')}/{NAMESPACE}/{channel}", data=DATA, headers=EVENT) as answer:
        assert answer.status == 202, await answer.text()
    stored = await jetstream.get_msg(names.stream(NAMESPACE, channel), 1)
    assert stored.data == DATA
    assert stored.headers["ce-id"] == "order-1"


async def test_a_structured_event_is_stored_just_like_that(hosted, http, jetstream):
    channel = unique("orders")
    await synced(hosted, http, channel)
    event = b'{"specversion":"1.0","id":"order-2","source":"/shop","type":"t","data":%b}' % DATA
    headers = {"content-type": "application/cloudevents+json"}
    async with http.post(f"{hosted.url('receive')}/{NAMESPACE}/{channel}", data=event, headers=headers) as answer:
        assert answer.status == 202, await answer.text()
    stored = await jetstream.get_msg(names.stream(NAMESPACE, channel), 1)
    assert stored.data == DATA
    assert stored.headers["ce-id"] == "order-2"


async def test_a_channel_is_found_by_its_host_name(hosted, http, jetstream):
    channel = unique("orders")
    await synced(hosted, http, channel)
    headers = {**EVENT, "host": f"{channel}-kn-jsm-channel.{NAMESPACE}.svc.cluster.local"}
    async with http.post(hosted.url("receive") + "/", data=DATA, headers=headers) as answer:
        assert answer.status == 202, await answer.text()
    assert (await jetstream.stream_info(names.stream(NAMESPACE, channel))).state.messages == 1


async def test_what_is_no_event_is_refused_with_every_fault(hosted, http):
    async with http.post(
        f"{hosted.url('receive')}/{NAMESPACE}/orders", data=b"{}", headers={"content-type": "text/plain"}
    ) as answer:
        assert answer.status == 400
        assert answer.content_type == "application/problem+json"


async def test_a_channel_that_does_not_exist_is_not_found(hosted, http):
    async with http.post(
        f"{hosted.url('receive')}/{NAMESPACE}/{unique('nothing')}", data=DATA, headers=EVENT
    ) as answer:
        assert answer.status == 404


async def test_a_lease_delivers_to_the_subscriber(hosted, http, sink):
    channel, entry = unique("orders"), channels.entry(str(uuid.uuid4()), subscriberUri=sink.url)
    await synced(hosted, http, channel, entry)
    async with http.post(f"{hosted.url('receive')}/{NAMESPACE}/{channel}", data=DATA, headers=EVENT) as answer:
        assert answer.status == 202, await answer.text()
    headers = {"authorization": f"Bearer {hosted.token}"}
    async with http.post(hosted.url("forward"), json=lease(channel, entry["uid"], 5), headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        tally = await answer.json()
    assert (tally["delivered"], tally["pending"], tally["ack_pending"]) == (1, 0, 0)
    [(received, data)] = sink.received
    assert data == DATA
    assert {name: received[name] for name in EVENT} == EVENT


@pytest.mark.parametrize(("target", "path"), [("reconcile", "/sync"), ("forward", "/")])
async def test_callers_without_the_token_are_turned_away(hosted, http, target, path):
    headers = {"authorization": "Bearer guessed"}
    async with http.post(hosted.url(target) + path, json={}, headers=headers) as answer:
        assert answer.status == 401


async def test_a_stopped_process_finishes_its_lease(hosted, http, sink, jetstream):
    channel, entry = unique("orders"), channels.entry(str(uuid.uuid4()), subscriberUri=sink.url)
    await synced(hosted, http, channel, entry)
    async with http.post(f"{hosted.url('receive')}/{NAMESPACE}/{channel}", data=DATA, headers=EVENT) as answer:
        assert answer.status == 202, await answer.text()
    forward = hosted.start("forward").wait_until_ready()
    sink.seconds = 1.0
    # The framework's server doesn't tell us of SIGTERM, and gives 30 s: a lease runs to its own end there.
    asked = lease(channel, entry["uid"], 20 if hosted.kind is Kind.SCAFFOLD else 3)
    headers = {"authorization": f"Bearer {hosted.token}"}
    opened = asyncio.create_task(http.post(forward.url, json={**asked, "linger": 20}, headers=headers))
    async with asyncio.timeout(10):
        await sink.arrived.wait()
    forward.terminate()
    async with asyncio.timeout(10):
        answer = await opened
    assert answer.status == 200
    assert json.loads(await answer.read())["delivered"] == 1
    assert await asyncio.to_thread(forward.wait, 10) == 0
    consumer = await jetstream.consumer_info(asked["stream"], asked["consumer"])
    assert (consumer.num_ack_pending, consumer.ack_floor.stream_seq) == (0, 1)
