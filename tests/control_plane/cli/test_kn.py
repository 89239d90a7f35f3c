"""The kn plugin against a real API server: what it creates is accepted, what it lists is there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.core import names
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.laptop.cli import Ran, run
from tests.support.nats.nats_server import NatsServer


@pytest.fixture
def kn(control_plane: ControlPlane) -> Any:
    async def kn(*arguments: str) -> Ran:
        return await asyncio.to_thread(run, *arguments, "--kubeconfig", str(control_plane.kubeconfig))

    return kn


async def test_a_channel_is_created_listed_and_deleted(kn: Any, api: Api, namespace: str) -> None:
    path = CHANNELS.format(namespace=namespace)
    made = await kn("channel", "create", "orders", "-n", namespace, "--replicas", "3", "--max-age", "24h")
    again = await kn("channel", "create", "orders", "-n", namespace)
    listed = await kn("channel", "list", "-n", namespace)
    asked = await kn("channel", "delete", "orders", "-n", namespace)

    assert made.ok().out == f"channel {namespace}/orders is created\n"
    assert (again.status, "already exists" in again.err) == (1, True)
    assert listed.ok().out.splitlines()[1].split()[:2] == ["orders", "Unknown"]
    body = (await api.get(f"{path}/orders")).unwrapped()
    assert body["spec"]["stream"]["config"]["replicas"] == 3
    assert (asked.status, "0 Subscriptions are of it" in asked.err) == (2, True)
    (await kn("channel", "delete", "orders", "-n", namespace, "--yes")).ok()
    assert (await api.get(f"{path}/orders")).status == 404


async def test_conditions_and_addresses_are_shown(kn: Any, api: Api, namespace: str) -> None:
    (await kn("channel", "create", "orders", "-n", namespace)).ok()
    conditions = [{"type": "Ready", "status": "False", "reason": "Refused", "message": "no"}]
    status = {"status": {"address": {"url": "http://orders"}, "conditions": conditions}}
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders/status", status)

    item = (await kn("channel", "list", "-n", namespace, "-o", "json")).ok().json["items"][0]

    assert (item["ready"], item["reason"], item["url"]) == ("False", "Refused", "http://orders")


async def test_what_nats_refuses_is_in_every_view_of_a_channel(
    kn: Any, api: Api, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whatever else runs on this machine.
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.delenv("NATS_URL", raising=False)
    (await kn("channel", "create", "orders", "-n", namespace)).ok()
    words = "NATS refused to change KN_ORDERS: replicas > 1 not supported"
    refused = {"status": "False", "reason": "StreamUpdateRefused", "message": words}
    conditions = [{"type": "Ready", **refused}, {"type": "StreamReady", **refused}]
    status = {"status": {"observedGeneration": 1, "conditions": conditions}}
    await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders/status", status)

    listed = await kn("channel", "list", "-n", namespace)
    described = await kn("channel", "describe", "orders", "-n", namespace)
    found = await kn("doctor", "-n", namespace)

    assert f"StreamUpdateRefused: {words}" in listed.ok().out
    assert f"StreamReady   False    StreamUpdateRefused   {words}" in described.ok().out
    assert found.status == 1
    assert found.out.count(words) == 1
    assert "not what is in NATS: say where it is with --nats" in found.err


async def test_a_subscription_is_created(kn: Any, api: Api, namespace: str) -> None:
    options = ("--channel", "orders", "--uri", "http://billing/", "--retry", "3", "-n", namespace)
    made = await kn("subscription", "create", "billing", *options)
    again = await kn("subscription", "create", "billing", *options)

    assert made.ok().out == f"Subscription {namespace}/billing is created\n"
    assert (again.status, "already exists" in again.err) == (1, True)
    path = f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions/billing"
    spec = (await api.get(path)).unwrapped()["spec"]
    assert (spec["channel"]["name"], spec["subscriber"], spec["delivery"]) == (
        "orders",
        {"uri": "http://billing/"},
        {"retry": 3},
    )


async def test_a_dry_run_is_judged_by_the_api_server_and_makes_nothing(kn: Any, api: Api, namespace: str) -> None:
    dry = await kn("channel", "create", "orders", "-n", namespace, "--dry-run", "-o", "json")
    listed = await api.get(CHANNELS.format(namespace=namespace))
    made = await kn("channel", "create", "orders", "-n", namespace, "-o", "json")
    again = await kn("channel", "create", "orders", "-n", namespace, "--dry-run")

    assert (dry.ok().json["metadata"]["name"], listed.unwrapped()["items"]) == ("orders", [])
    assert made.ok().json["metadata"]["uid"]
    assert (again.status, "already exists" in again.err) == (1, True)


async def test_what_is_not_there_is_told(kn: Any, namespace: str) -> None:
    gone = await kn("channel", "delete", "nowhere", "-n", namespace, "--yes")
    nothing = await kn("channel", "list", "-n", namespace)

    assert (gone.status, f"there is no channel {namespace}/nowhere" in gone.err) == (1, True)
    assert nothing.ok().err == f"there are no channels in namespace {namespace}\n"


async def test_subscriptions_are_listed(kn: Any, api: Api, namespace: str) -> None:
    body = {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": "billing", "namespace": namespace},
        "spec": {
            "channel": {
                "apiVersion": "messaging.knative.dev/v1alpha1",
                "kind": "NatsJetStreamChannel",
                "name": "orders",
            },
            "subscriber": {"uri": "http://billing"},
        },
    }
    (await api.create(f"/apis/messaging.knative.dev/v1/namespaces/{namespace}/subscriptions", body)).unwrapped()

    shown = (await kn("subscription", "list", "-n", namespace, "--channel", "orders")).ok().out.splitlines()

    assert shown[1].split()[:2] == ["billing", "NatsJetStreamChannel/orders"]
    assert "http://billing" in shown[1]


def test_a_file_that_is_no_kubeconfig_is_told(tmp_path: Path) -> None:
    ran = run("channel", "list", "--kubeconfig", str(tmp_path / "nowhere"))

    assert (ran.status, "can't be read: No such file or directory" in ran.err) == (2, True)


@pytest.mark.parametrize(("template", "deliver"), [({"consumerType": "Pull"}, False), ({}, True)])
async def test_a_channels_object_says_which_consumers_it_is_handed_back_with(
    kn: Any,
    api: Api,
    namespace: str,
    nats_server: NatsServer,
    template: dict[str, str],
    deliver: bool,
) -> None:
    connection = Client(NatsSettings(url=nats_server.url))
    body = channel(name="orders", namespace=namespace, consumerConfigTemplate=template)
    del body["metadata"]["uid"], body["metadata"]["generation"]
    made = (await api.create(CHANNELS.format(namespace=namespace), body)).unwrapped()
    try:
        hook = Hook(connection)
        await hook.sync({**made, "spec": {**made["spec"], "subscribers": [entry("aaaa-1")]}})

        (await kn("hand-back", f"{namespace}/orders", "--yes", "--nats", nats_server.url)).ok()

        consumer = await hook.consumer(names.stream(namespace, "orders"), "KN_SUB_AAAA1")
    finally:
        await connection.close()
    assert consumer is not None
    assert bool(consumer.get("deliver_subject")) is deliver
