"""Tokens that the operator shows: the shared one to functions that the deployer names, to others one made for them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from headrace.core import caller_token
from tests.control_plane.channels.test_channels import create
from tests.support.functions.functions import TOKEN
from tests.support.http.subscriber import Place, Say, Subscriber
from tests.support.kube.hook import Hook, status
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import METADATA_KEY, Channel, Nats, binary_event, metadata

Start = Callable[..., OperatorProcess]


@asynccontextmanager
async def an_event_waits(nats_server: NatsServer, namespace: str) -> AsyncIterator[tuple[Channel, str]]:
    """The channel orders of the namespace in NATS, and its consumer."""
    async with Nats(nats_server.url) as nats:
        channel = await nats.make_channel(Channel(namespace, "orders"))
        said = {METADATA_KEY: json.dumps(metadata(channel, subscriber="http://billing/"))}
        durable = await nats.make_consumer(channel, said)
        await nats.store(channel.subject, b"{}", binary_event("1"))
        yield channel, durable


def names(hook: Hook, channel: Channel, durable: str, forward: str) -> None:
    """Have the answer name this `forward`, and tell of what waits, or it would be asked for that."""
    rows = [{"uid": "aaaa-1", "durable": durable, "lag": 1, **({"forward": forward} if forward else {})}]
    hook.sync = lambda request: {
        "status": status(request["parent"]["metadata"]["generation"], stream=channel.stream, consumers=rows)
    }


async def shown(forward: Place) -> str | None:
    (request,) = await forward.wait(1, 60.0)
    return request.header("authorization")


async def test_whom_the_hook_names_is_shown_what_is_for_him_alone_and_is_told_of_anew_when_he_refuses_it(
    operator: Start, api: Api, namespace: str, hook: Hook, nats_server: NatsServer, subscriber: Subscriber
) -> None:
    forward = subscriber.place(Say(401))
    async with an_event_waits(nats_server, namespace) as (channel, durable):
        names(hook, channel, durable, forward.uri)
        operator(OPERATOR_SWEEP="1s")
        await create(api, namespace)

        assert await shown(forward) == f"Bearer {caller_token.bearer_for(TOKEN.encode(), forward.uri)}"
        asked = len(hook.of())
        # Nothing of the channel changes: it is for the refusals alone that the hook is asked again.
        await hook.called(asked + 2)

    assert all(TOKEN not in str(request.headers) for request in forward.received)


async def test_whom_the_deployer_names_is_shown_the_shared_token(
    operator: Start, api: Api, namespace: str, hook: Hook, nats_server: NatsServer, subscriber: Subscriber
) -> None:
    forward = subscriber.place(Say(401))
    async with an_event_waits(nats_server, namespace) as (channel, durable):
        names(hook, channel, durable, "")
        operator(OPERATOR_SWEEP="1s", FORWARD_URL=forward.uri)
        await create(api, namespace)

        assert await shown(forward) == f"Bearer {TOKEN}"
