"""Whatever opens a TLS connection takes the CAs that Go takes, and refuses those that it refuses: each program of ours.

Also with the defaults of Python 3.13, whatever Python this is; tests/hosts runs this file on the other Pythons.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import requests

from headrace.core.channel.hook import HookRequest
from headrace.core.delivery.lease import Lease
from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats import own_account as lent
from headrace.io import export
from headrace.io.http import HttpClient
from headrace.io.jetstream.own_account import Calls
from headrace.io.nats.client import Client
from headrace_operator.channels.hook_client import HookClient
from headrace_operator.kube.access import from_kubeconfig, from_service_account
from headrace_operator.kube.api import KubeApi
from headrace_operator.scaling.lease_client import LeaseClient
from pyspark_jetstream.client import Access as SparkAccess
from pyspark_jetstream.client import Connection
from tests.support.http.authorities import REFUSED, TAKEN, Trust
from tests.support.http.raw_server import ACCEPTED, answering, serving
from tests.support.nats.nats_server import NatsServer

pytest_plugins = ["tests.support.http.strict_defaults"]
pytestmark = pytest.mark.usefixtures("as_since_3_13")

ANSWER = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 17\r\n\r\n{"kind":"Orders"}'
# Generous where the answer is yes, short where it is no.
CONNECT_SECONDS = 20.0
REFUSED_SECONDS = 0.3


@pytest.fixture(params=[*TAKEN, *REFUSED])
def wanted(request: pytest.FixtureRequest) -> bool:
    """Is this one taken?"""
    return request.param in TAKEN


@pytest.fixture
def trust(request: pytest.FixtureRequest, wanted: bool) -> Trust:
    name = request.node.callspec.params["wanted"]
    return (TAKEN if wanted else REFUSED)[name]()


@pytest.fixture
def ca(trust: Trust, tmp_path: Path) -> Path:
    file = tmp_path / "ca.crt"
    file.write_bytes(trust.authorities)
    return file


@contextmanager
def nats(trust: Trust, directory: Path) -> Iterator[NatsServer]:
    (directory / "server.pem").write_bytes(trust.server.shown)
    (directory / "server.key").write_bytes(trust.server.key_pem)
    config = f'tls {{ cert_file: "{directory}/server.pem", key_file: "{directory}/server.key" }}'
    server = NatsServer(directory / "nats", config=config)
    server.start()
    try:
        yield server
    finally:
        server.kill()


async def reached(doing: Awaitable[object]) -> bool:
    try:
        await doing
    except (HeadraceError, OSError):
        return False
    return True


async def test_nats_by_both_clients(trust, wanted, ca, tmp_path):
    seconds = CONNECT_SECONDS if wanted else REFUSED_SECONDS

    async def by_engine() -> bool:
        client = Client(NatsSettings.model_validate({"url": server.url, "tls_ca_file": str(ca)}))
        try:
            return await reached(client.ready(seconds))
        finally:
            await client.close()

    def by_spark() -> bool:
        try:
            with Connection(SparkAccess(server.url, tls_ca_file=str(ca), timeout=seconds)) as connection:
                return bool(connection.request("$JS.API.INFO").data)
        except Unavailable:
            return False

    with nats(trust, tmp_path) as server:
        found = await asyncio.gather(by_engine(), asyncio.to_thread(by_spark))
    assert found == [wanted] * 2


async def test_subscribers_by_what_the_subscription_says(trust, wanted):
    client = HttpClient()
    async with serving(answering(ACCEPTED), tls=trust.server.serving()) as server:
        given = Destination(server.url, trust.authorities.decode())
        answer = await client.post(given, (), b"{}", timedelta(seconds=CONNECT_SECONDS), 1024)
    await client.close()
    assert (answer.status == 202) is wanted, answer.error


async def test_the_api_server_by_service_account_and_by_kubeconfig(trust, wanted, ca, tmp_path):
    (tmp_path / "token").write_text("t0ken")
    async with serving(answering(ANSWER), tls=trust.server.serving()) as server:
        cluster = {"server": server.url, "certificate-authority": str(ca)}
        for access in (
            lambda: from_service_account("127.0.0.1", server.port, tmp_path),
            lambda: from_kubeconfig(kubeconfig(tmp_path, cluster)),
        ):
            async with KubeApi(access) as api:
                assert await reached(api.get("/")) is wanted


def kubeconfig(directory: Path, cluster: dict[str, str]) -> Path:
    file = directory / "kubeconfig"
    contexts = [{"name": "c", "context": {"cluster": "c", "user": "u"}}]
    config = {"clusters": [{"name": "c", "cluster": cluster}], "users": [{"name": "u", "user": {"token": "t"}}]}
    file.write_text(json.dumps({**config, "contexts": contexts, "current-context": "c"}), encoding="utf-8")
    return file


async def test_functions_by_what_the_system_trusts(trust, wanted, ca, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(ca))
    async with serving(answering(ACCEPTED), tls=trust.server.serving()) as server:
        async with LeaseClient("t0ken") as leases, HookClient("t0ken") as hooks:
            said = [
                str(await failure(leases.open(server.url, Lease("S", "C")))),
                str(await failure(hooks.call(server.url, HookRequest({})))),
            ]
        calls = Calls(lambda _: "t0ken")
        said.append(
            str(await failure(calls.ask(server.url, lent.Call("name"), asyncio.get_running_loop().time() + 10)))
        )
        await calls.close()
    assert [re.search(r"\b202\b", words) is not None for words in said] == [wanted] * 3, said


async def failure(doing: Awaitable[object]) -> HeadraceError:
    """Whoever is behind it does not answer as a function does."""
    with pytest.raises(HeadraceError) as found:
        await doing
    return found.value


async def test_a_collector_of_traces_by_its_own_variable_and_by_what_the_system_trusts(trust, wanted, ca, monkeypatch):
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    async with serving(answering(ACCEPTED), tls=trust.server.serving()) as server:
        assert await asyncio.to_thread(exported, server.url, str(ca)) is wanted
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        assert await asyncio.to_thread(exported, server.url, True) is wanted


def exported(url: str, verify: bool | str) -> bool:
    with export.session() as session:
        session.verify = verify
        try:
            return session.post(url, data=b"{}", timeout=CONNECT_SECONDS).status_code == 202
        except (requests.exceptions.SSLError, OSError):
            return False
