"""Functions that channels share outside their namespaces: an operator that has just begun takes none away too early."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.control_plane.channels.test_channels import FINALIZER, create, read, ready, until_status
from tests.control_plane.conftest import clear
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import answers, deployment, path, until_there
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
SHARED = {"headrace.dev/shared": "true"}
# The operator sees the whole cluster.
EVERYWHERE = {"WATCH_NAMESPACE": ""}


@pytest.fixture
async def system(api: Api, namespace: str) -> AsyncIterator[str]:
    """Where the functions of the cluster's scope are; a namespace beside that of the channels."""
    name = f"{namespace}-system"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    yield name
    await clear(api, name)
    await api.delete(path("deployment", name, "receive"))


def wants_receive(namespace: str, system: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Each channel of the test wants the one `receive`; those that other tests have left want nothing."""
    shared = answers(deployment("receive", namespace=system, labels=SHARED))

    def sync(request: dict[str, Any]) -> dict[str, Any]:
        if request["parent"]["metadata"]["namespace"] not in (namespace, system):
            return {"status": request["parent"].get("status") or {}}
        return shared(request)

    return sync


async def made(api: Api, namespace: str, system: str, *names: str) -> str:
    """The channels are there, and what they share; its path."""
    for name in names:
        await create(api, namespace, name)
        await until_status(api, namespace, lambda found: ready(found) == "True", name)
    where = path("deployment", system, "receive")
    await until_there(api, where)
    return where


@pytest.mark.parametrize("home", [pytest.param(False, id="elsewhere"), pytest.param(True, id="beside what it owns")])
async def test_the_first_channel_that_goes_after_a_restart_leaves_what_the_others_share(
    operator: Start, api: Api, namespace: str, system: str, hook: Hook, home: bool
) -> None:
    hook.sync = wants_receive(namespace, system)
    first = operator(**EVERYWHERE)
    of = system if home else namespace
    await made(api, of, system, "one")
    where = await made(api, namespace, system, "two", "three")
    uid = (await api.get(where)).unwrapped()["metadata"]["uid"]
    await asyncio.to_thread(first.stop)

    # The next operator sees the going channel whole, and of the others nothing for a while: their hook fails.
    blocked = True

    def sync(request: dict[str, Any]) -> dict[str, Any]:
        parent = request["parent"]["metadata"]
        if blocked and (parent["namespace"], parent["name"]) in ((namespace, "two"), (namespace, "three")):
            return {"status": "none that makes sense"}
        return wants_receive(namespace, system)(request)

    hook.sync = sync
    calls = iter((False, True))
    # Its removal needs the functions for one pass more: so it has wanted them, and nobody else has.
    hook.finalize = lambda request: {
        "finalized": next(calls, True),
        "resyncAfterSeconds": 0.1,
        "children": wants_receive(namespace, system)(request)["children"],
    }
    going = f"{CHANNELS.format(namespace=of)}/one"
    await api.delete(going)
    second = operator(**EVERYWHERE)
    await api.gone(going)
    await second.leads()
    await until(
        "the others' passes have failed", lambda: second.number("headrace_operator_channels_failing") == 2, 60.0
    )
    found = (await api.get(where)).unwrapped()
    assert found["metadata"]["uid"] == uid
    assert not found["metadata"].get("deletionTimestamp")

    blocked = False
    hook.finalize = lambda _: {"finalized": True}
    for name in ("two", "three"):
        assert (await api.get(where)).unwrapped()["metadata"]["uid"] == uid
        assert FINALIZER in (await read(api, namespace, name))["metadata"]["finalizers"]
        channel = f"{CHANNELS.format(namespace=namespace)}/{name}"
        await api.delete(channel)
        await api.gone(channel)
    await api.gone(where, 60.0)


async def test_the_last_channel_that_goes_while_no_operator_is_there_leaves_no_orphan(
    operator: Start, api: Api, namespace: str, system: str, hook: Hook
) -> None:
    hook.sync = wants_receive(namespace, system)
    first = operator(**EVERYWHERE)
    where = await made(api, namespace, system, "one", "two")
    await asyncio.to_thread(first.stop)
    channels = CHANNELS.format(namespace=namespace)
    await api.delete(f"{channels}/one")
    # Somebody has taken this one away by force: no pass over it will ever be made.
    await api.delete(f"{channels}/two")
    await api.merge(f"{channels}/two", {"metadata": {"finalizers": []}})
    await api.gone(f"{channels}/two")
    operator(**EVERYWHERE)
    await api.gone(f"{channels}/one")
    await api.gone(where, 60.0)


async def test_a_channel_that_is_taken_away_by_force_wants_nothing_any_more(
    operator: Start, api: Api, namespace: str, system: str, hook: Hook
) -> None:
    hook.sync = wants_receive(namespace, system)
    operator(**EVERYWHERE)
    where = await made(api, namespace, system, "one")
    channel = f"{CHANNELS.format(namespace=namespace)}/one"
    hook.finalize = lambda request: {
        "finalized": False,
        "resyncAfterSeconds": 60,
        "children": wants_receive(namespace, system)(request)["children"],
    }
    await api.delete(channel)
    await hook.called(1, "finalize", "one")
    await api.merge(channel, {"metadata": {"finalizers": []}})
    await api.gone(channel)
    await api.gone(where, 60.0)


async def test_what_a_namespace_shares_goes_with_its_last_channel_whatever_is_the_matter_with_channels_elsewhere(
    operator: Start, api: Api, namespace: str, system: str, hook: Hook
) -> None:
    own = deployment("receive", labels={**SHARED, "headrace.dev/scope": "namespace"})

    def sync(request: dict[str, Any]) -> dict[str, Any]:
        of = request["parent"]["metadata"]["namespace"]
        if of == system:
            return {"status": "none that makes sense"}
        return answers(own)(request) if of == namespace else {"status": request["parent"].get("status") or {}}

    hook.sync = sync
    await create(api, system, "failing")
    running = operator(**EVERYWHERE)
    await create(api, namespace, "one")
    where = path("deployment", namespace, "receive")
    await until_there(api, where)
    await until("a channel elsewhere fails", lambda: running.number("headrace_operator_channels_failing") == 1, 60.0)
    channel = f"{CHANNELS.format(namespace=namespace)}/one"
    await api.delete(channel)
    await api.gone(channel)
    assert (await api.get(where)).status == 404
