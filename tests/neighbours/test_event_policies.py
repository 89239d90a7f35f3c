"""EventPolicies as Knative's own controllers leave them: copied down from a Channel, resolved, and Ready or not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.neighbours.test_eventing import MESSAGING, TEMPLATE, ready
from tests.support.functions.functions import Function
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.waiting import until

POLICIES = "/apis/eventing.knative.dev/v1alpha1/namespaces/{namespace}/eventpolicies"
FLAGS = "/api/v1/namespaces/knative-eventing/configmaps/config-features"
GENERIC = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel"}


@pytest.fixture
async def oidc(api: Api, neighbours: object) -> AsyncIterator[None]:
    flag = "authentication-oidc"
    (await api.merge(FLAGS, {"data": {flag: "enabled"}})).unwrapped()
    yield
    (await api.merge(FLAGS, {"data": {flag: "disabled"}})).unwrapped()


def policy(name: str, *senders: dict[str, Any]) -> dict[str, Any]:
    target = {**GENERIC, "name": "guarded"}
    spec = {"to": [{"ref": target}], "from": [*senders]}
    return {
        "apiVersion": "eventing.knative.dev/v1alpha1",
        "kind": "EventPolicy",
        "metadata": {"name": name},
        "spec": spec,
    }


async def made(api: Api, path: str, body: dict[str, Any]) -> None:
    """The webhook reads the flag from a watch of its own, a moment later than we write it."""

    async def is_made() -> bool:
        return (await api.create(path, body)).accepted

    await until(f"{body['metadata']['name']} is made", is_made, 60.0)


def told(channel: dict[str, Any]) -> tuple[str, str, list[str]]:
    status = channel.get("status") or {}
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    one = conditions.get("EventPoliciesReady", {})
    names = [each["name"] for each in status.get("policies", ())]
    return one.get("status", ""), one.get("reason", ""), names


@pytest.mark.usefixtures("oidc", "headrace")
async def test_policies_for_a_generic_channel_are_copied_down_and_count(
    headrace: dict[str, Function], api: Api, namespace: str
) -> None:
    path, ours = MESSAGING.format(namespace=namespace), f"{CHANNELS.format(namespace=namespace)}/guarded"
    policies = POLICIES.format(namespace=namespace)
    body = {**GENERIC, "metadata": {"name": "guarded"}, "spec": {"channelTemplate": TEMPLATE}}
    (await api.create(path, body)).unwrapped()
    for name in ("b", "a"):
        await made(api, policies, policy(name, {"sub": f"system:serviceaccount:{namespace}:{name}*"}))
    found: dict[str, Any] = {}

    async def say(wanted: tuple[str, str, list[str]]) -> None:
        async def is_so() -> bool:
            found.clear()
            answer = await api.get(ours)
            found.update(answer.unwrapped() if answer.accepted else {})
            return told(found) == wanted

        try:
            await until("the channel says so of its policies", is_so, 60.0)
        except AssertionError as late:
            raise AssertionError(f"{late}: {told(found)}") from late

    await say(("True", "", ["a-guarded", "b-guarded"]))
    await ready(api, f"{path}/guarded")

    nobody = {"apiVersion": "v1", "kind": "ServiceAccount", "name": "nobody", "namespace": namespace}
    await made(
        api, policies, policy("c", {"ref": {**nobody, "apiVersion": "sources.knative.dev/v1", "kind": "PingSource"}})
    )
    await say(("False", "EventPoliciesNotReady", ["a-guarded", "b-guarded"]))

    await api.delete(f"{path}/guarded")
    await api.gone(ours)
