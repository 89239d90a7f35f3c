"""Every kind of credentials from a mounted Secret: taken, rotated, and kept while new ones are broken."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Broken
from tests.support.kube.mounts import Mount
from tests.support.nats.nats_certificates import Certificates, SilentNatsServer
from tests.support.nats.nats_identities import Operator, user_key
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.refusals import refused
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])
CONNECT_SECONDS = 20.0


@dataclass(frozen=True)
class Way:
    """One identity, on both sides."""

    config: str
    files: dict[str, str]
    broken: dict[str, str] = field(default_factory=dict)
    silent: bool = False


def _token(text: str) -> Way:
    return Way(f'authorization {{ token: "{text}" }}', {"token": text}, {"token": ""})


def _password(text: str) -> Way:
    config = f'authorization {{ user: "me", password: "{text}" }}'
    return Way(config, {"username": "me", "password": text}, {"username": "me"})


def _nkey() -> Way:
    key = user_key()
    return Way(
        f"authorization {{ users: [ {{ nkey: {key.public} }} ] }}",
        {"nkey.seed": key.seed},
        {"nkey.seed": key.seed[:20]},
    )


def _creds() -> Way:
    operator = Operator()
    text = operator.credentials()
    return Way(operator.config, {"nats.creds": text}, {"nats.creds": text[: len(text) // 20]})


def _mutual_tls(directory: Path) -> Way:
    made = Certificates(directory)
    files = {
        "ca.crt": Path(made.ca).read_text(),
        "tls.crt": Path(made.client_cert).read_text(),
        "tls.key": Path(made.client_key).read_text(),
    }
    return Way(made.config(verify=True), files, files | {"tls.key": files["tls.key"][:40]}, silent=True)


@pytest.fixture(params=["token", "password", "nkey", "creds", "mutual TLS"])
def ways(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Way, Way]:
    """An identity, and the one that follows it."""
    match request.param:
        case "token":
            return _token("first"), _token("second")
        case "password":
            return _password("first"), _password("second")
        case "nkey":
            return _nkey(), _nkey()
        case "creds":
            return _creds(), _creds()
        case _:
            return _mutual_tls(tmp_path / "first"), _mutual_tls(tmp_path / "second")


def renamed(files: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "__"): text for name, text in files.items()}


@contextmanager
def served(directory: Path, way: Way) -> Iterator[NatsServer]:
    kind = SilentNatsServer if way.silent else NatsServer
    server = kind(directory / "nats", config=way.config)
    server.start()
    try:
        yield server
    finally:
        server.kill()


@asynccontextmanager
async def connected(url: str, root: Path) -> AsyncIterator[Client]:
    client = Client(NatsSettings.model_validate({"url": url, "credentials_dir": str(root)}))
    try:
        yield client
    finally:
        await client.close()


async def speaks(client: Client) -> bool:
    """Whether the server takes us and our words, over the breaks that the test makes."""

    async def answered() -> bool:
        try:
            return (await client.request("nobody", timeout=CONNECT_SECONDS)).status == "503"
        except Broken:
            return False

    await until("the server answers", answered, CONNECT_SECONDS)
    return True


@contextmanager
def followed(server: NatsServer, directory: Path, way: Way) -> Iterator[None]:
    """Another server in the place of one that has gone."""
    server.stop()
    successor = type(server)(directory / "successor", config=way.config, port=server.port)
    successor.start()
    try:
        yield
    finally:
        successor.kill()


async def test_a_rotated_secret_is_what_the_next_connect_shows(ways, tmp_path):
    first, second = ways
    mount = Mount(tmp_path / "credentials" / "cluster", **renamed(first.files))
    with served(tmp_path, first) as server:
        async with connected(server.url, tmp_path / "credentials") as client:
            assert await speaks(client)
            mount.swap(**renamed(second.files))
            with followed(server, tmp_path, second):
                assert await speaks(client)


async def test_a_broken_secret_leaves_the_last_good_one(ways, tmp_path):
    first, _ = ways
    mount = Mount(tmp_path / "credentials" / "cluster", **renamed(first.files))
    with served(tmp_path, first) as server:
        async with connected(server.url, tmp_path / "credentials") as client:
            assert await speaks(client)
            mount.swap(**renamed(first.broken))
            with followed(server, tmp_path, first):
                assert await speaks(client)


async def test_a_secret_that_is_taken_away_leaves_the_last_good_one(tmp_path):
    way = _token("first")
    mount = Mount(tmp_path / "credentials" / "channel", **renamed(way.files))
    with served(tmp_path, way) as server:
        async with connected(server.url, tmp_path / "credentials") as client:
            assert await speaks(client)
            mount.swap()
            server.restart()
            assert await speaks(client)


async def test_whom_the_server_refuses_is_told_so_and_let_in_once_the_secret_is_mended(tmp_path):
    way = _password("right")
    mount = Mount(tmp_path / "credentials" / "namespace", **renamed(_password("wrong").files))
    with served(tmp_path, way) as server:
        async with connected(server.url, tmp_path / "credentials") as client:
            await until("it knows that it is refused", lambda: refused(client), CONNECT_SECONDS)
            mount.swap(**renamed(way.files))
            assert await speaks(client)


async def test_the_most_special_level_counts(tmp_path):
    way = _token("channel's")
    for level, files in {"cluster": {"token": "cluster's"}, "channel": way.files}.items():
        Mount(tmp_path / "credentials" / level, **renamed(files))
    with served(tmp_path, way) as server:
        async with connected(server.url, tmp_path / "credentials") as client:
            assert await speaks(client)


async def test_an_edited_address_is_moved_to_while_the_old_one_lives(tmp_path):
    mount = Mount(tmp_path / "config")
    with served(tmp_path / "a", Way("", {})) as old, served(tmp_path / "b", Way("", {})) as new:
        mount.swap(**{"eventing-jetstream": f"url: {old.url}"})
        client = Client(NatsSettings.model_validate({"config_dir": mount.path}))
        arrivals: list[bytes] = []
        try:
            await client.subscribe("talk", lambda arrival: arrivals.append(arrival.data))
            assert await speaks(client)
            mount.swap(**{"eventing-jetstream": f"url: {new.url}"})
            other = Client(NatsSettings(url=new.url))
            try:
                await other.ready(CONNECT_SECONDS)

                async def came() -> bool:
                    await other.publish("talk", b"here")
                    return bool(arrivals)

                await until("what is said at the new address comes", came)
            finally:
                await other.close()
        finally:
            await client.close()


async def test_a_broken_edit_of_the_config_map_changes_nothing(tmp_path):
    with served(tmp_path, Way("", {})) as server:
        mount = Mount(tmp_path / "config", **{"eventing-nats": f"url: {server.url}"})
        client = Client(NatsSettings.model_validate({"config_dir": mount.path}))
        try:
            assert await speaks(client)
            mount.swap(**{"eventing-nats": "url: [half"})
            server.restart()
            assert await speaks(client)
        finally:
            await client.close()


async def test_an_expired_jwt_comes_back_with_the_one_that_is_mounted_by_then(tmp_path):
    operator = Operator()
    mount = Mount(tmp_path / "credentials" / "cluster", nats__creds=operator.credentials(seconds=1))
    with served(tmp_path, Way(operator.config, {})) as server:
        async with connected(server.url, tmp_path / "credentials") as client:
            broken: list[bool] = []
            client.on_disconnect.append(lambda: broken.append(True))
            await client.ready(CONNECT_SECONDS)
            mount.swap(nats__creds=operator.credentials())
            await until("the server has ended the connection, or we have left it", lambda: bool(broken))
            assert await speaks(client)
