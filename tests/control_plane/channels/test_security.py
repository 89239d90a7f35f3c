"""A demand of Knative's security that is not enforced yet shows in a channel's condition, and goes from it again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.core.security.document import KEY, SecurityDocument
from headrace.core.security.flags import TransportEncryption
from tests.control_plane.channels.test_channels import create, ready, until_status
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import Function
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
CONFIG_MAPS = f"/api/v1/namespaces/{SYSTEM}/configmaps"

POLICIES = "EventPoliciesReady"


@pytest.fixture
def reconcile(nats_server: NatsServer, tmp_path: Path) -> Iterator[Function]:
    with Function("reconcile", nats_server.url, tmp_path) as function:
        yield function


@pytest.fixture
async def features(api: Api) -> AsyncIterator[str]:
    """Knative's flags, all at their defaults."""
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    assert (await api.create("/api/v1/namespaces", namespace)).status in (201, 409)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config-features"}, "data": {}}
    (await api.create(CONFIG_MAPS, body)).unwrapped()
    yield f"{CONFIG_MAPS}/config-features"
    await api.delete(f"{CONFIG_MAPS}/config-features")


def told(status: dict[str, Any], kind: str = "SecurityEnforced") -> tuple[str, str]:
    conditions = status.get("conditions") or ()
    one = next((each for each in conditions if each["type"] == kind), {})
    return one.get("status", ""), one.get("reason", "")


async def test_a_policy_that_is_not_enforced_is_told_while_it_is_there(
    operator: Start, api: Api, namespace: str, reconcile: Function, features: str
) -> None:
    policies = f"/apis/eventing.knative.dev/v1alpha1/namespaces/{namespace}/eventpolicies"
    target = {"ref": {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}}
    policy = {
        "apiVersion": "eventing.knative.dev/v1alpha1",
        "kind": "EventPolicy",
        "metadata": {"name": "only-the-shop"},
        "spec": {"to": [target], "from": [{"sub": "system:serviceaccount:shop:till"}]},
    }
    operator(hook=reconcile.url)
    await create(api, namespace)
    await create(api, namespace, "returns")
    for name in ("orders", "returns"):
        await until_status(api, namespace, lambda found: ready(found) == "True" and told(found) == ("", ""), name)

    (await api.create(policies, policy)).unwrapped()
    await until_status(api, namespace, lambda found: told(found, POLICIES) == ("False", "OIDCDisabled"))
    await api.delete(f"{policies}/only-the-shop")
    await until_status(api, namespace, lambda found: told(found, POLICIES) == ("", ""))


@pytest.fixture
def making(nats_server: NatsServer, tmp_path: Path, namespace: str) -> Iterator[Function]:
    """A `reconcile` that makes functions, with the test's namespace for the installation's."""
    settings = {"HEADRACE_IMAGE": IMAGE, "HEADRACE_RUNTIME": "deployment", "SYSTEM_NAMESPACE": namespace}
    with Function("reconcile", nats_server.url, tmp_path, **settings) as function:
        yield function


async def test_an_edit_of_a_flag_or_a_trust_bundle_is_in_the_document_of_the_functions_within_seconds(
    operator: Start, api: Api, namespace: str, making: Function, features: str
) -> None:
    path = f"/api/v1/namespaces/{namespace}/configmaps/headrace-security"

    async def document() -> SecurityDocument | None:
        found = await api.get(path)
        return SecurityDocument.from_json(found.body["data"][KEY]) if found.accepted else None

    async def within_seconds(what: str, holds: Callable[[SecurityDocument], bool]) -> SecurityDocument:
        async def so() -> bool:
            found = await document()
            return found is not None and holds(found)

        await until(what, so, 5.0)
        found = await document()
        assert found is not None
        return found

    operator(hook=making.url)
    await create(api, namespace)
    await until_status(api, namespace, lambda found: bool(found.get("address")))
    assert (await api.get(path)).status == 404, "nothing is asked for"

    (await api.merge(features, {"data": {"transport-encryption": "Strict", "authentication-oidc": "on"}})).unwrapped()
    first = await within_seconds(
        "the flag is in it", lambda found: found.flags.transport_encryption is TransportEncryption.STRICT
    )
    assert first.flags.oidc is False
    await until_status(api, namespace, lambda found: told(found, "FlagsUnderstood") == ("False", "FlagUnknown"))

    bundle = {"metadata": {"name": "ours", "labels": {"networking.knative.dev/trust-bundle": "true"}}}
    pem = "-----BEGIN CERTIFICATE-----\nYQ==\n-----END CERTIFICATE-----"
    (await api.create(CONFIG_MAPS, {**bundle, "data": {"any": pem}})).unwrapped()
    second = await within_seconds("the bundle is in it", lambda found: found.trust == pem)
    assert second.revision > first.revision

    await api.delete(f"{CONFIG_MAPS}/ours")
    (await api.merge(features, {"data": {"transport-encryption": None, "authentication-oidc": None}})).unwrapped()
    third = await within_seconds("nothing is asked for any more", lambda found: found.asks_for_nothing)
    assert third.revision > second.revision
    await until_status(api, namespace, lambda found: told(found, "FlagsUnderstood") == ("", ""))
