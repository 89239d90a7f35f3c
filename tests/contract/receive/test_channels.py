"""Which channel a request to `receive` is for: by Host or by path, each in one spelling."""

from __future__ import annotations

import pytest

from tests.support.http.sending import BINARY, Ask
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]


# What proxies say of the host that they were asked for; strangers say it, too.
OTHER = "nobody-kn-jsm-channel.victim.svc.cluster.local"
OTHER_HOSTS = {"k-original-host": OTHER, "forwarded": f'for=192.0.2.1;host="{OTHER}"', "x-forwarded-host": OTHER}


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        pytest.param("/", {"host": "{label}.demo.svc.cluster.local"}, id="by the host of its Service"),
        pytest.param("/", {"host": "{label}.demo.svc:8080"}, id="by host with a port and without the domain"),
        pytest.param("/", {"host": "{label}.DEMO.SVC.Cluster.Local"}, id="by host, whatever its case"),
        pytest.param(
            "/",
            {"host": "{label}.demo.svc.cluster.local", **OTHER_HOSTS},
            id="by host, whatever other headers say",
        ),
        pytest.param("/demo/{name}", {}, id="by path"),
        pytest.param("/demo/{name}", OTHER_HOSTS, id="by path, whatever other headers say"),
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


@pytest.mark.parametrize("path", ["/demo", "/demo/a/b", "//orders", "/Demo/orders", "/demo/orders/", "/./demo/orders"])
async def test_a_path_that_names_no_channel_is_refused(ask: Ask, path: str) -> None:
    reply = await ask(path)
    assert reply.status == 400
    assert "is not /<namespace>/<name>" in reply.detail


@pytest.mark.parametrize("path", ["/demo/{%}{rest}", "/demo%2f{name}", "/%64emo/{name}", "/demo/%2e/{name}", "/%"])
async def test_a_path_with_an_escape_is_refused_since_a_policy_may_have_read_another_one(
    ask: Ask, nats: Nats, orders: Channel, path: str
) -> None:
    first, rest = f"%{ord(orders.name[0]):x}", orders.name[1:]
    reply = await ask(path.replace("{%}", first).format(rest=rest, name=orders.name))
    assert reply.status == 400
    assert "has an escape" in reply.detail
    assert await nats.stored(orders.stream) == []


@pytest.mark.parametrize(
    "host",
    [
        pytest.param("{label}.demo", id="that anybody may register"),
        pytest.param("{label}.demo.svc.attacker.example", id="of another domain"),
        pytest.param("{label}.demo.svc.cluster.local.", id="with a last dot"),
        pytest.param("orders.demo.svc.cluster.local", id="of another Service"),
    ],
)
async def test_a_host_of_another_spelling_or_domain_is_no_channels(
    ask: Ask, nats: Nats, orders: Channel, host: str
) -> None:
    reply = await ask("/", headers={**BINARY, "host": host.format(label=f"{orders.name}-kn-jsm-channel")})
    assert reply.status == 404
    assert "send to http://<name>-kn-jsm-channel.<namespace>.svc.cluster.local" in reply.detail
    assert await nats.stored(orders.stream) == []


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
