"""Events to an address that checks tokens, which a real API server issues: from the Subscription to the delivery.

Real are the API server, the nats-server, the operator and the three functions. The test plays Knative, which makes the
Subscription's account, and in its order: the entry in the channel comes before the Subscription's status.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jwt
import pytest

from tests.control_plane.channel_manifests import channel
from tests.control_plane.channels.test_channels import until_status
from tests.control_plane.channels.test_whole import functions as functions
from tests.control_plane.channels.test_whole import post
from tests.support.functions.functions import Function
from tests.support.http.subscriber import Answer, Hold, Place, Received, Say, Subscriber
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.operator_process import OperatorProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.waiting import until

ACCOUNT, AUDIENCE = "billing-oidc", "messaging.example/billing"


@dataclass
class Billing:
    """A subscriber that checks tokens by the API server's keys, and the objects around its Subscription."""

    api: Api
    namespace: str
    place: Place
    keys: jwt.PyJWKSet
    refused: list[str]

    async def make_account(self) -> None:
        body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}
        (await self.api.create(f"/api/v1/namespaces/{self.namespace}/serviceaccounts", body)).unwrapped()

    async def delete_account(self) -> None:
        await self.api.delete(f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{ACCOUNT}")

    async def subscribe(self) -> None:
        folder = f"/apis/messaging.knative.dev/v1/namespaces/{self.namespace}/subscriptions"
        body = {
            "apiVersion": "messaging.knative.dev/v1",
            "kind": "Subscription",
            "metadata": {"name": "billing"},
            "spec": {"channel": {"name": "orders"}},
        }
        made = (await self.api.create(folder, body)).unwrapped()
        entry = {
            "uid": made["metadata"]["uid"],
            "name": "billing",
            "generation": 1,
            "subscriberUri": self.place.uri,
            "subscriberAudience": AUDIENCE,
            "auth": {"serviceAccountName": ACCOUNT},
        }
        orders = channel("orders", {"subscribers": [entry]})
        (await self.api.create(CHANNELS.format(namespace=self.namespace), orders)).unwrapped()
        await self.is_told("OIDCIdentityUnknown: ")
        status = {"status": {"auth": {"serviceAccountName": ACCOUNT}}}
        (await self.api.merge(f"{folder}/billing/status", status)).unwrapped()

    async def is_told(self, words: str, ready: str = "False") -> None:
        """Wait until the subscriber's entry in the status says so."""

        def is_so(found: dict[str, Any]) -> bool:
            (one,) = found.get("subscribers") or ({},)
            return one.get("ready") == ready and words in one.get("message", "")

        await until_status(self.api, self.namespace, is_so)

    @property
    def tokens(self) -> set[str]:
        """Those that were shown to it."""
        shown = {one.header("authorization") or "" for one in self.place.received}
        return {one.removeprefix("Bearer ") for one in shown}

    def check(self, request: Received) -> str:
        """Why it is not let in; empty where it is."""
        token = (request.header("authorization") or "").removeprefix("Bearer ")
        try:
            kid = jwt.get_unverified_header(token)["kid"]
            key = next(one for one in self.keys.keys if one.key_id == kid)
            claims = jwt.decode(token, key.key, algorithms=["ES256", "RS256"], audience=AUDIENCE)
        except (jwt.PyJWTError, KeyError, StopIteration) as error:
            return repr(error)
        wanted = f"system:serviceaccount:{self.namespace}:{ACCOUNT}"
        return "" if claims["sub"] == wanted and claims["aud"] == [AUDIENCE] else f"it is another's: {claims}"


@pytest.fixture
async def billing(api: Api, namespace: str, subscriber: Subscriber) -> Billing:
    keys = jwt.PyJWKSet.from_dict((await api.get("/openid/v1/jwks", accept="application/jwk-set+json")).unwrapped())
    found = Billing(api, namespace, subscriber.place(), keys, [])

    def answer(request: Received) -> Answer:
        if problem := found.check(request):
            found.refused.append(problem)
            return Say(401)
        return Hold(Say(202)) if request.event["id"] == "held" else Say(202)

    found.place.decides(answer)
    return found


async def everything(api: Api, namespace: str, nats_url: str) -> str:
    """All that is in Kubernetes about the channel, as `kubectl get -o yaml` shows it, and all that is in NATS."""
    folders = [CHANNELS.format(namespace=namespace), f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"]
    folders += [f"/api/v1/namespaces/{namespace}/{kind}" for kind in ("configmaps", "secrets", "serviceaccounts")]
    told = [json.dumps((await api.get(folder)).unwrapped()) for folder in folders]
    async with Nats(nats_url) as nats:
        for stream in await nats.client.jetstream().streams_info():
            name = str(stream.config.name)
            told.append(json.dumps(await nats.call(f"CONSUMER.LIST.{name}", {})))
            told += map(repr, await nats.stored(name))
    return "\n".join(told)


async def test_events_wait_for_their_token_and_are_delivered_with_it_whatever_becomes_of_the_operator(
    operator: Callable[..., OperatorProcess],
    functions: dict[str, Function],
    billing: Billing,
    nats_server: NatsServer,
) -> None:
    api, namespace, place = billing.api, billing.namespace, billing.place
    urls = {"hook": functions["reconcile"].url, "FORWARD_URL": functions["forward"].url, "OPERATOR_SWEEP": "1s"}
    first = operator(**urls)
    await billing.subscribe()
    await billing.is_told("", ready="True")

    # There is no such account: nothing is sent without a token.
    await post(functions["receive"], namespace, "waits")
    await billing.is_told(f"no token of ServiceAccount {namespace}/{ACCOUNT} for the audience '{AUDIENCE}': ")
    assert place.received == []
    await billing.make_account()
    await place.wait(1, 60.0)
    await billing.is_told("", ready="True")

    # The operator dies with a lease open, and comes again without a token and without the account.
    await post(functions["receive"], namespace, "held")
    await place.wait(2, 60.0)
    first.kill()
    await billing.delete_account()
    second = operator(**urls)
    await second.leads()
    await post(functions["receive"], namespace, "after")
    await billing.is_told("no token of ServiceAccount")
    place.release()
    assert place.ids == ["waits", "held"]
    await billing.make_account()
    await place.wait(3, 60.0)
    await billing.is_told("", ready="True")

    async def is_settled() -> bool:
        async with Nats(nats_server.url) as nats:
            (stream,) = [one for one in await nats.client.jetstream().streams_info() if "aside" not in one.config.name]
            (consumer,) = (await nats.call(f"CONSUMER.LIST.{stream.config.name}", {}))["consumers"]
            return (consumer["num_pending"], consumer["num_ack_pending"]) == (0, 0)

    await until("all is settled", is_settled, 60.0)
    assert (place.ids, billing.refused) == (["waits", "held", "after"], [])
    assert len(billing.tokens) == 2
    logs = "\n".join([first.log, second.log, *(one.log for one in functions.values())])
    told = logs + await everything(api, namespace, nats_server.url)
    assert ACCOUNT in told
    assert AUDIENCE in told
    for token in billing.tokens:
        # A token's last part is what makes it one.
        assert all(part not in told for part in (token, token.rpartition(".")[2]))
