"""Both hosts serve all three functions, for real: own environments, own processes, a real nats-server.

Other suites hold the functions' answers in every case; this one holds that they come through the host unharmed.
"""

from __future__ import annotations

import asyncio
import uuid

import pytest

from headrace.core import names
from tests.hosts.hosted import DATA, EVENT, NAMESPACE, unique
from tests.support.functions import channels


@pytest.mark.parametrize("target", ["receive", "forward", "reconcile"])
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
    answer = await hosted.sync(http, channel)
    conditions = {condition["type"]: condition["status"] for condition in answer["status"]["conditions"]}
    assert conditions["Ready"] == "True"
    stream = await jetstream.stream_info(names.stream(NAMESPACE, channel))
    assert stream.config.subjects == [names.channel(NAMESPACE, channel).subject]


async def test_a_binary_event_is_stored_with_its_bytes_untouched(hosted, http, jetstream):
    channel = unique("orders")
    await hosted.sync(http, channel)
    await hosted.send(http, channel)
    stored = await jetstream.get_msg(names.stream(NAMESPACE, channel), 1)
    assert stored.data == DATA
    assert stored.headers["ce-id"] == "order-1"


async def test_a_structured_event_is_stored_just_like_that(hosted, http, jetstream):
    channel = unique("orders")
    await hosted.sync(http, channel)
    event = b'{"specversion":"1.0","id":"order-2","source":"/shop","type":"t","data":%b}' % DATA
    url, headers = f"{hosted.url('receive')}/{NAMESPACE}/{channel}", {"content-type": "application/cloudevents+json"}
    async with http.post(url, data=event, headers=headers) as answer:
        assert answer.status == 202, await answer.text()
    stored = await jetstream.get_msg(names.stream(NAMESPACE, channel), 1)
    assert stored.data == DATA
    assert stored.headers["ce-id"] == "order-2"


async def test_a_channel_is_found_by_its_host_name(hosted, http, jetstream):
    channel = unique("orders")
    await hosted.sync(http, channel)
    headers = {**EVENT, "host": f"{channel}-kn-jsm-channel.{NAMESPACE}.svc.cluster.local"}
    async with http.post(hosted.url("receive") + "/", data=DATA, headers=headers) as answer:
        assert answer.status == 202, await answer.text()
    assert (await jetstream.stream_info(names.stream(NAMESPACE, channel))).state.messages == 1


async def test_what_is_no_event_is_refused(hosted, http):
    url, headers = f"{hosted.url('receive')}/{NAMESPACE}/orders", {"content-type": "text/plain"}
    async with http.post(url, data=b"{}", headers=headers) as answer:
        assert answer.status == 400
        assert answer.content_type == "application/problem+json"


async def test_a_channel_that_does_not_exist_is_not_found(hosted, http):
    url = f"{hosted.url('receive')}/{NAMESPACE}/{unique('nothing')}"
    async with http.post(url, data=DATA, headers=EVENT) as answer:
        assert answer.status == 404


@pytest.mark.parametrize(("target", "path"), [("reconcile", "/sync"), ("forward", "/")])
async def test_callers_without_the_token_are_turned_away(hosted, http, target, path):
    headers = {"authorization": "Bearer guessed"}
    async with http.post(hosted.url(target) + path, json={}, headers=headers) as answer:
        assert answer.status == 401


async def test_a_lease_delivers_to_the_subscriber(hosted, http, sink):
    channel, entry = unique("orders"), channels.entry(str(uuid.uuid4()), subscriberUri=sink.url)
    await hosted.sync(http, channel, entry)
    await hosted.send(http, channel)
    tally = await hosted.lease(http, hosted.url("forward"), channel, entry["uid"])
    assert (tally["delivered"], tally["pending"], tally["ack_pending"]) == (1, 0, 0)
    [(received, data)] = sink.received
    assert data == DATA
    assert {name: received[name] for name in EVENT} == EVENT


async def test_a_stopped_process_finishes_its_lease(hosted, http, sink, jetstream):
    channel, entry = unique("orders"), channels.entry(str(uuid.uuid4()), subscriberUri=sink.url)
    await hosted.sync(http, channel, entry)
    await hosted.send(http, channel)
    forward = hosted.start("forward").wait_until_ready()
    sink.seconds = 1.0
    opened = asyncio.create_task(hosted.lease(http, forward.url, channel, entry["uid"]))
    await sink.next_arrival()
    forward.terminate()
    assert (await opened)["delivered"] == 1
    assert await asyncio.to_thread(forward.wait, 10) == 0
    consumer = await jetstream.consumer_info(names.stream(NAMESPACE, channel), names.durable(entry["uid"]))
    assert (consumer.num_ack_pending, consumer.ack_floor.stream_seq) == (0, 1)
