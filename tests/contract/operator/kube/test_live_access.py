"""Files that tell of the API server are read again when they change: by the next request, over a new connection."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from headrace.core.errors import Misconfigured, Unavailable
from headrace_operator.kube.access import from_kubeconfig, from_service_account
from headrace_operator.kube.api import KubeApi
from headrace_operator.kube.live_access import LiveAccess
from tests.support.http.authorities import as_openssl_makes_it
from tests.support.http.raw_server import answering, serving
from tests.support.kube.mounts import Mount

EMPTY = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"


def kubeconfig(directory: Path, server: str, **user: str) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = directory / "kubeconfig"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


async def reached(api: KubeApi) -> bool:
    try:
        await api.get("/")
    except Unavailable:
        return False
    return True


async def test_the_authority_and_the_token_of_a_pod(tmp_path: Path) -> None:
    old, new = as_openssl_makes_it(), as_openssl_makes_it()
    mount = Mount(tmp_path / "account", ca__crt=old.pem.decode(), token="first", namespace="shop")
    async with serving(answering(EMPTY), tls=new.issue("127.0.0.1").serving()) as server:
        current = LiveAccess(lambda: from_service_account("127.0.0.1", server.port, Path(mount.path)))
        async with KubeApi(current.now) as api:
            assert not await reached(api)
            before = current.now()
            mount.swap(ca__crt=new.pem.decode(), token="second", namespace="shop")
            assert await reached(api)
            assert current.now() is not before
            # What has not changed is not read.
            assert current.now() is current.now()
    assert [line for one in server.requests for line in one.lines if b"uthorization" in line] == [
        b"Authorization: Bearer second"
    ]


async def test_a_kubeconfig_that_is_edited_and_one_that_can_not_be_used(tmp_path: Path) -> None:
    authority = as_openssl_makes_it()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    tls = authority.issue("127.0.0.1").serving()
    async with serving(answering(EMPTY), tls=tls) as one, serving(answering(EMPTY), tls=tls) as other:
        file = kubeconfig(tmp_path, one.url, token="first")
        async with KubeApi(LiveAccess(lambda: from_kubeconfig(file)).now) as api:
            assert await reached(api)
            file.write_text("{", encoding="utf-8")
            assert await reached(api)
            file.unlink()
            assert await reached(api)
            kubeconfig(tmp_path, other.url, token="second")
            assert await reached(api)
    assert (len(one.requests), len(other.requests)) == (3, 1)


async def test_a_client_certificate_that_is_renewed_makes_another_context(tmp_path: Path) -> None:
    authority = as_openssl_makes_it()
    (tmp_path / "ca.crt").write_bytes(authority.pem)
    file = kubeconfig(tmp_path, "https://127.0.0.1:1", **{"client-certificate": "tls.crt", "client-key": "tls.key"})

    def renew(name: str) -> None:
        issued = authority.issue(name=name)
        (tmp_path / "tls.crt").write_bytes(issued.pem)
        (tmp_path / "tls.key").write_bytes(issued.key_pem)

    renew("first")
    current = LiveAccess(lambda: from_kubeconfig(file))
    before = current.now().context
    assert current.now().context is before
    renew("second")
    assert current.now().context is not before
    # The key is here, its certificate comes a moment later.
    good = current.now()
    (tmp_path / "tls.key").write_bytes(authority.issue(name="third").key_pem)
    assert current.now() is good


def test_what_can_not_be_used_at_the_start_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured):
        LiveAccess(lambda: from_kubeconfig(tmp_path / "not-there"))


def test_the_authorities_of_the_system_count_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = tmp_path / "system.crt"
    monkeypatch.setenv("SSL_CERT_FILE", str(system))
    system.write_bytes(as_openssl_makes_it().pem)
    file = tmp_path / "kubeconfig"
    clusters = [{"name": "c", "cluster": {"server": "https://api"}}]
    contexts = [{"name": "x", "context": {"cluster": "c"}}]
    file.write_text(yaml.safe_dump({"clusters": clusters, "contexts": contexts, "current-context": "x"}))
    current = LiveAccess(lambda: from_kubeconfig(file))
    before = current.now().context
    system.write_bytes(as_openssl_makes_it().pem)
    assert current.now().context is not before
