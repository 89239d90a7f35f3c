"""Each channel bears the annotation that Knative's Channel Spec wants on instances; its author has the last word."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import FINALIZER, create, read, ready, until_status
from tests.support.functions.functions import Function
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
NAME, WANTED = "messaging.knative.dev/subscribable", {"messaging.knative.dev/subscribable": "v1"}
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


async def annotations(api: Api, namespace: str, name: str = "orders") -> dict[str, str]:
    found: dict[str, str] = (await read(api, namespace, name))["metadata"].get("annotations") or {}
    return found


async def until_edited(api: Api, namespace: str, generation: int) -> None:
    """The operator has passed over the channel as it is by now."""
    await until_status(api, namespace, lambda found: found.get("observedGeneration") == generation)


async def test_a_new_channel_gets_it_with_the_finalizer_in_one_patch_and_no_further_pass(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    hook.annotations = WANTED
    running = operator()
    await create(api, namespace)
    await until_status(api, namespace, lambda found: ready(found) == "True")
    found = (await read(api, namespace))["metadata"]
    assert found["annotations"] == WANTED
    assert found["finalizers"] == [FINALIZER]
    await until("the queue is empty", lambda: running.number("headrace_operator_queue_busy") == 0)
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    assert [one.path for one in relay.of("PATCH", path)] == [path, f"{path}/status"]
    assert len(hook.of()) == 1


async def test_a_channel_of_an_earlier_operator_gets_it_and_keeps_it_over_kubectl_apply(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    manifest = channel("orders", {"delivery": {"retry": 1}})
    manifest["metadata"] |= {"annotations": {LAST_APPLIED: json.dumps(manifest)}, "finalizers": [FINALIZER]}
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, manifest)).unwrapped()
    hook.annotations = WANTED
    operator()
    await until_status(api, namespace, lambda found: ready(found) == "True")
    assert (await annotations(api, namespace)).keys() == {NAME, LAST_APPLIED}

    # What kubectl sends: what differs from what was applied last, and what is applied now.
    again = {"metadata": {"annotations": {LAST_APPLIED: "{}", "team": "a"}}, "spec": {"delivery": {"retry": 2}}}
    edited = (await api.merge(f"{path}/orders", again)).unwrapped()
    await until_edited(api, namespace, edited["metadata"]["generation"])
    assert await annotations(api, namespace) == {NAME: "v1", LAST_APPLIED: "{}", "team": "a"}
    body = {**channel("orders", {"delivery": {"retry": 3}})}
    edited = (await api.apply(f"{path}/orders", body, manager="kubectl", force=True)).unwrapped()
    await until_edited(api, namespace, edited["metadata"]["generation"])
    assert (await annotations(api, namespace))[NAME] == "v1"


async def test_its_author_has_the_last_word(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay
) -> None:
    own: dict[str, Any] = channel("orders", {})
    own["metadata"]["annotations"] = {NAME: "v1beta1"}
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, own)).unwrapped()
    hook.annotations = WANTED
    running = operator()
    await until_status(api, namespace, lambda found: ready(found) == "True")
    assert await annotations(api, namespace) == {NAME: "v1beta1"}

    # Taken off, it stays off, however often channels are looked at, until the spec is edited.
    await api.merge(f"{path}/orders", {"metadata": {"annotations": {NAME: None}}})
    for number in range(3):
        calls = len(hook.of())
        await api.merge(f"{path}/orders", {"metadata": {"labels": {"number": str(number)}}})
        await hook.called(calls + 1)
    await until("the queue is empty", lambda: running.number("headrace_operator_queue_busy") == 0)
    assert await annotations(api, namespace) == {}
    edited = (await api.merge(f"{path}/orders", {"spec": {"delivery": {"retry": 1}}})).unwrapped()
    await until_edited(api, namespace, edited["metadata"]["generation"])
    assert await annotations(api, namespace) == WANTED


async def test_reconcile_asks_for_it(
    operator: Start, api: Api, namespace: str, nats_server: NatsServer, tmp_path: Any
) -> None:
    with Function("reconcile", nats_server.url, tmp_path) as reconcile:
        operator(hook=reconcile.url)
        await create(api, namespace)
        await until_status(api, namespace, lambda found: ready(found) == "True")
        assert await annotations(api, namespace) == WANTED
