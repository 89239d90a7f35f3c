"""A tenant subscribes an address inside, with a sink of his own: an administrator bounds his view of its answers.

A real `reconcile` writes the consumers, a real `forward` serves them, and the address inside is a real HTTP server.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.functions.channels import channel, entry
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.raw_server import Peer, serving
from tests.support.http.sending import send
from tests.support.http.subscriber import Say, Subscriber
from tests.support.kube.mounts import Mount
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Lane, Nats, binary_event

SECRET = "password-of-the-database"
ORDERS = Channel("shop", "orders")
QUICK = {"retry": 1, "backoffPolicy": "linear", "backoffDelay": "PT0.05S"}


@pytest.fixture
def inside() -> Iterator[Subscriber]:
    with Subscriber() as server:
        yield server


@pytest.fixture
def told(nats_server: NatsServer, tmp_path: Path) -> Any:
    """A `reconcile` with these entries in the list of tenants and these settings."""

    def started(tenants: str = "[]", **settings: str) -> Function:
        mount = Mount(tmp_path / "defaults", tenants=tenants)
        return Function("reconcile", nats_server.url, tmp_path, HEADRACE_DEFAULTS_DIR=mount.path, **settings)

    return started


@pytest.fixture
def forward(nats_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    with Function("forward", nats_server.url, tmp_path) as function:
        yield function


async def lane(nats: Nats, reconcile: Function, forward: Function, **fields: Any) -> Lane:
    """Leases on the consumer that `reconcile` makes for the one entry of a channel."""
    delivery = {**QUICK, **({"deadLetterSink": {"uri": fields.pop("sink")}} if "sink" in fields else {})}
    body = {"parent": channel(entry(**fields, delivery=delivery)), "finalizing": False}
    reply = await send(f"{reconcile.url}/sync", json.dumps(body).encode(), {"authorization": f"Bearer {TOKEN}"})
    assert reply.status == 200, reply
    (consumer,) = (await nats.call(f"CONSUMER.NAMES.{ORDERS.stream}"))["consumers"]
    await nats.store(ORDERS.subject, b"{}", binary_event("1"))
    return Lane(nats, forward, ORDERS, consumer)


async def aside(nats: Nats) -> str:
    """All that lies in the aside stream, with what is there in base64."""
    kept = [json.dumps(one.headers) + one.data.decode() for one in await nats.stored(ORDERS.aside)]
    return "\n".join(kept)


def is_told(text: str) -> bool:
    return SECRET in text or base64.b64encode(SECRET.encode()).decode() in text


OFF = {"HEADRACE_ERROR_DATA": "false"}
TRUSTED = '[{namespaces: ["sh*"], errorData: true}]'
OTHERS = "[{namespaces: [payroll], errorData: true}, {namespaces: [shop], subjects: [a.b]}]"
WHO = [
    pytest.param("[]", {}, True, id="by default, as Knative says"),
    pytest.param("[]", OFF, False, id="off"),
    pytest.param(OTHERS, OFF, False, id="off, others are trusted"),
    pytest.param(TRUSTED, OFF, True, id="off, but this namespace is trusted"),
]


@pytest.mark.parametrize(("tenants", "settings", "tells"), WHO)
async def test_what_the_dead_letter_tells_of_an_answer(
    nats_server: NatsServer, inside: Subscriber, told: Any, forward: Function, tenants: str, settings: Any, tells: bool
) -> None:
    place, sink = inside.place(Say(403, {"content-type": f"text/{SECRET}"}, SECRET.encode())), inside.place()
    async with Nats(nats_server.url) as nats:
        with told(tenants, **settings) as reconcile:
            found = await lane(nats, reconcile, forward, subscriberUri=place.uri, sink=sink.uri)
        await found.take_one()
        kept = await aside(nats)
    (dead,) = sink.received
    assert (dead.event["knativeerrordest"], dead.event["knativeerrorcode"]) == (place.uri, "403")
    assert is_told(str(dead.headers)) == tells == ("knativeerrordata" in dead.event)
    assert not is_told(kept)
    assert not is_told(forward.log)


@pytest.mark.parametrize(("tenants", "settings", "tells"), WHO)
async def test_what_stage_records_and_parked_events_keep_of_an_answer(
    nats_server: NatsServer, inside: Subscriber, told: Any, forward: Function, tenants: str, settings: Any, tells: bool
) -> None:
    place = inside.place(Say(500, {"content-type": f"text/{SECRET}"}, SECRET.encode()))
    async with Nats(nats_server.url) as nats:
        with told(tenants, **settings) as reconcile:
            found = await lane(nats, reconcile, forward, subscriberUri=place.uri)
        await found.take_one()
        record = await aside(nats)
        await found.lease(linger=0.5)
        parked = await aside(nats)
    assert '"stage": "subscriber"' in record
    assert "Headrace-Reason" in parked
    assert "gave status 500 on attempt 2" in parked
    assert is_told(record) == is_told(parked) == tells
    assert not is_told(forward.log)


@pytest.mark.parametrize(("settings", "tells"), [({}, True), (OFF, False)], ids=["told", "off"])
async def test_words_of_a_program_that_speaks_no_http(
    nats_server: NatsServer, told: Any, forward: Function, settings: Any, tells: bool
) -> None:
    async def greet(peer: Peer) -> None:
        await peer.say(f"SSH-2.0-{SECRET}\r\n".encode())

    async with serving(greet) as server, Nats(nats_server.url) as nats:
        with told(**settings) as reconcile:
            found = await lane(nats, reconcile, forward, subscriberUri=server.url)
        await found.take_one()
        await found.lease(linger=0.5)
        kept = await aside(nats)

    assert ("no answer" in kept) != tells
