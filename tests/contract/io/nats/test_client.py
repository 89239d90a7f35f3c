"""What the NATS client promises, kept against a real server."""

from __future__ import annotations

import asyncio
import json

import pytest

from headrace.core.errors import Refused, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.nats_wire import header_block
from headrace.io.nats import hints
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Arrival, Broken, Closed
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.strangers import flushed
from tests.support.waiting import until


async def heard(client: Client, subject: str) -> list[Arrival]:
    """What comes on a subject from now on."""
    arrivals: list[Arrival] = []
    await client.subscribe(subject, arrivals.append)
    await client.flush(5)
    return arrivals


async def answering(client: Client, subject: str) -> None:
    """Answer whatever is asked there with the same data and headers."""
    replies: set[asyncio.Task[None]] = set()

    def answer(asked: Arrival) -> None:
        replies.add(asyncio.ensure_future(client.publish(asked.reply, asked.data, headers=asked.headers)))

    await client.subscribe(subject, answer)
    await client.flush(5)


async def test_a_client_connects_at_its_first_use_and_not_before(client):
    assert not client.connected
    assert client.max_payload == 1024 * 1024
    await client.ready(5)
    assert client.connected


async def test_a_closed_client_says_so_and_who_listens_for_ever_stops(client):
    listening = asyncio.ensure_future(hints.hear(client, "wake.>", lambda _subject, _data: None, lambda: None))
    await client.ready(5)
    await client.close()
    with pytest.raises(Closed, match="closed by ourselves"):
        await client.ready(5)
    await asyncio.wait([listening], timeout=5)
    assert listening.done()
    assert listening.exception() is None


async def test_what_is_published_comes_to_whoever_subscribes(client):
    await client.ready(5)
    arrivals = await heard(client, "talk.>")
    await client.publish("talk.plain", b"hello")
    await client.publish("talk.reply", b"a\r\nb", reply="inbox.1")
    await client.publish("talk.empty")
    await client.publish("other", b"not for us")
    await client.flush(5)
    await until("three came", lambda: len(arrivals) >= 3)
    assert [(it.subject, it.data, it.reply, dict(it.headers), it.status) for it in arrivals] == [
        ("talk.plain", b"hello", "", {}, ""),
        ("talk.reply", b"a\r\nb", "inbox.1", {}, ""),
        ("talk.empty", b"", "", {}, ""),
    ]


async def test_headers_come_back_whatever_their_characters(client):
    await client.ready(5)
    await answering(client, "echo")
    headers = {"ce-id": "1: a", "ce-city": "Zürich, 東京 🏞", "Nats-Msg-Id": "x", "traceparent": "00-1-2-01"}
    answer = await client.request("echo", b"data", headers=headers, timeout=5)
    assert answer.data == b"data"
    assert dict(answer.headers) == {name.lower(): value for name, value in headers.items()}


async def test_a_client_that_is_not_ours_reads_what_we_send_and_we_read_what_it_sends(client, stranger):
    headers = {"ce-id": "1: a", "ce-city": "Zürich, 東京 🏞", "Nats-Msg-Id": "x"}
    await client.ready(5)
    arrivals = await heard(client, "from.stranger")
    theirs = await stranger.subscribe("from.us")
    await flushed(stranger)

    await client.publish("from.us", b"a\r\nb", reply="inbox.1", headers=headers)
    read = await theirs.next_msg(5)
    assert (read.data, read.reply, read.headers) == (b"a\r\nb", "inbox.1", headers)

    await stranger.publish("from.stranger", b"c\r\nd", reply="inbox.2", headers=headers)
    await until("it came", lambda: bool(arrivals))
    [came] = arrivals
    assert (came.data, came.reply) == (b"c\r\nd", "inbox.2")
    assert dict(came.headers) == {name.lower(): value for name, value in headers.items()}


async def test_headers_that_are_encoded_already_are_sent_as_they_are(client):
    await client.ready(5)
    await answering(client, "echo")
    answer = await client.request("echo", headers=header_block({"Ce-Id": "1"}), timeout=5)
    assert dict(answer.headers) == {"ce-id": "1"}


async def test_an_arrival_is_answered_at_once_when_there_is_a_connection(client):
    assert not client.answer("inbox.größe", b"+ACK")
    await client.ready(5)
    arrivals, asked = await heard(client, "inbox.größe"), await heard(client, "ask")
    await client.publish("ask", reply="inbox.größe")
    await client.flush(5)
    await until("it is asked", lambda: bool(asked))
    assert client.answer(asked[0].reply, b"+ACK")
    await until("it is answered", lambda: bool(arrivals))
    assert [(it.subject, it.data) for it in arrivals] == [("inbox.größe", b"+ACK")]


async def test_a_request_that_nobody_hears_is_answered_at_once_with_status_503(client):
    answer = await client.request("nobody.listens", timeout=5)
    assert (answer.status, answer.data) == ("503", b"")


async def test_a_request_that_nobody_answers_ends_in_time(client):
    await client.ready(5)
    await heard(client, "silent")
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable):
        await client.request("silent", timeout=0.3)
    assert 0.25 < asyncio.get_running_loop().time() - began < 10


async def test_answers_find_their_requests_in_any_order(client):
    await client.ready(5)
    asked: list[Arrival] = []
    await client.subscribe("later", asked.append)
    requests = [asyncio.create_task(client.request("later", b"%d" % n, timeout=5)) for n in range(50)]
    await until("all were asked", lambda: len(asked) == 50)
    for arrival in reversed(asked):
        await client.publish(arrival.reply, b"answer to " + arrival.data)
    assert [(await request).data for request in requests] == [b"answer to %d" % n for n in range(50)]


