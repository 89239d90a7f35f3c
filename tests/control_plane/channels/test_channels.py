"""The operator and one channel after the other: its requests to the hook, and its writes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.support.kube.api_relay import ApiRelay, Asked
from tests.support.kube.hook import Hook, status
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
FINALIZER = "headrace.dev/channel"


async def create(api: Api, namespace: str, name: str = "orders", spec: dict[str, Any] | None = None) -> dict[str, Any]:
    path = CHANNELS.format(namespace=namespace)
    return (await api.create(path, channel(name, spec or {}))).unwrapped()


async def read(api: Api, namespace: str, name: str = "orders") -> dict[str, Any]:
    return (await api.get(f"{CHANNELS.format(namespace=namespace)}/{name}")).unwrapped()


async def until_status(
    api: Api, namespace: str, wanted: Callable[[dict[str, Any]], bool], name: str = "orders"
) -> None:
    found: dict[str, Any] = {}

    async def is_so() -> bool:
        nonlocal found
        found = (await read(api, namespace, name)).get("status") or {}
        return wanted(found)

    try:
        await until(f"{name} has the status", is_so, 60.0)
    except AssertionError as problem:
        raise AssertionError(f"{problem}: {json.dumps(found)}") from None


def ready(found: dict[str, Any]) -> str:
    conditions = found.get("conditions") or ()
    return next((one["status"] for one in conditions if one["type"] == "Ready"), "")


async def test_a_new_channel_is_held_and_gets_the_hooks_status(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    call = await hook.called()
    assert call.request["parent"]["metadata"]["finalizers"] == [FINALIZER]
    assert call.request["finalizing"] is False
    assert call.request["headrace"]["apis"] == ["cert-manager.io/v1", "keda.sh/v1alpha1", "serving.knative.dev/v1"]


async def test_an_edit_is_reconciled_and_what_is_left_out_of_the_status_goes(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = lambda request: {
        "status": status(
            request["parent"]["metadata"]["generation"],
            **({"address": {"url": "http://a"}} if request["parent"]["metadata"]["generation"] == 1 else {}),
        )
    }
    operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: found.get("address") == {"url": "http://a"})
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"delivery": {"retry": 3}}})
    await until_status(api, namespace, lambda found: found.get("observedGeneration") == 2 and "address" not in found)
    assert len(hook.of("customize")) == 2


async def test_nothing_is_asked_or_written_while_nothing_changes(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    # The CRD prunes what it does not know: what was answered is never quite what is there.
    hook.sync = lambda _: {"status": status(1, unknown="to the CRD")}
    running = operator(OPERATOR_LEASE_DURATION="60s")
    for number in range(5):
        await create(api, namespace, f"orders-{number}")
    for number in range(5):
        await until_status(api, namespace, lambda found: ready(found) == "True", f"orders-{number}")
    await until("the queue is empty", lambda: running.number("headrace_operator_queue_busy") == 0)
    await asyncio.sleep(1.0)
    assert (len(hook.of("customize")), len(hook.of("sync"))) == (5, 5)
    calls, requests = len(hook.calls), len(relay.asked)
    await asyncio.sleep(3.0)
    assert len(hook.calls) == calls
    assert relay.asked[requests:] == []


async def test_a_status_that_somebody_else_writes_is_mended(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders/status", {"status": {"stream": "ANOTHER"}})
    await until_status(api, namespace, lambda found: ready(found) == "True" and "stream" not in found)


async def test_a_channel_goes_once_the_hook_says_that_nothing_is_left(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.finalize = lambda _: {"finalized": False, "resyncAfterSeconds": 0.2, "status": status(1, "False")}
    operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    await api.delete(path)
    await hook.called(3, "finalize")
    await until_status(api, namespace, lambda found: ready(found) == "False")
    assert hook.of("finalize")[-1].request["finalizing"] is True
    hook.finalize = lambda _: {"finalized": True}
    await api.gone(path)


async def test_a_slow_first_answer_is_waited_for_and_the_channels_are_asked_for_beside_one_another(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.delay = 4.0
    operator(OPERATOR_WORKERS="4")
    for number in range(5):
        await create(api, namespace, f"orders-{number}")
    for number in range(5):
        await until_status(api, namespace, lambda found: ready(found) == "True", f"orders-{number}")
    calls = sorted(call.at for call in hook.of("sync"))
    assert calls[3] - calls[0] < 3.9
    assert calls[4] - calls[0] >= 3.9


async def test_changes_while_a_channel_is_reconciled_are_one_more_pass(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.delay = 2.0
    operator()
    await create(api, namespace)
    await hook.called(1)
    for retry in range(5):
        await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"delivery": {"retry": retry}}})
    await until_status(api, namespace, lambda found: found.get("observedGeneration") == 6)
    assert [call.request["parent"]["metadata"]["generation"] for call in hook.of("sync")] == [1, 6]


@pytest.mark.parametrize("refusal", [409, 503, 500])
async def test_a_write_that_fails_is_tried_again(
    operator: Start, api: Api, namespace: str, relay: ApiRelay, refusal: int
) -> None:
    failed: list[Asked] = []

    def refuses(asked: Asked) -> int | None:
        if asked.verb == "PATCH" and len(failed) < 3:
            failed.append(asked)
            return refusal
        return None

    relay.refuses = refuses
    operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    assert len(failed) == 3


async def test_pruned_entries_are_taken_out_with_a_tested_patch_and_new_ones_stay(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    entries = [{"uid": uid, "name": uid, "generation": 1, "subscriberUri": "http://a/"} for uid in ("dead", "alive")]
    hook.sync = lambda _: {"headrace": {"prune": ["dead"]}}
    hook.delay = 1.0
    running = operator()
    await create(api, namespace, spec={"subscribers": entries})
    await hook.called(1)
    # While the hook makes up its mind a third comes: the patch must not take it away.
    late = {"uid": "late", "name": "late", "generation": 1, "subscriberUri": "http://a/"}
    await api.merge(path, {"spec": {"subscribers": [*entries, late]}})

    async def is_pruned() -> bool:
        return [one["uid"] for one in (await read(api, namespace))["spec"]["subscribers"]] == ["alive", "late"]

    await until("the dead one is taken out", is_pruned, 60.0)
    # Somebody was faster, which is nobody's fault.
    assert "pass failed" not in running.log


async def test_what_the_hook_wants_verified_is_looked_up_and_told(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    subscriptions = f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions"
    body = {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "metadata": {"name": "here"}}
    uid = (await api.create(subscriptions, body)).unwrapped()["metadata"]["uid"]
    here = {"apiVersion": body["apiVersion"], "kind": "Subscription", "namespace": namespace, "name": "here"}
    references = [
        {**here, "uid": uid},
        {**here, "uid": "that-of-one-before"},
        {**here, "name": "never-was", "uid": "nobody"},
    ]
    hook.sync = lambda request: {} if request["headrace"]["absent"] else {"headrace": {"verify": references}}
    operator()
    await create(api, namespace)
    again = await hook.called(2)
    assert again.request["headrace"]["absent"] == ["nobody", "that-of-one-before"]


async def test_related_objects_are_sent_and_their_changes_ask_again(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.related = [
        {"apiVersion": "messaging.knative.dev/v1", "resource": "subscriptions"},
        {"apiVersion": "v1", "resource": "configmaps", "names": ["settings"], "namespace": namespace},
        {"apiVersion": "example.com/v1", "resource": "unknowns"},
    ]
    subscriptions = f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions"
    body = {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription", "metadata": {"name": "s"}, "spec": {}}
    uid = (await api.create(subscriptions, body)).unwrapped()["metadata"]["uid"]
    operator()
    entry = {"uid": uid, "name": "s", "generation": 1, "subscriberUri": "http://a/"}
    await create(api, namespace, spec={"subscribers": [entry]})
    first = await hook.called(1)
    assert set(first.request["related"]["Subscription.messaging.knative.dev/v1"]) == {"s"}
    await until_status(api, namespace, lambda found: ready(found) == "True")

    await api.merge(f"{subscriptions}/s", {"spec": {"subscriber": {"uri": "http://b/"}}})

    def edited(request: dict[str, Any]) -> bool:
        sent = request["related"]["Subscription.messaging.knative.dev/v1"]["s"]
        return bool(sent["spec"] == {"subscriber": {"uri": "http://b/"}})

    await hook.saw(edited, "the edited Subscription")

    body = {"metadata": {"name": "settings"}, "data": {"a": "b"}}
    (await api.create(f"/api/v1/namespaces/{namespace}/configmaps", body)).unwrapped()
    group = "ConfigMap.v1"
    await hook.saw(lambda request: request["related"][group].get("settings", {}).get("data") == {"a": "b"}, "the data")


async def test_of_all_subscriptions_those_are_sent_that_are_about_the_channel(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    wanted = {"apiVersion": "messaging.knative.dev/v1", "resource": "subscriptions"}
    hook.related = [{**wanted, "headrace": {"concerning": "parent"}}]
    subscriptions = f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions"
    uids = {}
    for name, of in (("for-it", "orders"), ("behind-it", "orders"), ("mentioned", "a-front"), ("of-others", "returns")):
        kind = "Channel" if name == "behind-it" else "NatsJetStreamChannel"
        body = {
            "apiVersion": "messaging.knative.dev/v1",
            "kind": "Subscription",
            "metadata": {"name": name},
            "spec": {"channel": {"kind": kind, "name": of}},
        }
        uids[name] = (await api.create(subscriptions, body)).unwrapped()["metadata"]["uid"]
    entry = {"uid": uids["mentioned"], "name": "mentioned", "generation": 1, "subscriberUri": "http://a/"}
    operator()
    await create(api, namespace, spec={"subscribers": [entry]})
    first = await hook.called(1)
    sent = first.request["related"]["Subscription.messaging.knative.dev/v1"]
    assert set(sent) == {"for-it", "behind-it", "mentioned"}

    # One that goes is not sent any more, also when another one of its name is made for something else.
    await api.delete(f"{subscriptions}/for-it")
    await api.create(subscriptions, {**body, "metadata": {"name": "for-it"}})
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"delivery": {"retry": 1}}})

    def without(request: dict[str, Any]) -> bool:
        return set(request["related"]["Subscription.messaging.knative.dev/v1"]) == {"behind-it", "mentioned"}

    await hook.saw(without, "what is left")


async def test_only_an_operator_that_sees_the_whole_cluster_claims_to_know_every_subscription(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.related = [{"apiVersion": "messaging.knative.dev/v1", "resource": "subscriptions"}]
    operator()
    await create(api, namespace)
    narrow = await hook.called(1, name="orders")
    assert narrow.request["headrace"]["complete"] == []

    seen = len(hook.of(name="orders"))
    operator(WATCH_NAMESPACE="", OPERATOR_LEASE="of-the-whole-cluster")
    wide = await hook.called(seen + 1, name="orders")
    assert wide.request["headrace"]["complete"] == ["Subscription.messaging.knative.dev/v1"]
