"""The ground of the command line's tests: a nats-server and a `forward` for all, channels of their own for each."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.nats.stream import Owner, Role
from tests.support.laptop.cli import Cli
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]


@pytest.fixture
def cli(shared_server: NatsServer) -> Cli:
    return Cli(shared_server.url)


@pytest.fixture
async def orders(nats: Nats) -> Channel:
    """An empty channel with the mark of reconcile, by which the command line finds it."""
    return await marked(nats)


async def marked(nats: Nats, **config: Any) -> Channel:
    """A channel with these members in the configuration of its stream."""
    channel = nats.name_channel()
    owner = Owner("default", channel.namespace, channel.name, "uid-1")
    return await nats.make_channel(channel, metadata=owner.mark(Role.CHANNEL), **config)
