"""`reconcile` with other settings: channels follow within seconds, though nothing of them has changed."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import ready, until_status
from tests.support.functions.functions import TOKEN, Function
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.mounts import Mount
from tests.support.kube.operator_process import OperatorProcess
from tests.support.kube.wanted_children import deployment, knative, path, until_there
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
OLD, NEW = "registry.example/headrace:1", "registry.example/headrace:2"
# What the documents promise, once the new one is up.
WITHIN = 10.0
UP = {"replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1}
HALF = {"replicas": 2, "updatedReplicas": 1, "availableReplicas": 2, "readyReplicas": 2}


@pytest.fixture
def reconcile(nats_server: NatsServer, tmp_path: Path) -> Iterator[Callable[..., Function]]:
    """Start a process of `reconcile`, with a port of its own or that of another one that has ended."""
    begun: list[Function] = []

    def start(image: str, *, port: int = 0, **settings: str) -> Function:
        given = {"HEADRACE_IMAGE": image, "HEADRACE_RUNTIME": "deployment", **settings}
        given |= {"PORT": str(port)} if port else {}
        function = Function("reconcile", nats_server.url, tmp_path, **given)
        function.port = port or function.port
        begun.append(function.start())
        return function

    yield start
    for one in begun:
        one.stop()


async def served(api: Api, namespace: str, name: str = "orders") -> str:
    """A channel that is Ready, and whose `receive` is of the old image; the path of that."""
    body: dict[str, Any] = channel(name)
    body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), "headrace.dev/runtime": "deployment"}
    (await api.create(CHANNELS.format(namespace=namespace), body)).unwrapped()
    await until_status(api, namespace, lambda found: ready(found) is not None, name)
    where = path("deployment", namespace, "headrace-receive-plain")
    await until_there(api, where, lambda found: image_of(found) == OLD)
    return where


def image_of(found: dict[str, Any]) -> str:
    return str(found["spec"]["template"]["spec"]["containers"][0]["image"])


async def follows(api: Api, where: str, began: float) -> None:
    await until_there(api, where, lambda found: image_of(found) == NEW)
    took = time.monotonic() - began
    assert took < WITHIN, f"the new image is there after {took:.1f} s"


async def workload(api: Api, namespace: str, image: str) -> str:
    """The Deployment of `reconcile`, all of it up."""
    folder = path("deployment", namespace, "").rstrip("/")
    made = (await api.create(folder, deployment("headrace-reconcile", image))).unwrapped()
    where = f"{folder}/headrace-reconcile"
    status = {"observedGeneration": made["metadata"]["generation"], **UP}
    (await api.merge(f"{where}/status", {"status": status})).unwrapped()
    return where


async def rolled_out(api: Api, where: str, image: str) -> None:
    """As `kubectl set image`; the rest is what the Deployment controller writes when the old pod is gone."""
    change = {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}
    changed = (await api.json_patch(where, [change])).unwrapped()
    seen = {"observedGeneration": changed["metadata"]["generation"]}
    (await api.merge(f"{where}/status", {"status": {**seen, **HALF}})).unwrapped()
    (await api.merge(f"{where}/status", {"status": {**seen, **UP}})).unwrapped()


def of(namespace: str) -> dict[str, str]:
    return {"HOOK_WORKLOAD": f"{namespace}/headrace-reconcile"}


async def test_functions_follow_a_new_image_of_the_deployment_of_reconcile(
    operator: Start, api: Api, namespace: str, reconcile: Callable[..., Function]
) -> None:
    known = await workload(api, namespace, OLD)
    before = reconcile(OLD, SYSTEM_NAMESPACE=namespace)
    operator(hook=before.url, **of(namespace))
    where = await served(api, namespace)
    await asyncio.to_thread(before.stop)
    await asyncio.to_thread(reconcile, NEW, port=before.port, SYSTEM_NAMESPACE=namespace)
    began = time.monotonic()
    await rolled_out(api, known, NEW)
    await follows(api, where, began)


async def test_functions_follow_a_new_revision_of_the_knative_service_of_reconcile(
    operator: Start, api: Api, namespace: str, reconcile: Callable[..., Function]
) -> None:
    folder = path("knative", namespace, "").rstrip("/")
    service = knative("headrace-reconcile")
    del service["spec"]["template"]
    (await api.create(folder, service)).unwrapped()
    status = f"{folder}/headrace-reconcile/status"
    (await api.merge(status, {"status": {"latestReadyRevisionName": "headrace-reconcile-00001"}})).unwrapped()
    before = reconcile(OLD, SYSTEM_NAMESPACE=namespace)
    operator(hook=before.url, **of(namespace))
    where = await served(api, namespace)
    await asyncio.to_thread(before.stop)
    await asyncio.to_thread(reconcile, NEW, port=before.port, SYSTEM_NAMESPACE=namespace)
    began = time.monotonic()
    (await api.merge(status, {"status": {"latestReadyRevisionName": "headrace-reconcile-00002"}})).unwrapped()
    await follows(api, where, began)


@asynccontextmanager
async def by_turns(*functions: Function) -> Any:
    """One URL, behind which now the one and now the other answers."""
    turns = itertools.cycle(functions)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def answer(request: web.Request) -> web.Response:
            headers = {"Authorization": f"Bearer {TOKEN}"}
            url = next(turns).url + request.path
            async with session.post(url, data=await request.read(), headers=headers) as found:
                return web.Response(status=found.status, body=await found.read(), content_type="application/json")

        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/{path:.*}", answer)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"


async def test_an_old_process_that_still_answers_neither_takes_functions_back_nor_has_the_last_word(
    operator: Start, api: Api, namespace: str, reconcile: Callable[..., Function], relay: ApiRelay
) -> None:
    before = reconcile(OLD, SYSTEM_NAMESPACE=namespace)
    after = await asyncio.to_thread(reconcile, NEW, SYSTEM_NAMESPACE=namespace)
    folder = path("deployment", namespace, "").rstrip("/")
    images: list[str] = []

    async def look() -> None:
        async for found in api.changes(folder, "headrace-receive-plain"):
            images.append(image_of(found))

    looking = asyncio.create_task(look())
    try:
        async with by_turns(before, after) as url:
            running = operator(hook=url)
            channels = CHANNELS.format(namespace=namespace)
            for name in ("one", "two", "three"):
                (await api.create(channels, channel(name))).unwrapped()
            await until("the new image is there", lambda: NEW in images)
            # Each edit is a pass, and each pass may ask the old one.
            for number in range(1, 9):
                for name in ("one", "two", "three"):
                    (await api.merge(f"{channels}/{name}", {"spec": {"delivery": {"retry": number}}})).unwrapped()
                await asyncio.sleep(0.3)
            quiet = lambda: running.number("headrace_operator_channels_failing") == 0  # noqa: E731  # read twice
            await until("each channel has had a pass that counts", quiet)
    finally:
        looking.cancel()
        await asyncio.wait([looking])
    first = images.index(NEW)
    assert set(images[first:]) == {NEW}, images
    assert relay.of("PATCH", "/deployments/headrace-receive-plain") != []
    told = (await api.get(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")).unwrapped()["items"]
    assert [one["note"] for one in told if one["reason"] == "ReconcileFailed"] == []


async def test_functions_follow_an_edit_of_the_defaults_and_of_the_shared_token(
    operator: Start,
    api: Api,
    namespace: str,
    nats_server: NatsServer,
    reconcile: Callable[..., Function],
    tmp_path: Path,
) -> None:
    defaults = "clusterDefault: {spec: {delivery: {retry: RETRY}}}"
    key = "jetstream-dispatcher-config"
    mount = Mount(tmp_path / "config" / "defaults", **{key: defaults.replace("RETRY", "1")})
    token = Mount(tmp_path / "token", token="first")
    settings = {"HEADRACE_DEFAULTS_DIR": mount.path, "HEADRACE_TOKEN": "", "HEADRACE_TOKEN_FILE": f"{token.path}/token"}
    function = reconcile(OLD, SYSTEM_NAMESPACE=namespace, **settings)
    operator(hook=function.url, NATS_CONFIG_DIR=str(tmp_path / "config"), **settings)
    await served(api, namespace)
    subscribers = [{"uid": "5d0a", "name": "billing", "generation": 1, "subscriberUri": "http://billing/"}]
    (
        await api.merge(f"{CHANNELS.format(namespace=namespace)}/orders", {"spec": {"subscribers": subscribers}})
    ).unwrapped()
    folder = path("deployment", namespace, "").rstrip("/")

    async def forward() -> dict[str, Any]:
        found = (await api.get(folder)).unwrapped()["items"]
        return next((one for one in found if one["metadata"]["name"].startswith("forward-")), {})

    async def digest() -> str:
        found = await forward()
        containers = found["spec"]["template"]["spec"]["containers"] if found else [{"env": []}]
        env = {one["name"]: one["value"] for one in containers[0]["env"]}
        return str(env.get("HEADRACE_CALLER_DIGEST", ""))

    async def told() -> bool:
        return bool(await digest())

    await until("forward is there", told)
    known = await digest()
    began = time.monotonic()
    token.swap(token="second")

    async def follows_token() -> bool:
        return await digest() != known

    await until("forward knows its callers by the new token", follows_token)
    assert time.monotonic() - began < WITHIN

    async def retries(wanted: int) -> bool:
        async with Nats(nats_server.url) as nats:
            names = (await nats.call("STREAM.NAMES"))["streams"]
            stream = next(name for name in names if not name.endswith("_aside"))
            (found,) = (await nats.call(f"CONSUMER.LIST.{stream}"))["consumers"]
            return f'"retry":{wanted}' in str(found["config"]["metadata"]).replace(" ", "")

    assert await retries(1)
    began = time.monotonic()
    mount.swap(**{key: defaults.replace("RETRY", "7")})
    await until("the consumer has the new default", lambda: retries(7))
    assert time.monotonic() - began < WITHIN


async def test_another_reconcile_is_asked_anew_what_it_wants_to_see(
    operator: Start, api: Api, namespace: str, hook: Hook
) -> None:
    hook.sync = lambda _: {"headrace": {"installation": {"digest": "old", "since": 1.0}}}
    operator()
    channels = CHANNELS.format(namespace=namespace)
    (await api.create(channels, channel("orders"))).unwrapped()
    await until_status(api, namespace, lambda found: ready(found) == "True")

    hook.sync = lambda _: {"headrace": {"installation": {"digest": "new", "since": 2.0}}}
    hook.annotations = {"example.com/wanted": "by the new one"}
    # The pass over any channel tells.
    (await api.create(channels, channel("returns"))).unwrapped()

    async def is_annotated() -> bool:
        found = (await api.get(f"{channels}/orders")).unwrapped()
        return "example.com/wanted" in (found["metadata"].get("annotations") or {})

    await until("the channel has what the new one wants it to have", is_annotated)
