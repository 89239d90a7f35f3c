"""Messages that come as one run are the messages that come one by one."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from headrace.core.nats.jetstream import Message
from headrace.core.nats.nats_wire import Decoder
from headrace.core.nats.pull_status import PullEnd
from headrace.io.jetstream.pull import PullInbox
from headrace.io.nats.contract import OnArrival, OnPullRun

BLOCK = b"NATS/1.0\r\nce-id: 1\r\n\r\n"
PLAIN = "$JS.ACK.S.C.1.{0}.{0}.1700000000000000000.5"
DOMAIN = "$JS.ACK.hub.hash.S.C.2.{0}.{0}.1700000000000000000.5.token"


class FakeClient:
    """Hands to an inbox what a test gives it."""

    def __init__(self) -> None:
        self.on_disconnect: list[object] = []
        self.on_arrival: OnArrival
        self.on_pull_run: OnPullRun

    async def ready(self, timeout: float) -> None: ...

    async def publish(self, subject: str, data: bytes, *, reply: str) -> None: ...

    def note_answer(self, *, came: bool) -> None: ...

    async def subscribe_inbox(self, on_arrival: OnArrival, on_pull_run: OnPullRun) -> FakeSubscription:
        self.on_arrival, self.on_pull_run = on_arrival, on_pull_run
        return FakeSubscription()


class FakeSubscription:
    inbox = "_INBOX.a"

    async def close(self) -> None: ...


def said(replies: list[str]) -> bytes:
    sizes = f"{len(BLOCK)} {len(BLOCK) + 4}".encode()
    return b"".join(b"HMSG shop.orders 7 %b %b\r\n%bdata\r\n" % (reply.encode(), sizes, BLOCK) for reply in replies)


async def pulled(replies: list[str], *, together: bool, faulty: bool = False) -> tuple[list[Message], list[PullEnd]]:
    """What an inbox makes of them, in a pull for as many."""
    client, messages, ends = FakeClient(), list[Message](), list[PullEnd]()

    def on_message(message: Message) -> None:
        messages.append(message)
        if faulty and len(messages) == 1:
            raise RuntimeError("a fault of ours")

    inbox = PullInbox(client, "S", "C", on_message, ends.append)  # type: ignore[arg-type]  # what it needs of a client
    await inbox.open()
    await inbox.pull(len(replies), timedelta(seconds=9), 1000)
    for frame in Decoder().feed_runs(said(replies)) if together else Decoder().feed(said(replies)):
        (client.on_pull_run if together else client.on_arrival)(frame)  # type: ignore[arg-type]  # it is of one kind
    return messages, ends


@pytest.mark.parametrize("form", [pytest.param(PLAIN, id="plain"), pytest.param(DOMAIN, id="with a domain")])
async def test_a_run_brings_what_its_messages_would_bring_one_by_one(form):
    replies = [form.format(number) for number in range(8, 90)]
    messages, ends = await pulled(replies, together=True)
    assert (messages, ends) == await pulled(replies, together=False)
    assert [message.sequence for message in messages] == list(range(8, 90))
    assert {(message.stream, message.consumer, message.headers["ce-id"]) for message in messages} == {("S", "C", "1")}
    assert ends == [PullEnd.FILLED]


@pytest.mark.parametrize(
    "odd", ["$JS.ACK.S.C.1.x.2.3.4", "$JS.ACK.S.C.1", "somebody.else", "$JS.ACK.größe.C.1.2.3.4.5"]
)
async def test_an_odd_reply_in_a_run_is_judged_as_it_is_alone(odd):
    replies = [PLAIN.format(1), odd, PLAIN.format(2)]
    assert await pulled(replies, together=True) == await pulled(replies, together=False)


async def test_a_fault_of_one_message_costs_the_others_nothing():
    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context["exception"]))
    messages, ends = await pulled([PLAIN.format(number) for number in range(3)], together=True, faulty=True)
    assert (len(messages), ends, len(told)) == (3, [PullEnd.FILLED], 1)


@pytest.mark.parametrize(
    ("status", "brought", "end"),
    [
        pytest.param("409 Batch Completed\r\nNats-Pending-Messages: 0", 8, PullEnd.FILLED, id="filled"),
        pytest.param("409 Message Size Exceeds MaxBytes\r\nNats-Pending-Messages: 5", 3, PullEnd.FILLED, id="full"),
        pytest.param("408 Request Timeout\r\nNats-Pending-Messages: 6", 2, PullEnd.EXPIRED, id="expired"),
        pytest.param("408 Request Timeout\r\nNats-Pending-Messages: 8", 0, PullEnd.EXPIRED, id="brought nothing"),
        pytest.param("408 Request Timeout\r\nNats-Pending-Messages: -1", 0, PullEnd.EXPIRED, id="says nonsense"),
        pytest.param("408 Request Timeout", 0, PullEnd.EXPIRED, id="does not say"),
        pytest.param("409 Leadership Change\r\nNats-Pending-Messages: 1", 0, PullEnd.BROKEN, id="broken"),
    ],
)
async def test_a_status_that_overtakes_messages_ends_the_pull_after_them(status: str, brought: int, end: PullEnd):
    client, messages, ends = FakeClient(), list[Message](), list[PullEnd]()
    inbox = PullInbox(client, "S", "C", messages.append, ends.append)  # type: ignore[arg-type]  # all it needs of it
    await inbox.open()
    await inbox.pull(8, timedelta(seconds=9), 1000)
    block = f"NATS/1.0 {status}\r\n\r\n".encode()
    for frame in Decoder().feed(b"HMSG _INBOX.a.1 7 %d %d\r\n%b\r\n" % (len(block), len(block), block)):
        client.on_arrival(frame)  # type: ignore[arg-type]  # it is an arrival
    for number in range(brought):
        assert ends == []
        for frame in Decoder().feed(said([PLAIN.format(number)])):
            client.on_arrival(frame)  # type: ignore[arg-type]  # it is an arrival
    assert (len(messages), ends) == (brought, [end])
    await inbox.close()
