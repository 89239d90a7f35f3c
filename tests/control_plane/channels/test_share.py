"""A tenant whose Subscriptions would fill the system namespace: real operator, `reconcile` and API server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import until_status
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import Function
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.mounts import Mount
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.subscription_controller import SUBSCRIPTIONS
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
EACH = 4


async def make(api: Api, namespace: str, name: str) -> None:
    """A channel with its Subscriptions, and the entries that Knative's controller would write."""
    entries = []
    for number in range(EACH):
        about = {"apiVersion": "messaging.knative.dev/v1", "kind": "Subscription"}
        ref = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": name}
        spec = {"channel": ref, "subscriber": {"uri": "http://x.example/"}}
        body = {**about, "metadata": {"name": f"{name}-{number}"}, "spec": spec}
        made = (await api.create(SUBSCRIPTIONS.format(namespace=namespace), body)).unwrapped()["metadata"]
        entry = {"uid": made["uid"], "name": made["name"], "generation": made.get("generation", 1)}
        entries.append({**entry, "subscriberUri": "http://x.example/"})
    (await api.create(CHANNELS.format(namespace=namespace), channel(name, {"subscribers": entries}))).unwrapped()


async def forwards(api: Api, system: str) -> dict[str, str]:
    """The Deployments of `forward`, and whose each is; no name for a shared one."""
    found = (await api.get(f"/apis/apps/v1/namespaces/{system}/deployments")).unwrapped()["items"]
    metadata = [one["metadata"] for one in found if one["metadata"]["name"].startswith("forward-")]
    return {one["name"]: one.get("annotations", {}).get("headrace.dev/channel", "") for one in metadata}


def beyond(status: dict[str, Any]) -> str:
    return next((one["message"] for one in status.get("conditions") or () if one["type"] == "WithinBounds"), "")


@pytest.mark.usefixtures("pods")
async def test_a_namespaces_functions_stay_within_its_bound_and_all_its_subscribers_are_served(
    operator: Start, api: Api, namespace: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    system = f"{namespace}-system"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": system}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    mount = Mount(tmp_path / "defaults", tenants=f"- {{namespaces: [{namespace}], functions: {{most: 3}}}}")
    settings = {"HEADRACE_IMAGE": IMAGE, "HEADRACE_RUNTIME": "deployment", "SYSTEM_NAMESPACE": system}
    with Function("reconcile", nats_server.url, tmp_path, **settings, HEADRACE_DEFAULTS_DIR=mount.path) as reconcile:
        # Of all namespaces, or it would see nothing of the system's; no other one has channels now.
        operator(hook=reconcile.url, WATCH_NAMESPACE="")
        await asyncio.gather(*(make(api, namespace, name) for name in ("orders", "bills")))

        for name in ("orders", "bills"):
            await until_status(api, namespace, lambda found: "may have 3 functions" in beyond(found), name)
            await until_status(api, namespace, lambda found: len(found.get("consumers") or ()) == EACH, name)

        async def within() -> bool:
            found = await forwards(api, system)
            return (sorted(map(bool, found.values()))) == [False, True, True, True]

        await until("three of their own are left, and one that they share", within, 60.0)
        shared = next(name for name, whose in (await forwards(api, system)).items() if not whose)

        async def all_are_served() -> bool:
            folder = CHANNELS.format(namespace=namespace)
            statuses = [(await api.get(f"{folder}/{name}")).unwrapped()["status"] for name in ("orders", "bills")]
            places = [one.get("forward", "") for found in statuses for one in found["consumers"]]
            in_common = [place for place in places if f"//{shared}." in place]
            return (len(places), places.count(""), len(in_common)) == (2 * EACH, 0, 2 * EACH - 3)

        await until("each has a forward, and the youngest share one", all_are_served, 60.0)

        mount.swap(tenants=f"- {{namespaces: [{namespace}], functions: {{most: 50}}}}")
        for name in ("orders", "bills"):
            edit = {"spec": {"delivery": {"retry": 7}}}
            (await api.merge(f"{CHANNELS.format(namespace=namespace)}/{name}", edit)).unwrapped()
            await until_status(api, namespace, lambda found: beyond(found) == "", name)

        async def all_have_one() -> bool:
            return len([whose for whose in (await forwards(api, system)).values() if whose]) == 2 * EACH

        await until("everybody has a forward of its own", all_have_one, 60.0)
        for name in ("orders", "bills"):
            place = f"{CHANNELS.format(namespace=namespace)}/{name}"
            await api.delete(place)
            await api.gone(place, 60.0)
