"""A `receive` tells of new kinds of events while Knative's flag asks for it: by both ways, each once, and only then."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from headrace.core.event import event_kinds
from headrace.core.event.event_kinds import EventKind, KindNews
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.nats.nats_permissions import PermittedServer, inbox_of
from tests.support.nats.streams import Channel, Nats
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

KEY = bytes(range(32))


@dataclass
class Asked:
    """A `receive` with the document of its place."""

    function: Function
    mount: Mounted

    async def post(self, channel: Channel, type_: str, id: str) -> None:
        answer = await send(self.function.url + channel.path, b"{}", {**BINARY, "ce-type": type_, "ce-id": id})
        assert answer.status == 202


@pytest.fixture
def asked(shared_server: PermittedServer, tmp_path: Path) -> Iterator[Asked]:
    mount = Mounted(tmp_path / "security")
    with Function(
        "receive",
        shared_server.url_of("receive"),
        tmp_path,
        NATS_INBOX_PREFIX=inbox_of("receive"),
        HEADRACE_SECURITY_DIR=str(mount.directory),
        HEADRACE_SECURITY_PLACE="shop",
        HEADRACE_DELIVERY_KEY=KEY.hex(),
    ) as function:
        yield Asked(function, mount)


@pytest.fixture
async def heard(nats: Nats) -> AsyncIterator[list[KindNews]]:
    """What is told on all subjects of places, and proven to be of this one."""
    found: list[KindNews] = []

    async def on_news(message: Msg) -> None:
        news = event_kinds.read(message.data, message.subject.removeprefix("headrace.types."), KEY)
        assert news is not None
        found.append(news)

    subscription = await nats.client.subscribe("headrace.types.>", cb=on_news)
    await nats.client.flush()
    yield found
    await subscription.unsubscribe()


async def test_new_kinds_are_told_of_while_the_flag_asks_for_it(
    asked: Asked, orders: Channel, heard: list[KindNews]
) -> None:
    await asked.post(orders, "before", "1")
    asked.mount.flag(auto_create_types=True)
    await asyncio.sleep(1.5)
    assert heard == []
    for number, type_ in enumerate(("created", "created", "%C3%9Cbergabe", "created"), 2):
        await asked.post(orders, type_, str(number))
    # What has to be decoded goes by ASGI.
    kinds = [EventKind(type_, BINARY["ce-source"], "", "1.0") for type_ in ("created", "Übergabe")]
    await until("the kinds are told", lambda: bool(heard))
    assert heard == [KindNews({orders.subject: kinds}, {})]

    asked.mount.flag(auto_create_types=False)
    await asyncio.sleep(1.5)
    await asked.post(orders, "after", "9")
    await asyncio.sleep(1.5)
    assert len(heard) == 1