async def test_a_cancelled_request_leaves_the_others_alone(client):
    await client.ready(5)
    asked: list[Arrival] = []
    await client.subscribe("later", asked.append)
    one, other = (asyncio.create_task(client.request("later", word, timeout=5)) for word in (b"one", b"other"))
    await until("both were asked", lambda: len(asked) == 2)
    one.cancel()
    for arrival in asked:
        await client.publish(arrival.reply, arrival.data)
    assert (await other).data == b"other"
    assert one.cancelled()


async def test_more_than_the_server_takes_is_refused_here_and_the_connection_survives(client, nats_server):
    nats_server.restart(config="max_payload: 4096")
    await client.ready(5)
    assert client.max_payload == 4096
    broken: list[bool] = []
    client.on_disconnect.append(lambda: broken.append(True))
    headers = {"a": "1"}
    room = 4096 - len(header_block(headers))
    with pytest.raises(Refused) as refused:
        await client.publish("large", b"x" * (room + 1), headers=headers)
    assert refused.value.status == 413
    with pytest.raises(Refused):
        await client.request("large", b"x" * (room + 1), headers=headers, timeout=5)
    arrivals = await heard(client, "large")
    await client.publish("large", b"x" * room, headers=headers)
    await until("what just fits came", lambda: len(arrivals) == 1)
    assert not broken


async def test_a_header_with_a_line_break_is_refused(client):
    await client.ready(5)
    with pytest.raises(Refused) as refused:
        await client.publish("a", headers={"ce-id": "1\r\nce-type: forged"})
    assert refused.value.status == 400


async def test_a_closed_subscription_brings_no_more(client):
    await client.ready(5)
    arrivals: list[Arrival] = []
    subscription = await client.subscribe("talk", arrivals.append)
    await client.publish("talk", b"1")
    await client.flush(5)
    await until("the first came", lambda: len(arrivals) == 1)
    await subscription.close()
    await client.publish("talk", b"2")
    await client.flush(5)
    assert [arrival.data for arrival in arrivals] == [b"1"]


async def test_a_drained_subscription_brings_what_was_sent_before(client):
    await client.ready(5)
    arrivals: list[Arrival] = []
    subscription = await client.subscribe("talk", arrivals.append)
    for number in range(1000):
        await client.publish("talk", b"%d" % number)
    await client.flush(5)
    await subscription.drain(5)
    await client.publish("talk", b"late")
    await client.flush(5)
    assert len(arrivals) == 1000


async def test_what_is_subscribed_before_there_is_a_connection_comes_later(tmp_path):
    server = NatsServer(tmp_path / "late", port=free_port())
    client = Client(NatsSettings(url=server.url))
    arrivals: list[Arrival] = []
    await client.subscribe("early", arrivals.append)
    with pytest.raises(Unavailable):
        await client.publish("early", b"too early")
    with pytest.raises(Unavailable):
        await client.request("early", timeout=0.2)
    try:
        server.start()
        await client.ready(10)
        await client.publish("early", b"now")
        await until("it came", lambda: [arrival.data for arrival in arrivals] == [b"now"])
    finally:
        await client.close()
        server.kill()


async def test_a_crash_of_the_server_fails_what_waits_at_once_and_the_rest_goes_on_after_it(client, nats_server):
    await client.ready(5)
    broken: list[bool] = []
    client.on_disconnect.append(lambda: broken.append(True))
    arrivals = await heard(client, "silent")
    request = asyncio.create_task(client.request("silent", timeout=30))
    await until("it was asked", lambda: len(arrivals) == 1)
    nats_server.kill()
    began = asyncio.get_running_loop().time()
    with pytest.raises(Broken):
        await request
    assert asyncio.get_running_loop().time() - began < 15
    assert broken
    assert not client.connected
    with pytest.raises(Unavailable):
        await client.publish("silent", b"nobody is there")
    nats_server.start()
    await client.ready(10)
    await client.publish("silent", b"after the crash")
    await until("the subscription lives again", lambda: arrivals[-1].data == b"after the crash")


async def test_a_request_waits_for_the_server_that_comes_back_in_time(client, nats_server):
    await client.ready(5)
    nats_server.kill()
    await until("the client knows", lambda: not client.connected)
    request = asyncio.create_task(client.request("nobody.listens", timeout=20))
    nats_server.start()
    assert (await request).status == "503"


async def test_closing_sends_what_was_published_before(client, nats_server):
    other = Client(NatsSettings(url=nats_server.url))
    await other.ready(5)
    arrivals = await heard(other, "last")
    await client.ready(5)
    for number in range(100):
        await client.publish("last", b"%d" % number)
    await client.close()
    await until("all came", lambda: len(arrivals) == 100)
    await other.close()
    with pytest.raises(Unavailable):
        await client.publish("last")
    with pytest.raises(Unavailable):
        await client.ready(1)


async def test_a_stored_message_is_acknowledged_and_known_again(client):
    await client.ready(5)
    config = json.dumps({"name": "S", "subjects": ["s.>"]}).encode()
    await client.request("$JS.API.STREAM.CREATE.S", config, timeout=5)
    answers = [await client.request("s.1", b"x", headers={"Nats-Msg-Id": "one"}, timeout=5) for _ in range(2)]
    assert [json.loads(answer.data) for answer in answers] == [
        {"stream": "S", "seq": 1},
        {"stream": "S", "seq": 1, "duplicate": True},
    ]
