"""Each part of Headrace does its work with the permissions of the account template, and none of them can be left out.

The tests of `receive` and `forward` all run under the template, and so prove that it suffices.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest

from headrace.core import names
from headrace.core.errors import HeadraceError, Refused
from headrace.core.event.nats_codec import NatsMessage, encoded
from headrace.core.installation import tenants
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats.action import Done, ResetConsumer
from headrace.core.security import document as security
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from headrace_operator.scaling.stage_records import StageRecords
from tests.support.functions.channels import channel, entry, stream
from tests.support.functions.functions import TOKEN
from tests.support.functions.in_process import InProcess
from tests.support.functions.ordering import serve_by_key, store_keyed
from tests.support.functions.reconciling import Hook, condition
from tests.support.http.subscriber import Say, Subscriber
from tests.support.nats import nats_permissions
from tests.support.nats.nats_permissions import PermittedServer, inbox_of
from tests.support.nats.streams import Lane, Nats

LINES = [line for line in nats_permissions.lines() if line[0] != "spark-reader"]
STREAM = "KN_SHOP__ORDERS"
# Below any wait of the product, so that a refusal shows as one.
SHORT = 2.0
WORK_SECONDS = 10.0


@contextmanager
def permitted(directory: Path, template: str | None = None) -> Iterator[PermittedServer]:
    server = PermittedServer(directory / "nats", template=template)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def as_user(server: PermittedServer, user: str) -> AsyncIterator[Client]:
    client = Client(NatsSettings(url=server.url_of(user), inbox_prefix=inbox_of(user)))
    try:
        await client.ready(20)
        yield client
    finally:
        await client.close()


async def receive_works(server: PermittedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event is stored, a missing channel told from a NATS that is away, and hints heard."""
    async with Nats(server.url) as nats, as_user(server, "receive") as client:
        made = await nats.make_channel()
        jetstream = JetStream(client, JetStreamApi(client))
        assert (await jetstream.publish(encoded(NatsMessage(made.subject, {}, b"{}")), SHORT)).sequence == 1
        with pytest.raises(Refused) as missing:
            await jetstream.publish(encoded(NatsMessage("shop.nothing._knative", {}, b"{}")), SHORT)
        assert missing.value.status == 404
        async with as_user(server, "admin") as listener:
            heard: list[str] = []
            await listener.subscribe("headrace.>", lambda hint: heard.append(hint.subject))
            await listener.flush(WORK_SECONDS)
            told = [names.wake_subject(made.stream), names.kinds_subject("shop")]
            for subject in told:
                await jetstream.hint(subject)
            await client.flush(WORK_SECONDS)
            await listener.flush(WORK_SECONDS)
            assert heard == told
    await _hears_of_security(server, "receive")


async def _hears_of_security(server: PermittedServer, user: str) -> None:
    async with as_user(server, user) as client, as_user(server, "admin") as pusher:
        heard: list[bytes] = []
        await client.subscribe(security.subject("shop"), lambda push: heard.append(push.data))
        await client.flush(WORK_SECONDS)
        await pusher.publish(security.subject("shop"), b"document")
        await pusher.flush(WORK_SECONDS)
        await client.flush(WORK_SECONDS)
        assert heard == [b"document"]


