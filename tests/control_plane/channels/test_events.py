"""Kubernetes Events: what people see of a channel with `kubectl describe`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook, status
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]


async def until_told(api: Api, namespace: str, wanted: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """The channel's Events, once they are like that."""
    found: list[dict[str, Any]] = []

    async def is_so() -> bool:
        items = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
        found[:] = [one for one in items if one["regarding"]["name"] == "orders"]
        return wanted(found)

    await until("the Events are there", is_so, 60.0)
    return found


def reasons(events: list[dict[str, Any]]) -> set[tuple[str, str]]:
    return {(one["type"], one["reason"]) for one in events}


async def test_a_condition_that_changes_is_an_event_and_the_same_again_is_counted(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = lambda _: {"status": status(1, "False")}
    running = operator()
    await create(api, namespace)
    [event] = await until_told(api, namespace, lambda found: reasons(found) == {("Warning", "NotYet")})
    assert event["note"] == "Ready is False: as the test wants"
    assert event["reportingController"] == "headrace.dev/operator"
    assert "series" not in event

    where = f"{CHANNELS.format(namespace=namespace)}/orders"
    for generation, word in ((2, "True"), (3, "False")):
        hook.sync = lambda request, word=word: {"status": status(request["parent"]["metadata"]["generation"], word)}
        if generation == 3:
            await until_told(api, namespace, lambda found: ("Normal", "Ready") in reasons(found))
            # Another operator: it does not know what was said, and finds out.
            await asyncio.to_thread(running.stop)
            running = operator()
        (await api.merge(where, {"spec": {"delivery": {"retry": generation}}})).unwrapped()
        await until_status(api, namespace, lambda found, word=word: ready(found) == word)
    events = await until_told(api, namespace, lambda found: any("series" in one for one in found))
    assert reasons(events) == {("Warning", "NotYet"), ("Normal", "Ready")}
    assert next(one for one in events if one["reason"] == "NotYet")["series"]["count"] == 2


async def test_what_the_hook_has_to_tell_is_an_event_also_of_a_channel_that_goes(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    def told(reason: str) -> dict[str, Any]:
        return {"events": [{"type": "Warning", "reason": reason, "message": "KN_SHOP__ORDERS is left behind"}]}

    hook.sync = lambda _: {"status": status(1, "True"), "headrace": told("Said")}
    hook.finalize = lambda _: {"finalized": True, "headrace": told("StreamOrphaned")}
    operator()
    await create(api, namespace)
    await until_told(api, namespace, lambda found: ("Warning", "Said") in reasons(found))
    (await api.delete(f"{CHANNELS.format(namespace=namespace)}/orders")).unwrapped()
    events = await until_told(api, namespace, lambda found: ("Warning", "StreamOrphaned") in reasons(found))
    assert {one["note"] for one in events if one["type"] == "Warning"} == {"KN_SHOP__ORDERS is left behind"}


async def test_what_is_not_written_yet_when_the_operator_ends_is_written_then(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    notes = {f"word {number}" for number in range(100)}
    told = [{"type": "Normal", "reason": "Said", "message": note} for note in sorted(notes)]
    hook.sync = lambda _: {"status": status(1, "True"), "headrace": {"events": told}}
    running = operator()
    await create(api, namespace)

    def waits() -> bool:
        return (running.number("headrace_operator_events_waiting") or 0) >= 80

    await until("most of the Events wait", waits, 60.0)
    running.terminate()
    assert await asyncio.to_thread(running.wait) == 0

    items = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
    assert {one["note"] for one in items} >= notes
    # None of them was written twice, also the one that was on its way.
    assert [one for one in items if "series" in one] == []
    # The other operator need not wait for that.
    ends = [number for number, one in enumerate(relay.asked) if one.verb == "PUT" and "/leases/" in one.path]
    written = [number for number, one in enumerate(relay.asked) if one.verb == "POST" and "/events" in one.path]
    assert len([number for number in written if number > ends[-1]]) > 40
    assert b'"holderIdentity": ""' in relay.asked[ends[-1]].body
