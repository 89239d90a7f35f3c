"""`receive` and the state of NATS: answers wait for it, outlive its restarts, tell it from a wrong name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from tests.support.functions.functions import Function
from tests.support.functions.in_process import InProcess
from tests.support.http.sending import BINARY, Reply, send
from tests.support.nats.nats_server import NatsServer, free_port
from tests.support.nats.streams import Channel, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

DATA = b'{"n": 1}'
# An account that JetStream is not enabled for; nobody answers its $JS.API.
WITHOUT_JETSTREAM = "accounts { PLAIN { users: [{ user: plain, password: plain }] } }\nno_auth_user: plain"


@pytest.fixture(scope="module")
def restless(served_directory: Path) -> Iterator[NatsServer]:
    """A nats-server that the test may stop, and starts again."""
    server = NatsServer(served_directory / "restless").start()
    yield server
    server.kill()


@pytest.fixture(scope="module")
def steadfast(restless: NatsServer, served_directory: Path) -> Iterator[Function]:
    """A `receive` on that server."""
    with Function("receive", restless.url, served_directory) as function:
        yield function


async def post(function: Function | InProcess, path: str, id: str = "1") -> Reply:
    return await send(function.url + path, DATA, {**BINARY, "ce-id": id})


async def ids(nats: Nats, channel: Channel) -> list[str]:
    return [one.headers["ce-id"] for one in await nats.stored(channel.stream)]


# ── stored first, answered then ─────────────────────────────────────────────────────────────────────────────────────


async def test_nothing_is_answered_before_the_server_has_acknowledged(
    shared_server: NatsServer, receive: Function, nats: Nats, orders: Channel
) -> None:
    shared_server.freeze()
    try:
        answer = asyncio.create_task(post(receive, orders.path))
        await asyncio.sleep(0.7)
        assert not answer.done()
    finally:
        shared_server.thaw()
    assert (await answer).status == 202
    assert await ids(nats, orders) == ["1"]


async def test_a_publish_outlives_a_crash_of_the_server_and_is_stored_once(
    restless: NatsServer, steadfast: Function
) -> None:
    async with Nats(restless.url) as nats:
        orders = await nats.make_channel()
    assert (await post(steadfast, orders.path, "before")).status == 202
    restless.kill()
    answers = asyncio.create_task(_one_after_the_other(steadfast, orders, count=20))
    await asyncio.sleep(1.5)
    restless.start()
    assert await answers == [202] * 20
    async with Nats(restless.url) as nats:
        assert await ids(nats, orders) == ["before", *(f"during-{number}" for number in range(20))]


async def test_what_was_accepted_while_the_server_crashed_is_stored_once(
    restless: NatsServer, steadfast: Function
) -> None:
    async with Nats(restless.url) as nats:
        orders = await nats.make_channel()
    accepted: list[str] = []
    answers = asyncio.create_task(_many_at_once(steadfast, orders, accepted))
    await until("some are accepted", lambda: len(accepted) >= 40)
    restless.kill()
    await asyncio.sleep(0.3)
    restless.start()
    await answers
    assert len(accepted) == 320
    async with Nats(restless.url) as nats:
        assert sorted(await ids(nats, orders)) == sorted(accepted)


async def _one_after_the_other(receive: Function, channel: Channel, count: int) -> list[int]:
    return [(await post(receive, channel.path, f"during-{number}")).status for number in range(count)]


async def _many_at_once(receive: Function, channel: Channel, accepted: list[str]) -> None:
    """Eight senders with 40 events each; every one waits for its answer before it goes on."""

    async def sender(name: int) -> None:
        for number in range(40):
            id = f"{name}-{number}"
            if (await post(receive, channel.path, id)).status == 202:
                accepted.append(id)

    await asyncio.gather(*map(sender, range(8)))


# ── away ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def lost_port() -> int:
    """Where `lost` looks for NATS in vain."""
    return free_port()


@pytest.fixture(scope="module")
def lost(served_directory: Path, lost_port: int) -> Iterator[Function]:
    """A `receive` whose NATS is not there, and which does not wait for it long."""
    url = f"nats://127.0.0.1:{lost_port}"
    settings = {"RECEIVE_PUBLISH_TIMEOUT": "PT0.6S", "RECEIVE_MAX_WAITING_BYTES": "1048576"}
    with Function("receive", url, served_directory, ready=False, **settings) as function:
        yield function


async def test_without_a_server_the_answer_is_503_after_the_publish_timeout(lost: Function) -> None:
    began = time.monotonic()
    reply = await post(lost, "/demo/orders")
    assert (reply.status, reply.headers["Retry-After"], reply.headers["Allow"]) == (503, "1", "POST, OPTIONS")
    assert 0.55 <= time.monotonic() - began <= 5


async def test_events_that_wait_for_the_server_are_bounded_in_bytes(lost: Function) -> None:
    large = bytes(700_000)
    replies = await asyncio.gather(*(send(f"{lost.url}/demo/orders", large, BINARY) for _ in range(2)))
    assert [(reply.status, reply.headers["Retry-After"]) for reply in replies] == [(503, "1")] * 2
    # Whichever came first waits for the server.
    assert ["too many events" in reply.json["detail"] for reply in replies].count(True) == 1


async def test_without_a_server_a_function_is_alive_but_not_ready(lost: Function) -> None:
    assert (await send(f"{lost.url}/health/liveness", method="GET")).status == 200
    reply = await send(f"{lost.url}/health/readiness", method="GET")
    assert (reply.status, reply.json["detail"]) == (503, "NATS is not reachable")


async def test_a_server_without_jetstream_answers_503_where_one_with_it_answers_404(
    lost: Function, lost_port: int, receive: Function, tmp_path: Path
) -> None:
    server = NatsServer(tmp_path / "plain", config=WITHOUT_JETSTREAM, port=lost_port).start()
    try:
        await until("it is ready", lambda: _ready(lost))
        reply = await post(lost, "/demo/nobody")
    finally:
        server.kill()
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert (await post(receive, "/demo/nobody")).status == 404


async def _ready(function: Function) -> bool:
    return (await send(f"{function.url}/health/readiness", method="GET")).status == 200


@pytest.fixture
async def watched(nats: Nats) -> AsyncIterator[None]:
    """Somebody listens to all subjects: whatever is published has a taker, and "no responders" is never said."""
    subscription = await nats.client.subscribe(">")
    await nats.client.flush()
    yield
    await subscription.unsubscribe()


@pytest.mark.usefixtures("watched")
@pytest.mark.parametrize(
    "headers", [pytest.param({}, id="the short way"), pytest.param({"content-encoding": "identity"}, id="the long way")]
)
async def test_a_channel_that_is_not_there_is_a_404_also_where_somebody_takes_every_message(
    receive: Function, nats: Nats, headers: dict[str, str]
) -> None:
    orders = nats.name_channel()
    took = []
    for _ in range(3):
        began = time.monotonic()
        reply = await send(receive.url + orders.path, DATA, {**BINARY, **headers})
        took.append(time.monotonic() - began)
        assert reply.status == 404
        await asyncio.sleep(1.1)
    # The first try waits for its answer; from then on the server is asked before anything is sent.
    assert took[0] < 4.0
    assert max(took[1:]) < 1.0

    await nats.make_channel(orders)
    assert (await send(receive.url + orders.path, DATA, {**BINARY, **headers})).status == 202
    assert len(await ids(nats, orders)) == 1


# ── wake hints ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
async def hints(nats: Nats, orders: Channel) -> AsyncIterator[list[tuple[float, bytes]]]:
    """When hints about the channel came, and what they carried."""
    heard: list[tuple[float, bytes]] = []

    async def on_hint(hint: Msg) -> None:
        heard.append((time.monotonic(), hint.data))

    subscription = await nats.client.subscribe(f"headrace.wake.{orders.stream}", cb=on_hint)
    await nats.client.flush()
    yield heard
    await subscription.unsubscribe()


async def test_a_stored_event_is_hinted_at_and_a_refused_one_is_not(
    receive: Function, nats: Nats, orders: Channel, hints: list[tuple[float, bytes]]
) -> None:
    await send(receive.url + orders.path, DATA, {"ce-id": "no event"})
    await asyncio.sleep(0.15)
    assert hints == []
    await post(receive, orders.path)
    await until("a hint came", lambda: bool(hints))
    await asyncio.sleep(0.15)
    assert [payload for _, payload in hints] == [b""]


async def test_many_events_share_few_hints(
    receive: Function, orders: Channel, hints: list[tuple[float, bytes]]
) -> None:
    began = time.monotonic()
    accepted: list[str] = []
    await _many_at_once(receive, orders, accepted)
    ended = time.monotonic()
    await until("the last hint came", lambda: len(hints) >= 2)
    await asyncio.sleep(0.2)
    assert len(accepted) == 320
    assert 2 <= len(hints) <= (ended - began) / 0.05 + 2


async def test_an_event_within_the_interval_is_hinted_at_when_it_ends(
    receive: Function, orders: Channel, hints: list[tuple[float, bytes]]
) -> None:
    await asyncio.gather(post(receive, orders.path, "1"), post(receive, orders.path, "2"))
    await until("both are hinted at", lambda: len(hints) >= 2)
    await asyncio.sleep(0.2)
    assert len(hints) == 2


# ── probes ──────────────────────────────────────────────────────────────────────────────────────────────────────────

PROBES = [
    pytest.param("/health/liveness", {}, id="liveness"),
    pytest.param("/health/readiness", {}, id="readiness"),
    pytest.param("/healthz", {}, id="healthz"),
    pytest.param("/readyz", {}, id="readyz"),
    pytest.param("/", {"user-agent": "kube-probe/1.33"}, id="a kubelet, by its User-Agent"),
    pytest.param("/demo/orders", {"k-kubelet-probe": "queue"}, id="a kubelet's probe that queue-proxy hands on"),
    pytest.param("/", {"k-network-probe": "probe", "k-network-hash": "h1"}, id="a network probe of Knative"),
]


@pytest.mark.parametrize(("path", "headers"), PROBES)
async def test_a_probe_is_answered_and_is_no_event(receive: Function, path: str, headers: dict[str, str]) -> None:
    assert (await send(receive.url + path, b"", headers, "GET")).status == 200


@pytest.mark.parametrize(("path", "headers"), [row for row in PROBES if row.id not in ("liveness", "healthz")])
async def test_a_draining_process_is_not_ready(
    shared_server: NatsServer, monkeypatch: pytest.MonkeyPatch, path: str, headers: dict[str, str]
) -> None:
    monkeypatch.setenv("NATS_URL", shared_server.url)
    with InProcess("receive") as function:
        assert (await send(function.url + path, b"", headers, "GET")).status == 200
        function.app.drain()
        assert (await send(function.url + path, b"", headers, "GET")).status == 503
        assert (await send(f"{function.url}/health/liveness", method="GET")).status == 200


async def test_a_draining_process_still_stores_what_comes(
    shared_server: NatsServer, nats: Nats, orders: Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_URL", shared_server.url)
    with InProcess("receive") as function:
        function.app.drain()
        assert (await post(function, orders.path)).status == 202
    assert await ids(nats, orders) == ["1"]
