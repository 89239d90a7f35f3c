"""The scaler over many streams: a sweep is one list, and still finds consumers that nobody has told of."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace_operator.scaling.served_streams import ServedStreams
from headrace_operator.scaling.sweep import Sweep
from tests.support.functions.scaling import Scale, leases, store, subscribed
from tests.support.http.subscriber import Place
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, Channel, Nats, metadata
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.scaled"]


async def many(nats: Nats, count: int = 20) -> list[Channel]:
    return [(await subscribed(nats))[0] for _ in range(count)]


async def listen(nats: Nats, subject: str) -> list[str]:
    """Subjects of the requests of that kind, from now on."""
    heard: list[str] = []

    async def take(message: Any) -> None:
        heard.append(message.subject)

    await nats.client.subscribe(subject, cb=take)
    await nats.client.flush()
    return heard


async def test_streams_without_news_are_not_asked_and_what_comes_without_a_hint_is_found(
    own_nats: Nats, stand_in: Place, scale: Scale
) -> None:
    channels = await many(own_nats)
    async with scale(*channels, sweeping=0.2):
        asked, listed = await listen(own_nats, "$JS.API.CONSUMER.LIST.>"), await listen(own_nats, "$JS.API.STREAM.LIST")
        await until("it has swept a few times", lambda: len(listed) >= 2)
        # The look after the first list may still be under way.
        asked.clear()
        swept = len(listed)
        await until("it has swept a few times more", lambda: len(listed) >= swept + 5)
        assert asked == []

        await store(own_nats, channels[7], 1)
        await stand_in.wait(1)
        assert leases(stand_in)[0]["stream"] == channels[7].stream
        await until("the one with news was asked", lambda: bool(asked))
        assert {subject.rpartition(".")[2] for subject in asked} == {channels[7].stream}


async def test_a_consumer_that_comes_or_goes_is_news(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    channels = await many(own_nats)
    async with scale(*channels, sweeping=0.2) as running:
        await store(own_nats, channels[3], 1)
        await stand_in.wait(1)
        second = await own_nats.make_consumer(channels[3], {METADATA_KEY: json.dumps(metadata(channels[3]))})
        key = f"{channels[3].stream}/{second}"
        await until("the second consumer is served", lambda: key in running.scaler.stats()["consumers"])
        await own_nats.call(f"STREAM.DELETE.{channels[5].stream}")
        await until("the stream is missed", lambda: channels[5].stream in running.missing)


async def test_consumers_that_are_spared_get_no_lease(own_nats: Nats, stand_in: Place, scale: Scale) -> None:
    channel, _ = await subscribed(own_nats)
    async with scale(channel, sweeping=0.2) as running:
        running.scaler.spares = lambda served: served.stream == channel.stream
        await store(own_nats, channel, 1)
        stats = running.scaler.stats
        await until("the event is seen", lambda: any(row["pending"] for row in stats()["consumers"].values()))
        await asyncio.sleep(0.3)
        assert stand_in.received == []
        running.scaler.spares = lambda _: False
        await stand_in.wait(1)


async def test_whoever_may_not_list_streams_asks_each_of_them(tmp_path: Path) -> None:
    deny = 'permissions: {publish: {deny: ["$JS.API.STREAM.LIST"]}}'
    users = f"authorization {{ users: [{{user: all, password: x}}, {{user: few, password: x, {deny}}}] }}"
    server = NatsServer(tmp_path / "guarded", config=users)
    server.start()
    client = Client(NatsSettings(url=server.url, user="few", password=SecretStr("x")))
    looked: list[str] = []
    try:
        async with Nats(server.url.replace("nats://", "nats://all:x@")) as everything:
            channels = await many(everything)
        api = JetStreamApi(client)
        streams = ServedStreams(api)
        streams.replace(channel.stream for channel in channels)
        await Sweep(api, streams, looked.append).once()
    finally:
        await client.close()
        server.kill()
    assert sorted(looked) == sorted(channel.stream for channel in channels)
