"""Knative's flag `authentication-oidc`, from the edit of the ConfigMap to the answers of `receive`, and back.

Real are the API server, which issues the tokens and publishes the keys, nats-server, the operator, `reconcile` and a
`receive`, which hears of the flag by the operator's push alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from headrace.core import caller_token
from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.control_plane.channels.test_security import features as features
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, send
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]


async def token(api: Api, namespace: str, audience: str) -> str:
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [audience]}}
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/till/token"
    return str((await api.create(path, body)).unwrapped()["status"]["token"])


async def test_natsjetstreamchannel_populates_its_status_address_audience_correctly(
    operator: Start, api: Api, namespace: str, features: str, nats_server: NatsServer, tmp_path: Path, pods: None
) -> None:
    """And asks for tokens at the same time; without the flag neither."""
    mount = tmp_path / "mount"
    mount.mkdir()
    secured = {
        "HEADRACE_SECURITY_DIR": str(mount),
        "HEADRACE_SECURITY_PLACE": namespace,
        "HEADRACE_DELIVERY_KEY": caller_token.delivery_key(TOKEN.encode(), namespace),
    }
    made = {"HEADRACE_IMAGE": "x@sha256:0", "HEADRACE_RUNTIME": "deployment", "SYSTEM_NAMESPACE": namespace}
    expected = f"messaging.knative.dev/natsjetstreamchannel/{namespace}/orders"
    with (
        Function("reconcile", nats_server.url, tmp_path, **made) as reconcile,
        Function("receive", nats_server.url, tmp_path, **secured) as receive,
    ):
        account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "till"}}
        (await api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)).unwrapped()
        running = operator(hook=reconcile.url)
        await create(api, namespace)
        await until_status(api, namespace, lambda found: ready(found) == "True" and audience(found) is None)
        good = await token(api, namespace, expected)

        async def answers(status: int, shown: str = "") -> None:
            async def so() -> bool:
                headers = {**BINARY, **({"authorization": f"Bearer {shown}"} if shown else {})}
                return (await send(f"{receive.url}/{namespace}/orders", b"{}", headers)).status == status

            await until(f"the answer is {status}", so, 30)

        await answers(202)
        edited = time.monotonic()
        (await api.merge(features, {"data": {"authentication-oidc": "enabled"}})).unwrapped()
        await answers(401)
        await until_status(api, namespace, lambda found: audience(found) == expected)
        await answers(202, good)
        # 5 s are promised; on a machine that others use, too, it may take longer.
        assert time.monotonic() < edited + 15
        await answers(401, await token(api, namespace, "https://kubernetes.default.svc"))

        (await api.merge(features, {"data": {"authentication-oidc": "disabled"}})).unwrapped()
        await until_status(api, namespace, lambda found: audience(found) is None)
        await answers(202)
        assert not any(part in running.log + receive.log + reconcile.log for part in good.split("."))


def audience(status: dict[str, Any]) -> str | None:
    found: str | None = (status.get("address") or {}).get("audience")
    return found
