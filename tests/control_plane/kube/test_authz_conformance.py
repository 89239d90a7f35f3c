"""Knative's `AddressableAuthZConformance`, case by case, from an EventPolicy to what a real `receive` answers.

The names are those of Knative's cases. Operator and `reconcile` are real, and so are the tokens of the API server; the
test writes what Knative's controller writes into a policy's status. Documents are pushed: nothing is mounted.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.core import caller_token
from tests.control_plane.channels.test_channels import create, read, ready, until_status
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import TOKEN, Function
from tests.support.http.sending import BINARY, Reply, send
from tests.support.kube.install import SYSTEM
from tests.support.kube.kube_api import Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.waiting import until

Start = Callable[..., OperatorProcess]
FEATURES = f"/api/v1/namespaces/{SYSTEM}/configmaps"
VALID = [{"prefix": {"type": "valid"}}]
ENCODINGS = ["binary", "structured"]
# An edit counts within a second.
SOON = 1.0


@dataclass
class Addressable:
    """A channel, the policies of its namespace, and the `receive` that takes its events."""

    api: Api
    namespace: str
    url: str
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def policies(self) -> str:
        return f"/apis/eventing.knative.dev/v1alpha1/namespaces/{self.namespace}/eventpolicies"

    def identity(self, account: str) -> str:
        return f"system:serviceaccount:{self.namespace}:{account}"

    async def token(self, account: str) -> str:
        if account not in self.tokens:
            accounts = f"/api/v1/namespaces/{self.namespace}/serviceaccounts"
            await self.api.create(
                accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account}}
            )
            audience = f"messaging.knative.dev/natsjetstreamchannel/{self.namespace}/orders"
            spec = {"audiences": [audience], "expirationSeconds": 600}
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
            made = (await self.api.create(f"{accounts}/{account}/token", body)).unwrapped()
            self.tokens[account] = str(made["status"]["token"])
        return self.tokens[account]

    async def send(self, account: str, encoding: str = "binary", **attributes: str) -> Reply:
        shown = {"authorization": f"Bearer {await self.token(account)}"}
        event = {"specversion": "1.0", "id": f"{time.monotonic_ns()}", "source": "/shop", "type": "any", **attributes}
        path = f"{self.url}/{self.namespace}/orders"
        if encoding == "structured":
            kind = {"content-type": "application/cloudevents+json"}
            return await send(path, json.dumps(event).encode(), {**kind, **shown})
        return await send(path, b"{}", {**BINARY, **{f"ce-{name}": value for name, value in event.items()}, **shown})

    async def police(self, *accounts: str, ready: str = "True", filters: Any = ()) -> None:
        """The policy `ep`, as Knative's controller leaves it."""
        target = {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"}
        subjects = [self.identity(account) for account in accounts]
        spec = {"to": [{"ref": target}], "from": [{"sub": one} for one in subjects], "filters": list(filters)}
        status = {"from": subjects, "conditions": [{"type": "Ready", "status": ready}]}
        body = {"apiVersion": "eventing.knative.dev/v1alpha1", "kind": "EventPolicy", "metadata": {"name": "ep"}}
        if not (await self.api.merge(f"{self.policies}/ep", {"spec": spec})).accepted:
            (await self.api.create(self.policies, {**body, "spec": spec})).unwrapped()
        (await self.api.merge(f"{self.policies}/ep/status", {"status": status})).unwrapped()

    async def answers(self, account: str, status: int, **attributes: str) -> float:
        """The seconds until it answers so."""
        began = time.monotonic()

        async def so() -> bool:
            return (await self.send(account, **attributes)).status == status

        await until(f"the answer is {status}", so, 60)
        return time.monotonic() - began


@pytest.fixture
async def channel(
    operator: Start, api: Api, namespace: str, nats_server: NatsServer, tmp_path: Path
) -> AsyncIterator[Addressable]:
    system = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}}
    assert (await api.create("/api/v1/namespaces", system)).status in (201, 409)
    data = {"authentication-oidc": "enabled", "default-authorization-mode": "allow-all"}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config-features"}, "data": data}
    (await api.create(FEATURES, body)).unwrapped()
    made = {"HEADRACE_IMAGE": IMAGE, "HEADRACE_RUNTIME": "deployment", "SYSTEM_NAMESPACE": namespace}
    key = caller_token.delivery_key(TOKEN.encode(), namespace)
    place = {"HEADRACE_SECURITY_DIR": str(tmp_path / "none"), "HEADRACE_SECURITY_PLACE": namespace}
    with (
        Function("reconcile", nats_server.url, tmp_path, **made) as reconcile,
        Function("receive", nats_server.url, tmp_path, HEADRACE_DELIVERY_KEY=key, **place) as receive,
    ):
        operator(hook=reconcile.url)
        await create(api, namespace)
        found = Addressable(api, namespace, receive.url)
        await until_status(api, namespace, lambda status: bool(status.get("conditions")))
        await until("the channel takes events with tokens", lambda: _takes(found), 60)
        yield found
    await api.delete(f"{FEATURES}/config-features")