async def forward_works(server: PermittedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Delivers, retries by a record that it reads and takes away, parks, and keeps an order by key."""
    monkeypatch.setenv("NATS_URL", server.url_of("forward"))
    monkeypatch.setenv("NATS_INBOX_PREFIX", inbox_of("forward"))
    monkeypatch.setenv("HEADRACE_TOKEN", TOKEN)
    with Subscriber() as places, InProcess("forward") as function:
        async with Nats(server.url) as nats:
            await _retries(await _lane(nats, function, places.place(Say(503), Say(200)).uri, retry=1))
            await _parks(await _lane(nats, function, places.place(Say(400)).uri, retry=0))
            flaky = places.place(Say(503), Say(200))
            policy = {"retry": 3, "backoffDelay": "PT9S"}
            by_key = await serve_by_key(nats, function, subscriber=flaky.uri, policy=policy)
            await store_keyed(by_key, "a1")
            await by_key.lease(linger=0.1)
            await store_keyed(by_key, "b1")
            # Fresh events wait until it is known what is to come back, and that is in the records only.
            await by_key.lease(seconds=3, linger=2.5)
            assert [request.event["id"] for request in flaky.received] == ["a1", "b1"]
            group = (await by_key.info())["priority_groups"][0]
            assert not group.get("pinned_client_id"), "the pin is given back"
    await _hears_of_security(server, "forward")


async def _lane(nats: Nats, function: InProcess, uri: str, *, retry: int) -> Lane:
    return await nats.serve(function, subscriber=uri, policy={"retry": retry, "backoffDelay": "PT0.05S"})


async def _retries(lane: Lane) -> None:
    await lane.store("one")
    await lane.lease(linger=0.05)
    # Of the one attempt of two: known only from the record.
    async with asyncio.timeout(WORK_SECONDS):
        while (await lane.info())["num_ack_pending"]:
            await lane.lease(linger=0.3)
    assert await lane.aside("stage") == [], "the record is taken away"
    assert await lane.aside("parked") == [], "the second attempt went well"


async def _parks(lane: Lane) -> None:
    await lane.store("two")
    await lane.lease(linger=0.3)
    assert len(await lane.aside("parked")) == 1


async def reconcile_works(server: PermittedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes, changes and takes away streams and consumers, and counts what was discarded."""
    async with Nats(server.url) as nats, as_user(server, "reconcile") as client:
        hook = Hook(client, gone_grace=timedelta())
        hook.around = Around(tenants=tenants.parse({"tenants": "- {namespaces: [shop], maxBytes: {file: 1Gi}}"}))
        await hook.sync(channel(entry("aaaa-1"), entry("bbbb-1", name="shipping")))
        changed = await hook.sync(
            channel(entry("aaaa-1"), entry("bbbb-1", name="shipping"), stream=stream(maxMsgs=500, maxBytes=1_000_000))
        )
        assert condition(changed, "Ready")["status"] == "True"
        # Two passes: an entry that is gone is marked, and its consumer then deleted.
        for _ in range(2):
            await hook.sync(channel(entry("aaaa-1"), stream=stream(maxMsgs=500)))
        found = await nats.call(f"CONSUMER.LIST.{STREAM}")
        assert [one["name"] for one in found["consumers"]] == ["KN_SUB_AAAA1"]
        # A consumer that stands ahead of its stream needs a loss of power; it is put back as any other.
        assert isinstance(
            await Admin(hook.api, hook.jetstream).carry_out(ResetConsumer(STREAM, "KN_SUB_AAAA1", 1)), Done
        )
        # A record of an event that the server has discarded meanwhile.
        await nats.store("shop.orders._knative", b"{}")
        await nats.store("shop.orders._knative_aside.stage.KN_SUB_AAAA1.1", b"{}")
        await nats.call(f"STREAM.PURGE.{STREAM}")
        lost = await hook.sync(channel(entry("aaaa-1"), stream=stream(maxMsgs=500)))
        assert condition(lost, "NoEventsDiscarded").get("reason") == "EventsDiscarded"
        assert "1" in condition(lost, "NoEventsDiscarded")["message"]
        assert [one.subject.rpartition(".")[2] for one in await nats.stored(f"{STREAM}_aside")] == ["total"]
        await hook.finalize(channel(entry("aaaa-1")))
        assert (await nats.call("STREAM.NAMES"))["streams"] is None


async def operator_works(server: PermittedServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hears hints, knows the lag of consumers, sees that a stream is gone, and finds due times."""
    async with Nats(server.url) as nats, as_user(server, "operator") as client:
        lane = await nats.serve(_Nobody(), subscriber="http://nowhere")
        api = JetStreamApi(client)
        heard: list[str] = []
        told = [names.wake_subject(lane.channel.stream), names.kinds_subject("shop")]
        for subject in (names.wake_subject(">"), names.kinds_subject("*")):
            await client.subscribe(subject, lambda hint: heard.append(hint.subject))
        await client.flush(WORK_SECONDS)
        for subject in told:
            await nats.client.publish(subject)
        await nats.client.flush()
        await client.flush(WORK_SECONDS)
        assert heard == told
        assert [one["name"] async for one in api.consumers(lane.channel.stream, timeout=SHORT)] == [lane.consumer]
        assert lane.channel.stream in [one["config"]["name"] async for one in api.streams(timeout=SHORT)]
        await api.call(f"CONSUMER.INFO.{lane.channel.stream}.{lane.consumer}", timeout=SHORT)
        assert await api.find("STREAM.INFO.NOTHING", timeout=SHORT) is None
        prefix = f"{lane.channel.namespace}.{lane.channel.name}._knative_aside"
        await nats.store(f"{prefix}.stage.{lane.consumer}.7", json.dumps({"due": 1e12}).encode())
        ours = names.channel(lane.channel.namespace, lane.channel.name)
        records = StageRecords(api, ours, lane.channel.aside)
        await records.load(time.time())
        assert records.take(lane.consumer, 0.0) == (1e12,)
        async with as_user(server, "admin") as listener:
            pushed: list[bytes] = []
            await listener.subscribe(security.SUBJECTS, lambda push: pushed.append(push.data))
            await listener.flush(WORK_SECONDS)
            await client.publish(security.subject("shop"), b"document")
            await client.flush(WORK_SECONDS)
            await listener.flush(WORK_SECONDS)
            assert pushed == [b"document"]


class _Nobody:
    url = "http://nowhere"


WORKS: dict[str, Callable[[PermittedServer, pytest.MonkeyPatch], Awaitable[None]]] = {
    "receive": receive_works,
    "forward": forward_works,
    "reconcile": reconcile_works,
    "operator": operator_works,
}


@pytest.mark.parametrize("user", WORKS)
async def test_the_template_is_enough_for(user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with permitted(tmp_path) as server:
        await WORKS[user](server, monkeypatch)


@pytest.mark.parametrize("permission", LINES, ids=lambda line: " ".join(line))
async def test_no_line_of_the_template_can_be_left_out(
    permission: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = (AssertionError, HeadraceError, TimeoutError)
    with permitted(tmp_path, nats_permissions.without(permission)) as server, pytest.raises(failures):
        await WORKS[permission[0]](server, monkeypatch)


@pytest.mark.parametrize("user", WORKS)
async def test_nobody_reads_along_what_others_are_answered(user: str, tmp_path: Path) -> None:
    other = "forward" if user != "forward" else "receive"
    with permitted(tmp_path) as server:
        async with as_user(server, user) as eavesdropper, Nats(server.url) as nats:
            heard: list[str] = []
            for subject in (f"{inbox_of(other)}.>", "_INBOX.>", ">"):
                with suppress(HeadraceError):
                    await eavesdropper.subscribe(subject, lambda arrival: heard.append(arrival.subject))
            await eavesdropper.flush(WORK_SECONDS)
            await nats.client.publish(f"{inbox_of(other)}.1", b"an event")
            await nats.client.flush()
            await eavesdropper.flush(WORK_SECONDS)
            assert heard == []
