"""The operator's own files: a CA, a token and a kubeconfig that are replaced count without a restart."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.support.http.authorities import as_openssl_makes_it
from tests.support.http.tls_front import TlsFront
from tests.support.kube.api_relay import ApiRelay
from tests.support.kube.hook import Hook
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]


def kubeconfig(directory: Path, server: str, token: str) -> Path:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server, "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file = directory / "of-the-operator"
    file.write_text(yaml.safe_dump(config), encoding="utf-8")
    return file


async def test_an_operator_from_before_its_authority_was_replaced_recovers_by_itself(
    operator: Start, api: Api, namespace: str, hook: Hook, relay: ApiRelay, tmp_path: Path
) -> None:
    old, new = as_openssl_makes_it(), as_openssl_makes_it()
    authority = tmp_path / "ca.crt"
    authority.write_bytes(old.pem)
    async with TlsFront(relay.port, old.issue("127.0.0.1")) as front:
        file = kubeconfig(tmp_path, f"https://127.0.0.1:{front.port}", "first")
        running = operator(KUBECONFIG=str(file))
        await create(api, namespace, "one")
        await until_status(api, namespace, lambda found: ready(found) == "True", "one")
        began = running.pid

        await front.show(new.issue("127.0.0.1"))
        await until("the operator is refused", lambda: "CERTIFICATE_VERIFY_FAILED" in running.log)
        # Somebody is in the middle of writing it.
        authority.write_bytes(new.pem[:100])
        await asyncio.sleep(1.0)
        authority.write_bytes(new.pem)
        mended = time.monotonic()
        await create(api, namespace, "two")
        await until_status(api, namespace, lambda found: ready(found) == "True", "two")
        # A watch that was refused again and again is tried after ten seconds, and half as many more.
        assert time.monotonic() - mended < 30.0
        assert running.pid == began

        # Another address and another token, as after a move of the API server.
        async with TlsFront(relay.port, new.issue("127.0.0.1")) as elsewhere:
            kubeconfig(tmp_path, f"https://127.0.0.1:{elsewhere.port}", "second")
            await front.close()
            await create(api, namespace, "three")
            await until_status(api, namespace, lambda found: ready(found) == "True", "three")
            await asyncio.to_thread(running.stop)