async def _takes(channel: Addressable) -> bool:
    without = await send(f"{channel.url}/{channel.namespace}/orders", b"{}", BINARY)
    return (without.status, (await channel.send("warm")).status) == (401, 202)


def told(status: dict[str, Any]) -> tuple[str, str, list[str]]:
    conditions = {one["type"]: one for one in status.get("conditions", ())}
    one = conditions.get("EventPoliciesReady", {})
    return one.get("status", ""), one.get("reason", ""), [each["name"] for each in status.get("policies", ())]


async def test_natsjetstreamchannel_authorization_in_requests(channel: Addressable) -> None:
    """Accepts authorized, rejects unauthorized requests, admits by filters, becomes NotReady; each encoding."""
    assert told((await read(channel.api, channel.namespace))["status"]) == ("True", "DefaultAuthorizationMode", [])

    await channel.police("source")
    await channel.answers("other", 403)
    for encoding in ENCODINGS:
        assert (await channel.send("source", encoding)).status == 202, "accepts authorized request"
        assert (await channel.send("other", encoding)).status == 403, "rejects unauthorized request"
    await until_status(channel.api, channel.namespace, lambda status: told(status) == ("True", "", ["ep"]))

    await channel.police("source", "other", filters=VALID)
    await channel.answers("other", 202, type="valid.event.type")
    for encoding in ENCODINGS:
        sent = [
            await channel.send("source", encoding, type=kind) for kind in ("valid.event.type", "invalid.event.type")
        ]
        assert [one.status for one in sent] == [202, 403], "only admits events that pass the event policy filter"

    await channel.police("source", ready="False")
    await channel.answers("source", 500)
    not_ready = ("False", "EventPoliciesNotReady", [])
    await until_status(
        channel.api, channel.namespace, lambda status: (told(status), ready(status)) == (not_ready, "False")
    )

    await channel.api.delete(f"{channel.policies}/ep")
    await channel.answers("other", 202)


async def test_an_edit_under_load_counts_within_a_second_and_nothing_is_wrongly_let_in_after_it(
    channel: Addressable,
) -> None:
    answers: list[tuple[float, str, int]] = []
    stop = asyncio.Event()

    async def load(account: str) -> None:
        while not stop.is_set():
            began = time.monotonic()
            answers.append((began, account, (await channel.send(account)).status))
            await asyncio.sleep(0.01)

    await channel.police("one", "two")
    await channel.answers("three", 403)
    senders = [asyncio.create_task(load(account)) for account in ("one", "two")]
    edits: list[tuple[float, str]] = []
    for let_in in ("one", "two", "one", "two"):
        await asyncio.sleep(1.5)
        edits.append((time.monotonic(), let_in))
        await channel.police(let_in)
    await asyncio.sleep(1.5)
    stop.set()
    await asyncio.gather(*senders)

    lasting = []
    for (edited, let_in), end in zip(edits, [*(at for at, _ in edits[1:]), time.monotonic()], strict=True):
        during = [(began, account, status) for began, account, status in answers if edited <= began < end]
        wrong = [began for began, account, status in during if status != (202 if account == let_in else 403)]
        lasting.append(max(wrong, default=edited) - edited)
        assert [one for one in during if one[0] > edited + lasting[-1]] != []
    assert {status for _, _, status in answers} == {202, 403}
    assert max(lasting) < SOON, lasting
