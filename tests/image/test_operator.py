"""The operator in a container of the image, with the rights that it is installed with, at a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.conftest import define
from tests.control_plane.kube.test_installed_operator import LEASE, installed, mounted, own_token
from tests.image.conftest import Figures
from tests.support.kube.control_plane import ControlPlane
from tests.support.kube.install import INFRA, in_file
from tests.support.kube.kube_api import CHANNELS, connect
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.programs.built_image import RECONCILE, Pods, pod_of
from tests.support.programs.built_image import installed as object_of
from tests.support.programs.containers import probe
from tests.support.waiting import until


@pytest.fixture(scope="module")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    control_plane = ControlPlane(tmp_path_factory.mktemp("control-plane")).start()
    try:
        asyncio.run(define(control_plane))
        yield control_plane
    finally:
        control_plane.stop()


@pytest.mark.parametrize("memory", [128, 256])
async def test_it_makes_the_stream_of_a_channel_and_takes_it_away_with_the_rights_that_it_has(
    pods: Pods, api_server: ControlPlane, image_nats: NatsServer, figures: Figures, memory: int
) -> None:
    session, api = connect(api_server)
    async with session, Nats(image_nats.url) as nats:
        pod, account = pod_of(await installed(api)), pods.directory / "account"
        mounted(account, await own_token(api), api_server.ca)
        host, port = api_server.url.removeprefix("https://").split(":")
        with pods.container(pod_of(object_of(RECONCILE["knative"]))) as reconcile:
            reconcile.until(f"{reconcile.url}/health/readiness")
            settings = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port, "HOOK_URL": reconcile.url}
            with pods.container(pod, memory=memory, account=account, **settings) as operator:
                operator.until(f"{operator.url}/readyz")
                (await api.create(CHANNELS.format(namespace="default"), channel(f"orders-{memory}"))).unwrapped()
                await until("its stream is there", lambda: streams(nats, f"KN_DEFAULT__ORDERS_{memory}"), 90.0)
                await api.delete(f"{CHANNELS.format(namespace='default')}/orders-{memory}")
                await until("the stream is gone", lambda: streams(nats), 90.0)
                figures.add("operator", memory, operator)
                operator.terminate()
                assert operator.written() == []
                assert "Traceback" not in operator.log
        await api.delete(LEASE)


async def streams(nats: Nats, *names: str) -> bool:
    """Are these the channels' streams?"""
    found = (await nats.call("STREAM.NAMES"))["streams"] or []
    return [name for name in found if not name.endswith("_aside")] == list(names)


async def test_without_an_api_server_it_lives_is_not_ready_and_says_whom_it_asks(
    pods: Pods, api_server: ControlPlane
) -> None:
    (body,) = [one for one in in_file(INFRA / "base" / "operator.yaml") if one["kind"] == "Deployment"]
    account = pods.directory / "account"
    mounted(account, "nobodys", api_server.ca)
    settings = {
        "KUBERNETES_SERVICE_HOST": "127.0.0.1",
        "KUBERNETES_SERVICE_PORT": "1",
        "HOOK_URL": "http://127.0.0.1:1",
    }
    with pods.container(pod_of(body), account=account, **settings) as operator:
        operator.until(f"{operator.url}/healthz")
        assert probe(f"{operator.url}/readyz") == 503
        await until("it says whom it asks", lambda: "127.0.0.1:1" in operator.log, 60.0)
