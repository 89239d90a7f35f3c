"""Many channels of one namespace whose own `reconcile` never answers: those of other namespaces keep their pace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.control_plane.conftest import clear
from tests.support.functions.children import IMAGE
from tests.support.http.raw_server import Peer, serving
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.tenants import INSTALLATION, Accounts, Tenant
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
CROWD, WORKERS = 60, 16


@pytest.fixture
async def neighbour(api: Api, namespace: str) -> AsyncIterator[str]:
    """Another namespace."""
    name = f"{namespace}-neighbour"
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    (await api.create("/api/v1/namespaces", body)).unwrapped()
    yield name
    await clear(api, name)


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.gone()


@pytest.mark.usefixtures("pods")
async def test_a_crowd_that_is_silent_does_not_hold_up_others(
    operator: Start, api: Api, namespace: str, neighbour: str, server: Accounts, tmp_path: Path
) -> None:
    url, theirs = server.url_of(INSTALLATION), CHANNELS.format(namespace=namespace)
    spec = {"connection": {"secretRef": {"name": "orders-nats"}}}
    made = [api.create(theirs, channel(f"silent-{number}", spec)) for number in range(CROWD)]
    for answer in await asyncio.gather(*made):
        answer.unwrapped()
    tenant = Tenant(server, tmp_path)
    with tenant.asking(url, HEADRACE_IMAGE=IMAGE) as reconcile:
        async with serving(silent) as nobody:
            (tmp_path / "reached").write_text(nobody.url)
            operator(hook=reconcile.url, NATS_URL=url, OPERATOR_WORKERS=str(WORKERS), WATCH_NAMESPACE="")
            await until("the silent ones have their share", lambda: nobody.open >= WORKERS // 2, 60.0)
            (await api.create(CHANNELS.format(namespace=neighbour), channel("orders", {}))).unwrapped()
            await until_status(api, neighbour, lambda found: ready(found) == "True")
            # It has not waited until each of them had its turn.
            assert nobody.connections < CROWD
