"""`receive` by TLS: which door is open, certificates that change under load, and strangers that never say hello.

A real `receive` process, real sockets, certificates of trustme.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import aiohttp
import pytest
import trustme

from headrace.core.security.flags import TransportEncryption
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.http.tls_mount import certify, encrypt, trusting
from tests.support.nats.nats_permissions import PermittedServer, inbox_of
from tests.support.nats.nats_server import free_port
from tests.support.nats.streams import Channel, Nats
from tests.support.waiting import until

pytest_plugins = ["tests.support.functions.served"]

STRICT, PERMISSIVE, DISABLED = TransportEncryption.STRICT, TransportEncryption.PERMISSIVE, TransportEncryption.DISABLED


class Secured:
    """A `receive` with both listeners."""

    def __init__(self, server: PermittedServer, directory: Path, **settings: str) -> None:
        self.authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
        self.tls, self.security = directory / "tls", directory / "security"
        self.port = free_port()
        self.function = Function(
            "receive",
            server.url_of("receive"),
            directory,
            NATS_INBOX_PREFIX=inbox_of("receive"),
            RECEIVE_TLS_PORT=str(self.port),
            RECEIVE_TLS_DIR=str(self.tls),
            HEADRACE_SECURITY_DIR=str(self.security),
            **settings,
        )

    def url(self, channel: Channel) -> str:
        return f"https://localhost:{self.port}{channel.path}"

    def client(self, *, most: int = 100) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(ssl=trusting(self.authority), limit=most)
        return aiohttp.ClientSession(connector=connector)

    async def status(self, url: str, data: bytes = b"{}", **headers: str) -> int:
        async with self.client() as client, client.post(url, data=data, headers={**BINARY, **headers}) as answer:
            await answer.read()
            return answer.status


@pytest.fixture(scope="module")
def secured(shared_server: PermittedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(shared_server, tmp_path_factory.mktemp("secured"), HEADRACE_MAX_CONNECTIONS="2000")
    certify(made.tls, made.authority)
    encrypt(made.security, PERMISSIVE)
    with made.function:
        yield made


async def serves(secured: Secured, channel: Channel, plain: int, encrypted: int) -> None:
    async def seen() -> bool:
        by = await send(secured.function.url + channel.path, b"{}", BINARY), await secured.status(secured.url(channel))
        return (by[0].status, by[1]) == (plain, encrypted)

    await until("the doors are as the flag says", seen, 5)


async def test_an_event_by_tls_lies_in_the_stream_as_one_without(secured: Secured, nats: Nats, orders: Channel) -> None:
    assert await secured.status(secured.url(orders), b'{"n": 1}') == 202
    assert (await send(secured.function.url + orders.path, b'{"n": 1}', {**BINARY, "ce-id": "2"})).status == 202
    mine, theirs = await nats.stored(orders.stream)
    assert (mine.subject, mine.data) == (theirs.subject, theirs.data)
    assert {**mine.headers, "Nats-Msg-Id": "", "ce-id": ""} == {**theirs.headers, "Nats-Msg-Id": "", "ce-id": ""}


@pytest.mark.parametrize("size", [0, 16_000, 16_384, 200_000, 1_000_000])
async def test_events_of_every_size_come_whole(secured: Secured, nats: Nats, orders: Channel, size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    assert await secured.status(secured.url(orders), data) == 202
    [stored] = await nats.stored(orders.stream)
    assert stored.data == data


async def test_events_in_records_of_a_byte_come_whole_too(secured: Secured, nats: Nats, orders: Channel) -> None:
    body = b"x" * 3000
    head = "".join(f"{name}: {value}\r\n" for name, value in BINARY.items())
    request = f"POST {orders.path} HTTP/1.1\r\nhost: x\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body

    def spoken() -> bytes:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = trusting(secured.authority).wrap_bio(incoming, outgoing, server_hostname="localhost")
        with socket.create_connection(("127.0.0.1", secured.port), 10) as plug:
            while True:
                try:
                    tls.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    plug.sendall(outgoing.read())
                    incoming.write(plug.recv(65536))
            # With the end of the handshake in the same flight.
            for at in range(len(request)):
                tls.write(request[at : at + 1])
            plug.sendall(outgoing.read())
            while True:
                incoming.write(plug.recv(65536))
                try:
                    return tls.read(65536)
                except ssl.SSLWantReadError:
                    continue

    assert (await asyncio.to_thread(spoken)).startswith(b"HTTP/1.1 202 ")
    [stored] = await nats.stored(orders.stream)
    assert stored.data == body


async def test_an_edit_of_the_flag_opens_and_closes_the_doors_without_a_restart(
    secured: Secured, nats: Nats, orders: Channel
) -> None:
    pid = secured.function.pid
    encrypt(secured.security, STRICT)
    await serves(secured, orders, 404, 202)
    plain = secured.function.url
    # A probe is no event: the kubelet knows no TLS.
    for path in ("/health/readiness", "/health/liveness"):
        assert (await send(plain + path, method="GET")).status == 200
    refused = await send(plain + orders.path, b"{}", {**BINARY, "content-type": "text/plain", "expect": ""})
    assert "https alone" in refused.detail
    # Whoever says so himself has no TLS for that.
    assert (await send(plain + orders.path, b"{}", {**BINARY, "x-forwarded-proto": "https"})).status == 404
    stored = len(await nats.stored(orders.stream))
    encrypt(secured.security, DISABLED)
    await serves(secured, orders, 202, 404)
    encrypt(secured.security, PERMISSIVE)
    await serves(secured, orders, 202, 202)
    assert stored == 1, "what is refused is not stored"
    assert secured.function.pid == pid


async def test_a_certificate_that_changes_under_load_refuses_nobody(secured: Secured, orders: Channel) -> None:
    rate, seconds, rotations = 500, 4, 6
    refused: list[object] = []
    shown = set()

    async def post(client: aiohttp.ClientSession, number: int) -> None:
        headers = {**BINARY, "ce-id": f"r{number}", **({"connection": "close"} if number % 10 == 0 else {})}
        try:
            async with client.post(secured.url(orders), data=b"{}", headers=headers) as answer:
                await answer.read()
                if answer.status != 202:
                    refused.append(answer.status)
        except aiohttp.ClientError as error:
            refused.append(error)

    async def rotate() -> None:
        for _ in range(rotations):
            await asyncio.sleep(seconds / rotations)
            certify(secured.tls, secured.authority)
            shown.add(await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", secured.port)))

    async with secured.client() as client, asyncio.TaskGroup() as group:
        group.create_task(rotate())
        began = time.monotonic()
        for number in range(rate * seconds):
            group.create_task(post(client, number))
            await asyncio.sleep(max(0.0, began + number / rate - time.monotonic()))
    assert refused == []
    assert len(shown) > 1, "it did change"


async def test_a_broken_certificate_is_not_taken_and_the_last_good_one_counts(
    secured: Secured, orders: Channel
) -> None:
    before = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", secured.port))
    (secured.tls / "..data" / "tls.key").write_bytes(b"no key at all")
    await until("it is told", lambda: "the last good certificate still counts" in secured.function.log, 5)
    assert await secured.status(secured.url(orders)) == 202
    assert await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", secured.port)) == before
    certify(secured.tls, secured.authority)

    async def changed() -> bool:
        return await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", secured.port)) != before

    await until("another certificate is shown", changed, 5)


async def test_strangers_that_never_end_their_handshakes_keep_nobody_out(secured: Secured, orders: Channel) -> None:
    hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
    with ExitStack() as stack:
        for number in range(400):
            plug = stack.enter_context(socket.create_connection(("127.0.0.1", secured.port), 5))
            plug.sendall((b"", b"\x16", hello)[number % 3])
        began = time.monotonic()
        assert await secured.status(secured.url(orders)) == 202
        assert (await send(secured.function.url + orders.path, b"{}", {**BINARY, "ce-id": "p"})).status == 202
        assert time.monotonic() - began < 2


async def test_what_is_no_tls_is_told_so_and_closed(secured: Secured) -> None:
    for sent in (b"POST / HTTP/1.1\r\nhost: x\r\n\r\n", b"\x16\x03\x01\x40\x00" + bytes(40_000)):
        with socket.create_connection(("127.0.0.1", secured.port), 5) as plug:
            plug.sendall(sent)
            plug.settimeout(2)
            try:
                while await asyncio.to_thread(plug.recv, 4096):
                    pass
            except ConnectionResetError:
                pass


@pytest.mark.parametrize(("setting", "taken"), [({}, False), ({"RECEIVE_TLS_MIN_VERSION": "1.2"}, True)])
async def test_tls_1_2_is_taken_by_a_setting_alone_and_tls_begins_with_a_certificate(
    shared_server: PermittedServer, tmp_path: Path, orders: Channel, setting: dict[str, str], taken: bool
) -> None:
    made = Secured(shared_server, tmp_path, **setting)
    encrypt(made.security, STRICT)
    with made.function:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", made.port), 5)
        certify(made.tls, made.authority)

        async def served() -> bool:
            try:
                return await made.status(made.url(orders)) == 202
            except aiohttp.ClientError:
                return False

        await until("it is served by TLS", served, 5)
        old = trusting(made.authority)
        old.maximum_version = ssl.TLSVersion.TLSv1_2

        def version() -> str | None:
            plug = socket.create_connection(("127.0.0.1", made.port), 5)
            with plug, old.wrap_socket(plug, server_hostname="localhost") as tls:
                return tls.version()

        if taken:
            assert await asyncio.to_thread(version) == "TLSv1.2"
        else:
            with pytest.raises((ssl.SSLError, ConnectionResetError)):
                await asyncio.to_thread(version)
