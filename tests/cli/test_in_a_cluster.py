"""Three nats-servers: leaders step down, replicas that are away are found, and a backup comes back with its copies."""

from __future__ import annotations

import json
from pathlib import Path

from headrace.core.delivery.subscriber import METADATA_KEY
from headrace.core.nats.stream import Owner, Role
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_cluster import NatsCluster
from tests.support.nats.streams import Nats, binary_event, metadata
from tests.support.waiting import until

COUNT = 20


async def test_the_verbs_of_whoever_runs_a_cluster(tmp_path: Path) -> None:
    cluster = NatsCluster(tmp_path / "nats")
    cluster.start()
    try:
        cli = Cli(cluster.url)
        async with Nats(cluster.servers[0].url) as nats:
            channel = nats.name_channel()
            mark = Owner("default", channel.namespace, channel.name, "uid").mark(Role.CHANNEL)
            await nats.make_channel(channel, metadata=mark, num_replicas=3)
            said = {METADATA_KEY: json.dumps(metadata(channel, subscriber="http://127.0.0.1:1/"))}
            await nats.make_consumer(channel, said)
            for number in range(COUNT):
                await nats.store(channel.subject, b"x" * 1000, binary_event(str(number)))
        name, saved = channel.path[1:], str(tmp_path / "saved")

        stepped = await cli("step-down", name)
        consumer = await cli("step-down", name, "--subscription", "billing")
        (await cli("backup", name, saved)).ok()
        async with Nats(cluster.servers[1].url) as nats:
            for stream in (channel.stream, channel.aside):
                await nats.call(f"STREAM.DELETE.{stream}")
        restored = await cli("restore", saved, "--yes")

        async def its_consumer_is_known() -> bool:
            return (await cli("channel", "describe", name)).status == 0

        await until("the consumer has a leader again", its_consumer_is_known, 60)
        listed = await cli("channel", "describe", name, "-o", "json")
        cluster.servers[2].kill()

        async def it_is_seen() -> bool:
            return "[replica-away]" in (await cli("doctor", name)).out

        await until("the doctor finds the replica that is away", it_is_seen, 60)
    finally:
        cluster.kill()

    assert f"stream {channel.stream} was led by n" in stepped.ok().out
    assert "and is led by n" in consumer.ok().out
    assert restored.ok().out == f"{name} is back\n"
    assert (listed.ok().json["stream"]["messages"], listed.json["stream"]["replicas"]) == (COUNT, 3)
    assert [one["pending"] for one in listed.json["subscriptions"]] == [COUNT]
