"""The kn plugin takes the API servers' certificates that Go takes, and reads their files again.

Also with the defaults of Python 3.13, whatever Python this is; tests/hosts runs this file on the other Pythons.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from headrace.core.errors import Unavailable
from headrace_cli.cluster.kube import Kube
from tests.support.http.authorities import REFUSED, TAKEN, as_openssl_makes_it
from tests.support.http.raw_server import answering, serving

pytest_plugins = ["tests.support.http.strict_defaults"]
pytestmark = pytest.mark.usefixtures("as_since_3_13")

EMPTY = b'{"items":[]}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b" % (
    len(EMPTY),
    EMPTY,
)
# urllib3 loads them by itself, as kubectl's data and files: one that can't be read spoils the others.
BY_URLLIB3 = {name: made for name, made in TAKEN.items() if name != "beside a broken one"}


def written(directory: Path, url: str, token: str = "t0ken", **cluster: str) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
    }
    file = directory / "kubeconfig"
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


async def answers(kube: Kube) -> bool:
    try:
        return await kube.channels(None) == []
    except Unavailable:
        return False


@pytest.mark.parametrize("how", ["file", "data"])
@pytest.mark.parametrize("name", [*BY_URLLIB3, *REFUSED])
async def test_what_go_takes_is_taken_and_what_it_refuses_is_refused(name: str, how: str, tmp_path: Path) -> None:
    trust = (BY_URLLIB3 | REFUSED)[name]()
    (tmp_path / "ca.crt").write_bytes(trust.authorities)
    ca = {
        "file": {"certificate-authority": "ca.crt"},
        "data": {"certificate-authority-data": base64.b64encode(trust.authorities).decode()},
    }
    async with serving(answering(ANSWER), tls=trust.server.serving()) as server:
        assert await answers(Kube(written(tmp_path, server.url, **ca[how]), None)) is (name in TAKEN)


async def test_what_the_system_trusts_counts_where_no_authority_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = as_openssl_makes_it()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.crt"))
    async with serving(answering(ANSWER), tls=authority.issue("127.0.0.1").serving()) as server:
        assert await answers(Kube(written(tmp_path, server.url), None))


async def test_a_server_that_nobody_wants_to_be_checked_is_not(tmp_path: Path) -> None:
    server_side = as_openssl_makes_it().issue("other.example").serving()
    async with serving(answering(ANSWER), tls=server_side) as server:
        kubeconfig = written(tmp_path, server.url)
        config = json.loads(kubeconfig.read_text())
        config["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
        kubeconfig.write_text(json.dumps(config))
        assert await answers(Kube(kubeconfig, None))


async def test_another_authority_and_another_token_count_from_when_they_are_on_disk(tmp_path: Path) -> None:
    old, new = as_openssl_makes_it(), as_openssl_makes_it()
    ca = tmp_path / "ca.crt"
    ca.write_bytes(old.pem)
    async with (
        serving(answering(ANSWER), tls=old.issue("127.0.0.1").serving()) as first,
        serving(answering(ANSWER), tls=new.issue("127.0.0.1").serving()) as second,
    ):
        kube = Kube(written(tmp_path, first.url, **{"certificate-authority": "ca.crt"}), None)
        assert await answers(kube)
        ca.write_bytes(new.pem)
        assert not await answers(kube)
        written(tmp_path, second.url, "another", **{"certificate-authority": "ca.crt"})
        assert await answers(kube)
        # Somebody is in the middle of writing it.
        (tmp_path / "kubeconfig").write_text("{", encoding="utf-8")
        assert await answers(kube)
    assert [
        b"authorization: Bearer another" in {line.lower().replace(b"bearer", b"Bearer") for line in one.lines}
        for one in second.requests
    ] == [True, True]
