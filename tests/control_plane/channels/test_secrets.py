"""Nothing secret is in any log, nor in what `kubectl get -o yaml` or NATS shows, while all of Knative's security is on.

Tokens of deliveries are in `test_sender_tokens.py`, which looks at the same places.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.control_plane.channels.test_sender_tokens import everything
from tests.control_plane.kube.test_authz_conformance import Addressable
from tests.control_plane.kube.test_authz_conformance import channel as channel
from tests.support.functions.functions import TOKEN
from tests.support.http.sending import BINARY, send
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import Api
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

KINDS = (
    "/apis/apps/v1/namespaces/{}/deployments",
    "/api/v1/namespaces/{}/services",
    "/api/v1/namespaces/{}/configmaps",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "/apis/eventing.knative.dev/v1alpha1/namespaces/{}/eventpolicies",
    "/apis/eventing.knative.dev/v1beta3/namespaces/{}/eventtypes",
    "/apis/messaging.knative.dev/v1/namespaces/{}/subscriptions",
)


def logs(directory: Path) -> list[str]:
    """Those of the operator and of the functions."""
    found = [file.read_text(errors="replace") for file in directory.rglob("*.log")]
    assert len(found) >= 3
    return found


async def test_nothing_secret_is_in_any_log_nor_in_any_object(
    channel: Addressable, api: Api, namespace: str, nats_server: NatsServer, tmp_path: Path
) -> None:
    features = f"/api/v1/namespaces/{SYSTEM}/configmaps/config-features"
    (await api.merge(features, {"data": {"eventtype-auto-create": "enabled"}})).unwrapped()
    await channel.police("till")
    await channel.answers("till", 202)
    await channel.answers("thief", 403)
    good = await channel.token("till")
    broken = f"{good[:-9]}AAAAAAAAA"
    for shown in (f"Bearer {broken}", f"Basic {good}", f"Bearer {good} {good}"):
        headers = {**BINARY, "authorization": shown}
        assert (await send(f"{channel.url}/{namespace}/orders", b"{}", headers)).status == 401

    async def is_made() -> bool:
        await channel.send("till", type="order.created")
        return bool((await api.get(KINDS[5].format(namespace))).unwrapped()["items"])

    await until("there are EventTypes", is_made, 60.0)
    objects = [
        json.dumps((await api.get(kind.format(place))).unwrapped()) for kind in KINDS for place in (namespace, SYSTEM)
    ]
    objects.append(await everything(api, namespace, nats_server.url))
    told = "\n".join((*objects, *logs(tmp_path)))
    for word in ("headrace-security", '"refused"', "EventTypes are made", "et-orders-", "order.created"):
        assert word in told, "we look where it would be"
    secrets = {TOKEN, *(part for token in (broken, *channel.tokens.values()) for part in token.split(".")[1:])}
    assert [secret[:12] for secret in secrets if secret in told] == []
