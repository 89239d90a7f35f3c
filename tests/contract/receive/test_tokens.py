"""Events that come with tokens, at a real `receive` and nats-server: 401 before the body, and nothing stored.

The security document is mounted; `tests/control_plane` has the operator write it, and tokens of a real API server.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from headrace.core import names
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, Reply, send
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Channel, Nats
from tests.support.security.issuing import TokenIssuer
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

ISSUER = TokenIssuer()


@dataclass
class Secured:
    """A `receive` with a mount, and its nats-server."""

    function: Function
    nats_url: str
    mount: Mounted

    async def send(self, channel: Channel, *tokens: str, event_id: str = "1") -> Reply:
        shown = {"authorization": f"Bearer {tokens[0]}"} if tokens else {}
        return await send(self.function.url + channel.path, b"{}", {**BINARY, "ce-id": event_id, **shown})

    async def obeys(self, channel: Channel, status: int, *tokens: str) -> None:
        """Wait until events are answered so."""
        await until("the document is obeyed", lambda: self._answers(channel, status, *tokens), 30)

    async def _answers(self, channel: Channel, status: int, *tokens: str) -> bool:
        return (await self.send(channel, *tokens, event_id="probe")).status == status


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    directory = tmp_path_factory.mktemp("secured")
    server = NatsServer(directory / "nats").start()
    mount = Mounted(directory / "security")
    mount.trust(ISSUER.known())
    with Function("receive", server.url, directory, HEADRACE_SECURITY_DIR=str(mount.directory)) as function:
        yield Secured(function, server.url, mount)
    server.kill()


@pytest.fixture
async def nats(secured: Secured) -> AsyncIterator[Nats]:
    async with Nats(secured.nats_url) as client:
        yield client


@pytest.fixture
async def orders(nats: Nats) -> Channel:
    return await nats.make_channel()


def token(channel: Channel, **claims: object) -> str:
    """A good token for a channel, but for what is given."""
    audience = names.audience(channel.namespace, channel.name)
    return ISSUER.token(now=time.time(), **{"aud": [audience], **claims})


async def test_an_event_with_a_good_token_is_stored_and_the_token_is_not(secured, nats, orders) -> None:
    for event_id in ("1", "2"):
        assert (await secured.send(orders, token(orders), event_id=event_id)).status == 202
    stored = await nats.stored(orders.stream)
    assert [one.headers["ce-id"] for one in stored] == ["1", "2"]
    assert not any("authorization" in map(str.lower, one.headers) for one in stored)


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        pytest.param({"aud": ["sts.example"]}, "another audience", id="wrong audience"),
        pytest.param({"iss": "https://elsewhere.example"}, "another issuer", id="wrong issuer"),
        pytest.param({"exp": 1}, "has expired", id="expired"),
        pytest.param({"nbf": 1e12}, "not valid yet", id="not valid yet"),
    ],
)
async def test_an_event_with_a_bad_token_is_refused_and_not_stored(secured, nats, orders, claims, why) -> None:
    bad = token(orders, **claims)
    reply = await secured.send(orders, bad)
    assert reply.status == 401
    assert why in reply.detail
    assert (reply.headers["www-authenticate"], reply.headers["allow"]) == ("Bearer", "POST, OPTIONS")
    assert not any(part in reply.body.decode() for part in bad.split("."))
    assert await nats.stored(orders.stream) == []


async def test_an_event_without_a_token_is_refused_and_told_what_to_send(secured, nats, orders) -> None:
    reply = await secured.send(orders)
    assert (reply.status, "Authorization: Bearer" in reply.detail) == (401, True)
    assert await nats.stored(orders.stream) == []


async def test_a_token_for_one_channel_opens_no_other(secured, nats, orders) -> None:
    other = await nats.make_channel()
    assert (await secured.send(orders, token(orders))).status == 202
    assert (await secured.send(other, token(orders))).status == 401
    assert (await secured.send(other, token(other))).status == 202


async def test_probes_and_options_need_no_token(secured, orders) -> None:
    assert (await send(secured.function.url + "/healthz", method="GET")).status == 200
    assert (await send(secured.function.url + orders.path, method="OPTIONS")).status == 200


@pytest.mark.parametrize("length", [2, 100, 16_000, 800_000], ids=["tiny", "small", "nearly large", "large"])
@pytest.mark.parametrize("shown", [None, "bad"], ids=["no token", "a bad token"])
async def test_the_answer_comes_while_the_body_is_still_to_come(secured, orders, length, shown) -> None:
    lines = "".join(f"{name}: {value}\r\n" for name, value in BINARY.items())
    if shown is not None:
        lines += f"authorization: Bearer {token(orders, exp=1)}\r\n"
    head = f"POST {orders.path} HTTP/1.1\r\nhost: x\r\n{lines}content-length: {length}\r\n\r\n"

    def said() -> bytes:
        host, port = secured.function.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            connection.sendall(head.encode() + b"{")
            return connection.recv(65536)

    assert (await asyncio.to_thread(said)).startswith(b"HTTP/1.1 401 ")


async def test_a_new_key_counts_without_a_refusal_and_an_old_one_until_it_goes(secured, orders) -> None:
    """The issuer's rotation, under load: it publishes the new key, then signs by it, then withdraws the old one."""
    rotating = TokenIssuer(kids=["one"])
    audience = names.audience(orders.namespace, orders.name)
    answers: list[int] = []
    stop = asyncio.Event()

    async def load() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            current = rotating.token(now=time.time(), aud=audience, jti=str(number // 10))
            answers.append((await secured.send(orders, current, event_id=f"e{number}")).status)

    senders = [asyncio.create_task(load()) for _ in range(4)]
    try:
        old = rotating.token(now=time.time(), aud=audience)
        published = TokenIssuer(kids=["one", "two"])
        secured.mount.trust(published.known())
        await secured.obeys(orders, 202, published.token(now=time.time(), aud=audience))
        rotating.kids = ["one", "two"]
        await asyncio.sleep(0.5)
        assert (await secured.send(orders, old)).status == 202
        secured.mount.trust(TokenIssuer(kids=["two"]).known())
        # A key that may be new, for all that `receive` knows: come again.
        await secured.obeys(orders, 503, old)
        await asyncio.sleep(0.5)
    finally:
        stop.set()
        await asyncio.gather(*senders)
        secured.mount.trust(ISSUER.known())
    assert set(answers) == {202}
    await secured.obeys(orders, 202, token(orders))


async def test_the_flag_counts_without_a_restart_both_ways(secured, orders) -> None:
    secured.mount.ask_for_nothing()
    await secured.obeys(orders, 202)
    secured.mount.trust(ISSUER.known())
    await secured.obeys(orders, 401)


async def test_nothing_of_a_token_is_in_the_log(secured, orders) -> None:
    tokens = [
        token(orders),
        token(orders, exp=1),
        token(orders, sub=""),
        token(orders)[:-4] + "AAAA",
        "no-token-at-all",
    ]
    for text in tokens:
        await secured.send(orders, text)
    said = secured.function.log
    assert "the token has expired" in said
    for text in tokens:
        assert not any(part in said for part in text.split("."))
