"""Troubles around the operator, and in it: it comes back, and forgets nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.control_plane.channels.test_channels import create, read, ready, until_status
from tests.support.kube.api_relay import ApiRelay, Asked
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api, connect
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import answers, deployment, path, service, until_there
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]


async def edit(api: Api, namespace: str, retry: int, name: str = "orders") -> None:
    where = f"{CHANNELS.format(namespace=namespace)}/{name}"
    (await api.merge(where, {"spec": {"delivery": {"retry": retry}}})).unwrapped()


async def until_generation(api: Api, namespace: str, generation: int, name: str = "orders") -> None:
    await until_status(api, namespace, lambda found: found.get("observedGeneration") == generation, name)


def holder(lease: dict[str, Any]) -> str:
    return str(lease["spec"].get("holderIdentity") or "")


async def lease_of(api: Api, namespace: str) -> dict[str, Any]:
    where = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/headrace-operator"
    return (await api.get(where)).unwrapped()


async def test_watches_that_break_off_go_on_where_they_were(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    operator()
    await create(api, namespace)
    await until_generation(api, namespace, 1)
    lists = len([one for one in relay.of("GET", "natsjetstreamchannels") if not one.path.endswith("orders")])
    relay.end_watches()
    await edit(api, namespace, 1)
    await until_generation(api, namespace, 2)
    again = [one for one in relay.of("GET", "natsjetstreamchannels") if not one.path.endswith("orders")]
    assert len(again) == lists


async def test_a_watch_whose_place_is_forgotten_lists_again_and_finds_what_has_changed_and_gone(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.sync = answers(service())
    operator()
    await create(api, namespace)
    await until_there(api, path("service", namespace, "orders-kn-jsm-channel"))
    await until_generation(api, namespace, 1)
    blind: set[str] = set()

    def refuses(asked: Asked) -> int | None:
        if asked.verb == "watch" and "leases" not in asked.path:
            blind.add(asked.path)
            return 503
        return None

    relay.refuses = refuses
    relay.end_watches()
    await until("all are blind", lambda: len(blind) >= 5, 60.0)
    await edit(api, namespace, 1)
    await api.delete(path("service", namespace, "orders-kn-jsm-channel"))
    expired: set[str] = set()

    def forgets(asked: Asked) -> int | None:
        if asked.verb == "watch" and "leases" not in asked.path and asked.path not in expired:
            expired.add(asked.path)
            return 410
        return None

    relay.refuses = forgets
    await until_generation(api, namespace, 2)
    await until_there(api, path("service", namespace, "orders-kn-jsm-channel"))
    assert expired >= {CHANNELS.format(namespace=namespace)}


async def test_an_api_server_that_is_restarted_is_found_again(
    operator: Start, api: Api, namespace: str, hook: Hook, control_plane: ControlPlane
) -> None:
    running = operator()
    await create(api, namespace)
    await until_generation(api, namespace, 1)
    # On this thread: the server is to die with the one that starts it.
    control_plane.restart_api_server()
    session, again = connect(control_plane)
    async with session:
        await edit(again, namespace, 1)
        await until_generation(again, namespace, 2)
    assert "Traceback" not in running.log
    assert running.probe("/healthz") == 200


async def test_an_operator_that_can_not_reach_the_api_server_stops_work_and_begins_again(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    running = operator(OPERATOR_LEASE_DURATION="3s")
    await create(api, namespace)
    await until_generation(api, namespace, 1)
    await relay.close()
    await until("it leads no more", lambda: running.number("headrace_operator_leads") == 0.0, 60.0)
    await edit(api, namespace, 1)
    await relay.open()
    await until_generation(api, namespace, 2)


async def test_an_operator_that_is_killed_in_the_middle_leaves_nothing_undone(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.sync = answers(deployment(), service())
    # Killed at each of its writes in turn: finalizer, the two children, the status.
    for number in range(4):
        name = f"orders-{number}"
        writes: list[Asked] = []
        at_last = asyncio.Event()

        def refuses(
            asked: Asked, number: int = number, writes: list[Asked] = writes, at_last: asyncio.Event = at_last
        ) -> int | None:
            if asked.verb == "PATCH" and "events" not in asked.path:
                writes.append(asked)
                if len(writes) > number:
                    at_last.set()
                    return 503
            return None

        hook.sync = answers(deployment(f"forward-{number}"), service(f"{name}-kn-jsm-channel"))
        relay.refuses = refuses
        running = operator(POD_NAME="the-same-pod")
        await create(api, namespace, name)
        async with asyncio.timeout(60.0):
            await at_last.wait()
        await asyncio.to_thread(running.kill)
        relay.refuses = lambda _: None
        running = operator(POD_NAME="the-same-pod")
        await until_generation(api, namespace, 1, name)
        await until_there(api, path("deployment", namespace, f"forward-{number}"))
        await until_there(api, path("service", namespace, f"{name}-kn-jsm-channel"))
        await api.delete(f"{CHANNELS.format(namespace=namespace)}/{name}")
        await api.gone(f"{CHANNELS.format(namespace=namespace)}/{name}")
        await asyncio.to_thread(running.kill)


async def test_of_two_operators_one_works_and_the_other_takes_over_at_once_when_that_ends_in_order(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    first = operator(POD_NAME="first", OPERATOR_LEASE_DURATION="60s")
    await first.leads()
    second = operator(POD_NAME="second", OPERATOR_LEASE_DURATION="60s")
    await second.ready()
    await create(api, namespace)
    await until_generation(api, namespace, 1)
    assert (first.number("headrace_operator_leads"), second.number("headrace_operator_leads")) == (1.0, 0.0)
    assert holder(await lease_of(api, namespace)) == "first"

    first.terminate()
    # Without being given back the Lease would be held for a minute.
    async with asyncio.timeout(30.0):
        await second.leads()
    assert await asyncio.to_thread(first.wait) == 0
    assert holder(await lease_of(api, namespace)) == "second"
    await edit(api, namespace, 1)
    await until_generation(api, namespace, 2)


async def test_the_other_takes_over_from_one_that_is_dead(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    first = operator(POD_NAME="first", OPERATOR_LEASE_DURATION="3s")
    await first.leads()
    second = operator(POD_NAME="second", OPERATOR_LEASE_DURATION="3s")
    await second.ready()
    await asyncio.to_thread(first.kill)
    await create(api, namespace)
    await until_generation(api, namespace, 1)
    assert holder(await lease_of(api, namespace)) == "second"


async def test_an_operator_whose_lease_was_taken_stops_at_once(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    running = operator(POD_NAME="first", OPERATOR_LEASE_DURATION="60s")
    await running.leads()
    where = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/headrace-operator"
    (await api.merge(where, {"spec": {"holderIdentity": "usurper"}})).unwrapped()
    await until("it leads no more", lambda: running.number("headrace_operator_leads") == 0.0, 10.0)
    await create(api, namespace)
    assert hook.calls == []
    (await api.merge(where, {"spec": {"holderIdentity": ""}})).unwrapped()
    await until_generation(api, namespace, 1)


async def test_a_storm_of_edits_by_many_ends_with_the_last_word(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = lambda _: {"headrace": {"prune": ["ghost"]}}
    operator()
    names = [f"orders-{number}" for number in range(5)]
    for name in names:
        await create(api, namespace, name)

    async def storm(name: str) -> None:
        where = f"{CHANNELS.format(namespace=namespace)}/{name}"
        for number in range(20):
            entries = [
                {"uid": uid, "name": uid, "generation": number, "subscriberUri": "http://a/"}
                for uid in ("alive", "ghost")
            ]
            (await api.merge(where, {"spec": {"subscribers": entries}})).unwrapped()

    await asyncio.gather(*(storm(name) for name in names))

    for name in names:

        async def is_so(name: str = name) -> bool:
            found = await read(api, namespace, name)
            kept = [(one["uid"], one["generation"]) for one in found["spec"]["subscribers"]]
            seen = (found.get("status") or {}).get("observedGeneration")
            return kept == [("alive", 19)] and bool(seen == found["metadata"]["generation"])

        await until(f"{name} is pruned, and its last edit seen", is_so, 60.0)
    assert ready((await read(api, namespace, names[0]))["status"]) == "True"


async def test_children_whose_channel_was_torn_out_by_force_go_too(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = answers(service())
    running = operator()
    await create(api, namespace)
    where = path("service", namespace, "orders-kn-jsm-channel")
    await until_there(api, where)
    await until_generation(api, namespace, 1)
    await asyncio.to_thread(running.stop)
    channel = f"{CHANNELS.format(namespace=namespace)}/orders"
    (await api.merge(channel, {"metadata": {"finalizers": None}})).unwrapped()
    await api.delete(channel, propagation="Orphan")
    await api.gone(channel)
    (await api.get(where)).unwrapped()
    operator(OPERATOR_RESYNC="60s")
    await api.gone(where)
