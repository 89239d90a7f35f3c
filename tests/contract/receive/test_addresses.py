"""Settings of the addresses that `receive` takes, and what a stranger makes of them."""

from __future__ import annotations

import asyncio
import http.client
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Reply, send
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats

pytest_plugins = ["tests.support.functions.served"]

DOMAIN = "k8s.example"


async def post(function: Function, path: str, **headers: str) -> Reply:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return await send(function.url + path, b"{}", {**BINARY, **named})


def host(orders: Channel, domain: str) -> str:
    return f"{orders.name}-kn-jsm-channel.{orders.namespace}.svc.{domain}"


@pytest.fixture(scope="module")
def behind_a_proxy(shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    """A `receive` whose senders on this machine are a proxy's."""
    proxies = {"RECEIVE_PROXIES": "10.0.0.0/8, 127.0.0.1", "HEADRACE_CLUSTER_DOMAIN": DOMAIN}
    with Function("receive", shared_server.url, served_directory, **proxies) as function:
        yield function


@pytest.fixture(scope="module")
def on_a_laptop(shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    """A `receive` as `headrace up` starts it."""
    with Function("receive", shared_server.url, served_directory, RECEIVE_HOSTS="localhost") as function:
        yield function


@pytest.fixture(scope="module")
def in_knative(shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    """A `receive` as `reconcile` makes it with Knative Serving."""
    with Function("receive", shared_server.url, served_directory, RECEIVE_HOST_ADDRESSES="false") as function:
        yield function


async def test_what_a_configured_proxy_says_counts_in_the_place_of_the_host(
    behind_a_proxy: Function, orders: Channel
) -> None:
    own, other = host(orders, DOMAIN), "nobody-kn-jsm-channel.demo.svc"
    assert (await post(behind_a_proxy, "/", host="gateway", k_original_host=own)).status == 202
    assert (await post(behind_a_proxy, "/", host=own, k_original_host=other)).status == 404
    assert (await post(behind_a_proxy, "/", host=own, k_original_host="gateway")).status == 404
    # It says nothing, as the kubelet does, or in another header.
    assert (await post(behind_a_proxy, "/", host=own, x_forwarded_host=other, forwarded=f"host={other}")).status == 202


async def test_the_domain_is_the_clusters(behind_a_proxy: Function, orders: Channel) -> None:
    assert (await post(behind_a_proxy, "/", host=host(orders, DOMAIN))).status == 202
    assert (await post(behind_a_proxy, "/", host=host(orders, DOMAIN).removesuffix(f".{DOMAIN}"))).status == 202
    assert (await post(behind_a_proxy, "/", host=host(orders, "cluster.local"))).status == 404


async def test_of_another_peer_the_header_does_not_count(
    shared_server: NatsServer, tmp_path: Path, orders: Channel
) -> None:
    with Function("receive", shared_server.url, tmp_path, RECEIVE_PROXIES="10.0.0.0/8") as function:
        own = host(orders, "cluster.local")
        assert (await post(function, "/", host="gateway", k_original_host=own)).status == 404
        assert (await post(function, "/", host=own, k_original_host="gateway")).status == 202


@pytest.mark.parametrize(
    "name",
    [
        "localhost",
        "LOCALHOST:{port}",
        "127.0.0.1:{port}",
        "127.1.2.3",
        "[::1]:{port}",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
    ],
)
async def test_a_laptop_takes_events_under_names_that_lead_to_no_stranger(
    on_a_laptop: Function, orders: Channel, name: str
) -> None:
    assert (await post(on_a_laptop, orders.path, host=name.format(port=on_a_laptop.port))).status == 202


async def test_a_laptop_takes_events_by_the_channels_host(on_a_laptop: Function, orders: Channel) -> None:
    assert (await post(on_a_laptop, "/", host=host(orders, "cluster.local"))).status == 202


@pytest.mark.parametrize(
    "name",
    [
        "attacker.example",
        "attacker.example:8080",
        "localhost.attacker.example",
        "localhost.",
        "127.0.0.1.nip.io",
        "127.1",
        "2130706433",
        "0x7f000001",
        "[::1",
        "[attacker.example]",
    ],
)
async def test_a_page_whose_name_leads_to_a_laptop_sends_nothing(
    on_a_laptop: Function, nats: Nats, orders: Channel, name: str
) -> None:
    reply = await post(on_a_laptop, orders.path, host=name)
    assert (reply.status, "RECEIVE_HOSTS" in reply.detail) == (421, True)
    assert await nats.stored(orders.stream) == []


@pytest.mark.parametrize(
    ("origin", "answered"),
    [
        ("http://attacker.example", 403),
        ("null", 403),
        ("http://93.184.216.34", 403),
        ("http://orders-kn-jsm-channel.demo.svc.cluster.local", 403),
        ("http://localhost.attacker.example", 403),
        ("http://localhost@attacker.example", 403),
        ("http://localhost, http://attacker.example", 403),
        ("http://[2001:db8::1]", 403),
        ("http://[::]", 403),
        ("http://[::1", 403),
        ("", 403),
        ("http://localhost:3000", 202),
        ("http://[::ffff:127.0.0.1]", 202),
        ("https://127.0.0.1", 202),
        ("http://[::1]:8000", 202),
    ],
)
async def test_a_page_of_a_stranger_sends_nothing_to_a_laptop_under_the_laptops_own_name(
    on_a_laptop: Function, orders: Channel, origin: str, answered: int
) -> None:
    by_path = await post(on_a_laptop, orders.path, origin=origin)
    by_host = await post(on_a_laptop, "/", origin=origin, host=host(orders, "cluster.local"), ce_id="2")
    assert (by_path.status, by_host.status) == (answered, answered)


@pytest.mark.parametrize(
    ("method", "headers", "answered"),
    [
        pytest.param("POST", {"content-type": "text/plain"}, 403, id="a simple request"),
        pytest.param("POST", {"content-type": "application/x-www-form-urlencoded"}, 403, id="a form"),
        pytest.param("POST", {"content-type": "multipart/form-data; boundary=x"}, 403, id="a form with files"),
        pytest.param("GET", {}, 405, id="a picture"),
        pytest.param("OPTIONS", {"access-control-request-method": "POST"}, 200, id="the question before"),
        pytest.param(
            "OPTIONS",
            {"access-control-request-method": "POST", "access-control-request-private-network": "true"},
            200,
            id="the question before, of a page of the internet",
        ),
    ],
)
async def test_a_strangers_page_is_let_in_by_no_kind_of_request(
    on_a_laptop: Function, nats: Nats, orders: Channel, method: str, headers: dict[str, str], answered: int
) -> None:
    event = b'{"specversion":"1.0","id":"1","type":"t","source":"/s"}'

    def ask() -> http.client.HTTPResponse:
        client = http.client.HTTPConnection("127.0.0.1", on_a_laptop.port, timeout=10)
        named = {"host": "localhost", "origin": "http://attacker.example", **headers}
        client.request(method, orders.path, event if method == "POST" else None, named)
        answer = client.getresponse()
        answer.read()
        client.close()
        return answer

    answer = await asyncio.to_thread(ask)
    assert answer.status == answered
    # Without one of these headers a browser sends no event after the question.
    assert [name for name in answer.headers if name.lower().startswith("access-control-")] == []
    assert await nats.stored(orders.stream) == []


async def test_elsewhere_pages_may_send_as_ever(receive: Function, orders: Channel) -> None:
    assert (await post(receive, orders.path, host="events.example", origin="http://shop.example")).status == 202


async def test_behind_knatives_queue_proxy_a_host_names_no_channel(
    in_knative: Function, nats: Nats, orders: Channel
) -> None:
    own = host(orders, "cluster.local")
    by_host = await post(in_knative, "/", host=own)
    assert by_host.status == 404
    assert "send to the path /<namespace>/<name>" in by_host.detail
    # The queue-proxy makes K-Original-Host the Host, whoever sends it: the path counts, which the gateway has seen.
    assert (await post(in_knative, "/demo/nobody", host=own)).status == 404
    assert await nats.stored(orders.stream) == []
    assert (await post(in_knative, orders.path, host=own)).status == 202
