"""Addresses follow Knative's flag `transport-encryption` within 5 s, with the authority of a certificate's Secret."""

from __future__ import annotations

import base64
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.control_plane.channels.test_channels import create, until_status
from tests.control_plane.channels.test_security import features
from tests.support.functions.functions import Function
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer

__all__ = ["features"]

Start = Callable[..., OperatorProcess]
NAME = "headrace-receive-plain-tls"
SECRETS = f"/api/v1/namespaces/{SYSTEM}/secrets"
CERTIFICATE = f"/apis/cert-manager.io/v1/namespaces/{SYSTEM}/certificates/{NAME}"
PATIENCE = 5.0


@pytest.fixture
async def secret(api: Api) -> AsyncIterator[str]:
    """As cert-manager makes it of our Certificate; returns the authority's PEM."""
    yield trustme.CA().cert_pem.bytes().decode()
    await api.delete(f"{SECRETS}/{NAME}")


def named(status: dict[str, Any]) -> tuple[str, list[str]]:
    """The names of the address and of the addresses."""
    return (status.get("address") or {}).get("name", ""), [one["name"] for one in status.get("addresses") or ()]


async def test_an_edit_of_the_flag_changes_the_addresses_within_5_seconds(
    operator: Start,
    api: Api,
    namespace: str,
    nats_server: NatsServer,
    tmp_path: Path,
    features: str,
    secret: str,
) -> None:
    async def turns(mode: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        began = time.monotonic()
        (await api.merge(features, {"data": {"transport-encryption": mode}})).unwrapped()
        await until_status(api, namespace, wanted)
        assert time.monotonic() - began < PATIENCE
        found: dict[str, Any] = (
            await api.get(f"/apis/messaging.knative.dev/v1alpha1/namespaces/{namespace}/natsjetstreamchannels/orders")
        ).unwrapped()["status"]
        return found

    def lacking(status: dict[str, Any]) -> tuple[str, str]:
        conditions = {one["type"]: one for one in status.get("conditions") or ()}
        one = conditions.get("EncryptionReady") or conditions.get("Addressable") or {}
        return one.get("type", ""), one.get("reason", "")

    made = {"HEADRACE_IMAGE": "headrace", "HEADRACE_RUNTIME": "deployment"}
    with Function("reconcile", nats_server.url, tmp_path, **made) as reconcile:
        operator(hook=reconcile.url)
        await create(api, namespace)
        await until_status(api, namespace, lambda found: "url" in (found.get("address") or {}))
        plain = await turns("disabled", lambda found: named(found) == ("", []))
        assert (await api.get(CERTIFICATE)).status == 404
        # While there is no certificate a permissive channel keeps its address, and a strict one has none.
        await turns("permissive", lambda found: lacking(found) == ("EncryptionReady", "CertificateMissing"))
        assert (await api.get(CERTIFICATE)).unwrapped()["spec"]["secretName"] == NAME
        await turns("strict", lambda found: lacking(found) == ("Addressable", "CertificateMissing"))

        data = {"ca.crt": secret, "tls.crt": "c", "tls.key": "k"}
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
        body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": NAME}, "data": encoded}
        (await api.create(SECRETS, body)).unwrapped()
        await until_status(api, namespace, lambda found: named(found) == ("https", ["https"]))
        both = await turns("permissive", lambda found: named(found) == ("http", ["https", "http"]))
        https = {
            "name": "https",
            "url": f"https://headrace-receive-plain.{SYSTEM}.svc.cluster.local/{namespace}/orders",
            "CACerts": secret,
        }
        http = {"name": "http", **plain["address"]}
        assert (both["address"], both["addresses"]) == (http, [https, http])
        strict = await turns("strict", lambda found: named(found) == ("https", ["https"]))
        assert (strict["address"], strict["addresses"]) == (https, [https])
        last = await turns("disabled", lambda found: named(found) == ("", []))
        assert last["address"] == plain["address"]
