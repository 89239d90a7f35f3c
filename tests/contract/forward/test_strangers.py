"""What strangers may do: headers that no line can carry, addresses with secrets, answers that are bombs."""

from __future__ import annotations

import asyncio
import time

from tests.support.functions.functions import Function
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats

pytest_plugins = ["tests.support.functions.served"]

SECRET = "TOPSECRET"
UNWRITABLE = (
    b"foo bar: TOPSECRET",
    b"caf\xc3\xa9: TOPSECRET",
    b"cr: TOP\rTOPSECRET",
    b"lf: TOP\nTOPSECRET",
)
# A megabyte of members, each a fault.
BOMB = ("{" + ",".join('"":[]' for _ in range(170_000)) + "}").encode()


async def publish(server: NatsServer, subject: str, lines: tuple[bytes, ...]) -> None:
    """What no client library would send: a header block of any lines."""
    block = b"\r\n".join((b"NATS/1.0", *lines, b"", b""))
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    writer.write(b"HPUB %b %d %d\r\n%bdata\r\nPING\r\n" % (subject.encode(), len(block), len(block) + 4, block))
    while await reader.readline() != b"PONG\r\n":
        pass
    writer.close()
    await writer.wait_closed()


async def test_a_message_whose_headers_can_not_be_written_is_parked_without_them(
    nats: Nats, forward: Function, shared_server: NatsServer, subscriber: Subscriber
) -> None:
    lane = await nats.serve(forward, subscriber=subscriber.place(Say(400)).uri)
    await publish(shared_server, lane.channel.subject, (b"kept: yes", *UNWRITABLE))
    assert (await lane.lease())["parked"] == 1
    (parked,) = await lane.aside()
    assert (parked.headers["kept"], parked.headers["Headrace-Dropped-Headers"]) == ("yes", "4")
    assert parked.data == b"data"
    assert (await lane.info())["num_ack_pending"] == 0
    assert SECRET not in forward.log


async def test_the_query_of_an_address_is_for_its_owner_alone(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    target = f"/strangers/hook?token={SECRET}"
    subscriber.find(target).says(Say(400))
    sink = subscriber.place(Say(400))
    uri = f"http://127.0.0.1:{subscriber.port}{target}"
    lane = await nats.serve(forward, subscriber=uri, dead_letter=sink.uri)
    await lane.store("1")
    assert (await lane.lease())["parked"] == 1
    # Knative's own extension tells the sink all of it.
    (told,) = sink.received
    assert told.event["knativeerrordest"] == uri
    (parked,) = await lane.aside()
    assert parked.headers["Headrace-Destination"] == uri.partition("?")[0]
    assert SECRET not in str(parked.headers)
    assert SECRET not in forward.log


async def test_an_address_that_nothing_can_be_sent_to_is_not_told_with_its_secrets(
    nats: Nats, forward: Function
) -> None:
    lane = await nats.serve(forward, subscriber=f"http://{'a' * 64}.example/hook?token={SECRET}")
    await lane.store("1")
    status, answer = await lane.ask()
    assert status == 409
    assert "longer than 63" in answer["detail"]
    assert SECRET not in str(answer) + forward.log


async def test_an_answer_that_is_a_bomb_is_no_reply_and_holds_nobody_up(
    nats: Nats, forward: Function, subscriber: Subscriber
) -> None:
    place = subscriber.place(Say(200, headers={"content-type": "application/cloudevents+json"}, body=BOMB))
    lane = await nats.serve(forward, subscriber=place.uri, reply=subscriber.place().uri)
    await lane.store(*(str(number) for number in range(5)))
    began = time.monotonic()
    answer = await lane.lease()
    assert (answer["delivered"], answer["replied"]) == (5, 0)
    assert time.monotonic() - began < 30
