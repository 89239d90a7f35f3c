"""The operator's warnings are for people: channels that come, change and go cause none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import answers, deployment, service, until_there
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]


def told(running: OperatorProcess) -> list[str]:
    """What people were told of: lines of a level above info."""
    lines = [json.loads(line) for line in running.log.splitlines() if line.startswith("{")]
    return [f"{one['event']}: {one.get('error')}" for one in lines if one["level"] in ("warning", "error")]


def failures(running: OperatorProcess) -> list[str]:
    return [line for line in running.log.splitlines() if "pass failed" in line]


async def test_channels_that_are_deleted_and_made_again_while_passes_are_made_cause_no_warning(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(deployment("receive", labels={"headrace.dev/shared": "true"}), service())
    hook.delay = 0.05
    running = operator()
    await running.leads()
    folder = CHANNELS.format(namespace=namespace)

    async def live(number: int) -> None:
        name = f"orders-{number}"
        for again in range(3):
            (await api.create(folder, channel(name))).unwrapped()
            await asyncio.sleep(0.02 * (number % 7))
            await api.merge(f"{folder}/{name}", {"metadata": {"labels": {"again": str(again)}}})
            if number % 3 == 0:
                # By force, so that passes find nothing where there was something.
                await api.merge(f"{folder}/{name}", {"metadata": {"finalizers": []}})
            await api.delete(f"{folder}/{name}")
            if number % 3 == 1:
                await api.merge(f"{folder}/{name}", {"metadata": {"finalizers": []}})
            await api.gone(f"{folder}/{name}")

    await asyncio.gather(*map(live, range(20)))
    await until("the queue is empty", lambda: running.number("headrace_operator_queue_busy") == 0)
    assert told(running) == []
    # It is not that there was nothing to tell.
    assert failures(running) != []


async def test_a_conflict_that_lasts_is_told_of_once(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    relay.refuses = lambda asked: 409 if asked.verb == "PATCH" and asked.path == path else None
    running = operator()
    await create(api, namespace)
    await until("people are told", lambda: told(running) != [])
    assert len(failures(running)) > 4
    await until("it is tried again", lambda: len(failures(running)) > 6, 60.0)
    assert [line.partition(":")[0] for line in told(running)] == ["pass failed, trying again"]
    relay.refuses = lambda _: None
    await until_status(api, namespace, lambda found: ready(found) == "True")


async def test_a_hook_that_is_away_is_tried_again_and_told_of(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.status = 503
    operator()
    await create(api, namespace)
    events: list[dict[str, Any]] = []

    async def are_told() -> bool:
        told = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
        events[:] = [one for one in told if one["reason"] == "ReconcileFailed"]
        return bool(events)

    await until("an Event tells of it", are_told, 60.0)
    assert len(hook.of("customize")) >= 3
    hook.status = 200
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await are_told()
    assert len(events) == 1
    assert events[0]["type"] == "Warning"
    assert events[0]["regarding"]["name"] == "orders"


async def test_watches_that_are_cut_and_an_api_server_that_restarts_cause_no_warning(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.sync = answers(deployment())
    running = operator(OPERATOR_LEASE_DURATION="15s")
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    for _ in range(3):
        relay.end_watches()
        await asyncio.sleep(0.3)
    await relay.close()
    await asyncio.sleep(1.0)
    await relay.open()
    (
        await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"delivery": {"retry": 1}}})
    ).unwrapped()
    where = f"/apis/apps/v1/namespaces/{namespace}/deployments/forward"
    await api.delete(where)
    await until_there(api, where)
    assert told(running) == []
