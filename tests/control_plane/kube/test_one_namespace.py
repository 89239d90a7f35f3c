"""An operator of one namespace whose channels have functions in another one, of which no watch tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import Function
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import answers, deployment, path, until_there
from tests.support.nats.nats_server import NatsServer

Start = Callable[..., OperatorProcess]
SHARED = {"headrace.dev/shared": "true"}


@pytest.fixture
async def system(api: Api, namespace: str) -> AsyncIterator[str]:
    """Where the functions are."""
    name = f"{namespace}-system"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    yield name
    await api.delete(path("deployment", name, "receive"))


async def another_pass(api: Api, namespace: str, retry: int = 7) -> None:
    """Edit the channel, and wait until that was seen."""
    edit = {"spec": {"delivery": {"retry": retry}}}
    edited = (await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", edit)).unwrapped()["metadata"]
    await until_status(api, namespace, lambda found: found.get("observedGeneration") == edited["generation"])


async def test_a_channel_is_ready_whatever_its_functions_elsewhere_were_when_they_were_applied(
    operator: Start, api: Api, namespace: str, system: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    settings = {"HEADRACE_IMAGE": IMAGE, "HEADRACE_RUNTIME": "knative", "SYSTEM_NAMESPACE": system}
    with Function("reconcile", nats_server.url, tmp_path, **settings) as reconcile:
        operator(hook=reconcile.url)
        await create(api, namespace)
        made = await until_there(api, path("knative", system, "headrace-receive"))
        await another_pass(api, namespace)

        found = (await api.get(f"{CHANNELS.format(namespace=namespace)}/orders")).unwrapped()
    assert "status" not in made
    assert ready(found["status"]) == "True", found["status"]


async def test_a_function_elsewhere_that_somebody_deletes_is_put_right_by_the_next_pass(
    operator: Start, api: Api, namespace: str, system: str, hook: Hook
) -> None:
    hook.sync = answers(deployment("receive", namespace=system, labels=SHARED))
    operator()
    await create(api, namespace)
    where = path("deployment", system, "receive")
    first = await until_there(api, where)
    await until_status(api, namespace, lambda found: ready(found) == "True")

    await api.delete(where)
    await another_pass(api, namespace)

    await until_there(api, where, lambda found: found["metadata"]["uid"] != first["metadata"]["uid"])


async def test_the_next_operator_finds_what_is_elsewhere_and_takes_the_channels_own_away_with_it(
    operator: Start, api: Api, namespace: str, system: str, hook: Hook, relay: ApiRelay
) -> None:
    shared = deployment("receive", namespace=system, labels=SHARED)
    hook.sync = answers(shared, deployment("forward", namespace=system))
    first = operator()
    await create(api, namespace)
    await until_there(api, path("deployment", system, "forward"))
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await asyncio.to_thread(first.stop)
    calls, requests = len(hook.of()), len(relay.asked)

    operator()
    await hook.called(calls + 1)
    for retry in (1, 2, 3):
        await another_pass(api, namespace, retry)
    # A quantity is written in other words by the server, and may be applied once more, for nothing.
    assert len(relay.of("PATCH", "/deployments/receive", since=requests)) <= 1

    channel = f"{CHANNELS.format(namespace=namespace)}/orders"
    await api.delete(channel)
    await api.gone(channel)
    assert (await api.get(path("deployment", system, "forward"))).status == 404
    # Who else wants what is shared can't be seen.
    assert (await api.get(path("deployment", system, "receive"))).status == 200
