"""The engine proves who it is, and that the server is whom we trust: every way that NATS knows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.core.errors import Misconfigured, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.nats.nats_certificates import Certificates, SilentNatsServer
from tests.support.nats.nats_identities import Operator, user_key
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

# What is said here does not depend on the loop; TLS and transports do, and are tried on both.
one_loop = pytest.mark.asyncio(loop_factories=["uvloop"])
PASSWORDS = 'authorization { user: "me", password: "s3cret/@:" }'
# Generous: on two busy cores a handshake may take its time.
CONNECT_SECONDS = 10.0
# Long enough for some attempts.
REFUSED_SECONDS = 0.5


@contextmanager
def served(directory: Path, config: str, kind: type[NatsServer] = NatsServer) -> Iterator[NatsServer]:
    server = kind(directory / "nats", config=config)
    server.start()
    try:
        yield server
    finally:
        server.kill()


async def lets_in(**settings: str | bool) -> bool:
    """Does the server of these settings take us, and our words?"""
    engine = Client(NatsSettings.model_validate(settings))
    try:
        await engine.ready(CONNECT_SECONDS)
        return (await engine.request("nobody", timeout=5)).status == "503"
    finally:
        await engine.close()


async def shuts_out(**settings: str | bool) -> bool:
    engine = Client(NatsSettings.model_validate(settings))
    try:
        await engine.ready(REFUSED_SECONDS)
    except Unavailable:
        return True
    finally:
        await engine.close()
    return False


async def all_shut_out(*ways: dict[str, str], **settings: str | bool) -> bool:
    """Each with these settings, all at the same time."""
    return all(await asyncio.gather(*(shuts_out(**settings, **way) for way in ways)))


@one_loop
async def test_user_and_password(tmp_path):
    with served(tmp_path, PASSWORDS) as server:
        assert await lets_in(url=server.url, user="me", password="s3cret/@:")
        assert await all_shut_out({"user": "me", "password": "wrong"}, {}, url=server.url)


@one_loop
async def test_user_and_password_in_the_url(tmp_path):
    with served(tmp_path, PASSWORDS) as server:
        assert await lets_in(url=f"nats://me:s3cret%2F%40%3A@127.0.0.1:{server.port}")
        assert await lets_in(url=f"nats://me:s3cret%2F%40%3A@127.0.0.1:{server.port}", user="other", password="wrong")


@one_loop
async def test_a_token_from_a_setting_or_the_url(tmp_path):
    with served(tmp_path, 'authorization { token: "t0ken" }') as server:
        assert await lets_in(url=server.url, token="t0ken")
        assert await lets_in(url=f"t0ken@127.0.0.1:{server.port}")
        assert await shuts_out(url=server.url, token="wrong")


@one_loop
async def test_an_nkey_whose_seed_is_in_a_file(tmp_path):
    key, stranger = user_key(), user_key()
    seed = tmp_path / "user.seed"
    with served(tmp_path, f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}") as server:
        seed.write_text(key.seed)
        assert await lets_in(url=server.url, nkey_seed_file=str(seed))
        seed.write_text(stranger.seed)
        assert await shuts_out(url=server.url, nkey_seed_file=str(seed))


@one_loop
async def test_a_jwt_in_a_credentials_file(tmp_path):
    operator, stranger = Operator(), Operator()
    creds = tmp_path / "user.creds.txt"
    with served(tmp_path, operator.config) as server:
        creds.write_text(operator.credentials())
        assert await lets_in(url=server.url, creds_file=str(creds))
        creds.write_text(stranger.credentials())
        assert await shuts_out(url=server.url, creds_file=str(creds))


@one_loop
async def test_a_jwt_that_expires_is_replaced_by_the_one_that_is_on_disk_by_then(tmp_path):
    operator = Operator()
    creds = tmp_path / "user.creds.txt"
    with served(tmp_path, operator.config) as server:
        creds.write_text(operator.credentials(seconds=3))
        engine = Client(NatsSettings(url=server.url, creds_file=str(creds)))
        broken: list[bool] = []
        engine.on_disconnect.append(lambda: broken.append(True))
        await engine.ready(CONNECT_SECONDS)
        creds.write_text(operator.credentials())
        await until("the server has ended the connection", lambda: bool(broken))
        await engine.ready(CONNECT_SECONDS)
        assert (await engine.request("nobody", timeout=5)).status == "503"
        await engine.close()


@one_loop
async def test_credentials_that_come_late_are_found(tmp_path):
    operator = Operator()
    creds = tmp_path / "mounted.later"
    with served(tmp_path, operator.config) as server:
        engine = Client(NatsSettings(url=server.url, creds_file=str(creds)))
        with pytest.raises(Unavailable):
            await engine.ready(0.3)
        creds.write_text("not yet written to its end")
        with pytest.raises(Unavailable):
            await engine.ready(0.3)
        creds.write_text(operator.credentials())
        await engine.ready(CONNECT_SECONDS)
        await engine.close()


@pytest.mark.parametrize("first", [False, True], ids=["after INFO", "handshake first"])
async def test_tls_with_a_private_ca(tmp_path, first):
    files, others = Certificates(tmp_path / "ours"), Certificates(tmp_path / "others")
    with served(tmp_path, files.config(first=first), SilentNatsServer) as server:
        assert await lets_in(url=server.url, tls_ca_file=files.ca, tls_first=first)
        assert await lets_in(url=f"tls://localhost:{server.port}", tls_ca_file=files.ca, tls_first=first)
        assert await all_shut_out({"tls_ca_file": others.ca}, {}, url=server.url, tls_first=first)


@pytest.mark.parametrize("first", [False, True], ids=["after INFO", "handshake first"])
async def test_mutual_tls(tmp_path, first):
    files = Certificates(tmp_path / "files")
    with served(tmp_path, files.config(verify=True, first=first), SilentNatsServer) as server:
        ours = {"url": server.url, "tls_ca_file": files.ca, "tls_first": first}
        assert await lets_in(**ours, tls_cert_file=files.client_cert, tls_key_file=files.client_key)
        assert await shuts_out(**ours)


async def test_a_server_without_tls_hears_no_password_from_those_who_ask_for_tls(tmp_path):
    files = Certificates(tmp_path / "files")
    with served(tmp_path, PASSWORDS) as server:
        ways = {"url": server.url, "tls_ca_file": files.ca}, {"url": f"tls://127.0.0.1:{server.port}"}
        assert await all_shut_out(*ways, user="me", password="s3cret/@:")


async def test_large_messages_pass_through_tls_whole(tmp_path):
    files = Certificates(tmp_path / "files")
    with served(tmp_path, files.config()) as server:
        engine = Client(NatsSettings(url=server.url, tls_ca_file=files.ca))
        await engine.ready(CONNECT_SECONDS)
        sizes: list[int] = []
        await engine.subscribe("large", lambda arrival: sizes.append(len(arrival.data)))
        for _ in range(20):
            await engine.publish("large", b"x" * 1_000_000)
        await until("all came", lambda: len(sizes) == 20)
        assert set(sizes) == {1_000_000}
        await engine.close()


@pytest.mark.parametrize(
    "url", ["", " , ", "http://127.0.0.1", "nats://", "nats://127.0.0.1:99999", "nats://h:x", "nats://h/path", "ws://h"]
)
def test_an_address_that_can_not_be_used_is_refused_at_the_start(url):
    with pytest.raises(Misconfigured) as refused:
        Client(NatsSettings(url=url))
    assert refused.value.field == "NATS_URL"


def test_a_wrong_address_is_quoted_without_its_password():
    with pytest.raises(Misconfigured) as refused:
        Client(NatsSettings(url="http://me:s3cret@127.0.0.1"))
    assert "127.0.0.1" in str(refused.value)
    assert "s3cret" not in str(refused.value)
