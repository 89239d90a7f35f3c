"""Knative's `AddressableOIDCConformance`, case by case, with tokens of a real API server.

The names are those of Knative's cases. Its keys are fetched as the operator fetches them, by a service account without
any right of ours, and reach a real `receive` in a mounted security document.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import pytest

from headrace.core.security.issuer import Issuer
from headrace_operator.kube import access, issuer_keys
from headrace_operator.kube.access import KubeAccess
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.issuer_keys import IssuerKeys
from tests.support.functions.functions import Function
from tests.support.http.authorities import as_openssl_makes_it
from tests.support.http.sending import BINARY, Reply, send
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.kube_api import Api
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

WANTED = (issuer_keys.API_SERVER, "")


@dataclass
class Addressable:
    """A channel that asks for tokens, and the API server that gives them."""

    api: Api
    keys: IssuerKeys
    mount: Mounted
    function: Function
    channel: Channel
    nats_url: str

    async def token(self, audience: str = "", account: str = "till") -> str:
        """A token of a service account, by TokenRequest; for the channel, unless told otherwise."""
        spec = {"audiences": [audience or self.audience], "expirationSeconds": 600}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        path = f"/api/v1/namespaces/{self.channel.namespace}/serviceaccounts/{account}/token"
        return str((await self.api.create(path, body)).unwrapped()["status"]["token"])

    @property
    def audience(self) -> str:
        return f"messaging.knative.dev/natsjetstreamchannel/{self.channel.namespace}/{self.channel.name}"

    async def send(self, token: str, event_id: str = "1") -> Reply:
        headers = {**BINARY, "ce-id": event_id, "authorization": f"Bearer {token}"}
        return await send(self.function.url + self.channel.path, b"{}", headers)

    async def answers(self, token: str, status: int) -> None:
        """Wait for it: the mount is read each second."""

        async def so() -> bool:
            return (await self.send(token, "probe")).status == status

        await until(f"the answer is {status}", so, 30)

    async def look(self) -> None:
        """As the operator does each ten seconds."""
        await self.keys.look(WANTED)
        assert isinstance(self.keys.current, Issuer)
        assert self.keys.problem == ""
        self.mount.trust(self.keys.current)

    async def stored(self) -> list[str]:
        async with Nats(self.nats_url) as nats:
            return [one.headers["ce-id"] for one in await nats.stored(self.channel.stream)]


@contextmanager
def receiving(nats_server: NatsServer, directory: Path) -> Iterator[tuple[Function, Mounted]]:
    mount = Mounted(directory / "security")
    settings = {"HEADRACE_SECURITY_DIR": str(mount.directory)}
    with Function("receive", nats_server.url, directory, **settings) as function:
        yield function, mount


@asynccontextmanager
async def fetching(control_plane: ControlPlane, api: Api, namespace: str) -> AsyncIterator[IssuerKeys]:
    """With the rights that Kubernetes gives every service account, and no others."""
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    for name in ("operator", "till"):
        (
            await api.create(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        ).unwrapped()
    body: dict[str, Any] = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = (await api.create(f"{accounts}/operator/token", body)).unwrapped()["status"]["token"]
    admin = access.from_kubeconfig(control_plane.kubeconfig)
    async with KubeApi(lambda: KubeAccess(admin.url, admin.context, lambda: token)) as kube:
        yield IssuerKeys(kube, lambda: None)


@pytest.fixture
async def channel(
    control_plane: ControlPlane, api: Api, namespace: str, nats_server: NatsServer, tmp_path: Path
) -> AsyncIterator[Addressable]:
    async with Nats(nats_server.url) as nats:
        orders = await nats.make_channel(Channel(namespace, "orders"))
    with receiving(nats_server, tmp_path) as (function, mount):
        async with fetching(control_plane, api, namespace) as keys:
            found = Addressable(api, keys, mount, function, orders, nats_server.url)
            await found.look()
            good = await found.token()
            await found.answers("", 401)
            assert (await found.send(good, "warm")).status == 202
            yield found


async def test_natsjetstreamchannel_reject_event_for_wrong_oidc_audience(channel: Addressable) -> None:
    for audience in ("invalid-audience", f"{channel.audience}s", "https://kubernetes.default.svc"):
        assert (await channel.send(await channel.token(audience))).status == 401
    assert "1" not in await channel.stored()


async def test_natsjetstreamchannel_reject_event_with_corrupted_oidc_token_signature(channel: Addressable) -> None:
    head, claims, signature = (await channel.token()).split(".")
    corrupted = ("A" if signature[0] != "A" else "B") + signature[1:]
    assert (await channel.send(f"{head}.{claims}.{corrupted}")).status == 401
    assert "1" not in await channel.stored()


async def test_natsjetstreamchannel_reject_event_with_expired_oidc_token(
    channel: Addressable, control_plane: ControlPlane
) -> None:
    """The API server gives no token for less than ten minutes: its own key signs one that has ended."""
    good = await channel.token()
    claims = jwt.decode(good, options={"verify_signature": False})
    header = jwt.get_unverified_header(good)
    key = control_plane.issuer_keys[0].read_bytes()

    def ending(seconds: float) -> str:
        return jwt.encode({**claims, "exp": int(time.time() + seconds)}, key, header["alg"], {"kid": header["kid"]})

    reply = await channel.send(ending(-1))
    assert (reply.status, "has expired" in reply.detail) == (401, True)
    assert "1" not in await channel.stored()
    assert (await channel.send(ending(60))).status == 202


async def test_natsjetstreamchannel_handles_event_with_valid_oidc_token(channel: Addressable) -> None:
    assert (await channel.send(await channel.token())).status == 202
    assert "1" in await channel.stored()


async def test_an_api_server_that_signs_by_a_new_key_at_once_costs_no_event(
    channel: Addressable, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Nobody has read the key by which it signs from now on: senders are told to try again, and none gives up."""
    old = await channel.token()
    answers: list[int] = []
    stop = asyncio.Event()
    senders = [asyncio.create_task(_load(channel, old, answers, stop))]
    new_key = tmp_path / "issuer.key"
    new_key.write_bytes(as_openssl_makes_it().issue("issuer").key_pem)
    control_plane.issuer_keys.insert(0, new_key)
    # Not on a thread: the API server would end with it.
    control_plane.restart_api_server()
    # Our client's loop has stood still, and learns now that its connections have ended.
    await asyncio.sleep(0.2)
    new = await channel.token()
    assert jwt.get_unverified_header(new)["kid"] != jwt.get_unverified_header(old)["kid"]
    assert (await channel.send(new)).status == 503
    senders.append(asyncio.create_task(_load(channel, new, answers, stop)))
    await asyncio.sleep(0.2)
    await channel.look()
    await channel.answers(new, 202)
    assert (await channel.send(old)).status == 202
    stop.set()
    await asyncio.gather(*senders)
    assert {202, 503} == set(answers)


async def _load(channel: Addressable, token: str, answers: list[int], stop: asyncio.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        answers.append((await channel.send(token, f"load-{number}")).status)
        await asyncio.sleep(0.01)
