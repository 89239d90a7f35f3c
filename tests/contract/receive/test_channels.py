"""Which channel a request to `receive` is for: by Host, behind Knative's gateway by its original, or by path."""

from __future__ import annotations

import pytest

from tests.support.http.sending import BINARY, Ask
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/", {"host": "{label}.demo.svc.cluster.local"}, id="by the host of its Service"),
        pytest.param("/", {"host": "{label}.demo.svc.example.org:8080"}, id="by host with a port and any domain"),
        pytest.param("/", {"host": "{label}.demo"}, id="by the short host"),
        pytest.param("/", {"host": "{label}.DEMO.SVC.Cluster.Local."}, id="by host, whatever its case, and a last dot"),
        pytest.param(
            "/",
            {"host": "receive.knative-eventing.svc.cluster.local", "k-original-host": "{label}.demo.svc.cluster.local"},
            id="by K-Original-Host, behind Knative's gateway",
        ),
        pytest.param(
            "/",
            {"host": "10.0.0.1", "forwarded": 'for=192.0.2.1;Host="{label}.demo.svc.cluster.local";proto=http'},
            id="by the host in Forwarded",
        ),
        pytest.param("/demo/{name}", {}, id="by path"),
        pytest.param("/demo/{name}/", {}, id="by path with a last slash"),
        pytest.param("/demo/{name}", {"host": "receive.knative-eventing.svc.cluster.local"}, id="by path on any host"),
    ],
)
async def test_a_channel_is_addressed(
    ask: Ask, nats: Nats, orders: Channel, path: str, headers: dict[str, str]
) -> None:
    words = {"label": f"{orders.name}-kn-jsm-channel", "name": orders.name}
    given = {name: value.format(**words) for name, value in headers.items()}
    assert (await ask(path.format(**words), headers={**BINARY, **given})).status == 202
    assert len(await nats.stored(orders.stream)) == 1


async def test_a_host_names_the_channel_so_a_path_beside_it_is_refused(ask: Ask, orders: Channel) -> None:
    reply = await ask("/demo/other", headers={**BINARY, "host": orders.host})
    assert reply.status == 400
    assert "'/demo/other'" in reply.detail


@pytest.mark.parametrize("path", ["/demo", "/demo/a/b", "//orders", "/Demo/orders", "/demo/or%20ders"])
async def test_a_path_that_names_no_channel_is_refused(ask: Ask, path: str) -> None:
    reply = await ask(path)
    assert reply.status == 400
    assert "is not /<namespace>/<name>" in reply.detail


@pytest.mark.parametrize(
    ("path", "host", "names"),
    [
        pytest.param("/demo/nobody", "x.example", "demo.nobody._knative", id="by path"),
        pytest.param("/", "nobody-kn-jsm-channel.demo.svc.cluster.local", "demo.nobody._knative", id="by host"),
        pytest.param("/", "www.example.org", "'www.example.org'", id="a foreign host at /"),
        pytest.param("/", "localhost", "'localhost'", id="a host without a dot at /"),
    ],
)
async def test_a_channel_that_does_not_exist_is_not_found(ask: Ask, path: str, host: str, names: str) -> None:
    reply = await ask(path, headers={**BINARY, "host": host})
    assert reply.status == 404
    assert names in reply.detail
    assert "Retry-After" not in reply.headers
