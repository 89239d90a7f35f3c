"""Knative Eventing's own controller and webhook make what people make of channels, and events flow through Headrace.

`task test:neighbours`; docs/neighbours.md says what runs, and what was measured.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import jwt

from headrace.core.event.event_kinds import EventKind
from headrace_operator.channels import event_type
from tests.control_plane.channel_manifests import API_VERSION, channel
from tests.support.functions.functions import Function
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Answer, Place, Received, Say, Subscriber
from tests.support.kube.crowd import is_ready
from tests.support.kube.kube_api import CHANNELS, Api
from tests.support.kube.subscription_controller import SUBSCRIPTIONS
from tests.support.waiting import until

MESSAGING = "/apis/messaging.knative.dev/v1/namespaces/{namespace}/channels"
FLOWS = "/apis/flows.knative.dev/v1/namespaces/{namespace}/{plural}"
CONFIG_MAPS = "/api/v1/namespaces/knative-eventing/configmaps"
TEMPLATE = {"apiVersion": API_VERSION, "kind": "NatsJetStreamChannel"}


async def ready(api: Api, path: str) -> dict[str, Any]:
    """The object once it is Ready; the last status in the words of a failure."""
    found: dict[str, Any] = {}

    async def is_so() -> bool:
        found.clear()
        found.update((await api.get(path)).unwrapped())
        return is_ready(found)

    try:
        await until(f"{path} is Ready", is_so, 60.0)
    except AssertionError as late:
        raise AssertionError(f"{late}; its status is {found.get('status')}") from late
    return found


async def post(url: str, event: str, **attributes: str) -> None:
    more = {f"ce-{name}": value for name, value in attributes.items()}
    reply = await send(url, b'{"n": 1}', {**BINARY, "ce-id": event, **more})
    assert reply.status == 202, reply


def subscription(name: str, of: Mapping[str, str], place: Place) -> dict[str, Any]:
    return {
        "apiVersion": "messaging.knative.dev/v1",
        "kind": "Subscription",
        "metadata": {"name": name},
        "spec": {"channel": dict(of), "subscriber": {"uri": place.uri}},
    }


def flow(kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "flows.knative.dev/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {"channelTemplate": TEMPLATE, **spec},
    }


def replies(mark: str) -> Callable[[Received], Answer]:
    """Answers with a new event, whose id is that of the old one and a mark."""
    return lambda received: Say(200, {**BINARY, "ce-id": received.event["id"] + mark, "ce-type": "reply"}, b'{"n": 2}')


async def test_a_subscription_to_our_channel_is_ready_and_events_flow(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber
) -> None:
    place = subscriber.place()
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel("orders"))).unwrapped()
    subscriptions = SUBSCRIPTIONS.format(namespace=namespace)
    (await api.create(subscriptions, subscription("billing", {**TEMPLATE, "name": "orders"}, place))).unwrapped()
    await ready(api, f"{subscriptions}/billing")
    of = await ready(api, f"{path}/orders")

    await post(of["status"]["address"]["url"], "1")

    await place.wait(1, 60.0)
    assert place.ids == ["1"]
    await api.delete(f"{subscriptions}/billing")
    await api.gone(f"{subscriptions}/billing")
    await api.delete(f"{path}/orders")
    await api.gone(f"{path}/orders")


async def test_a_channel_whose_template_is_ours_is_ready_and_events_flow(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber
) -> None:
    place, path = subscriber.place(), MESSAGING.format(namespace=namespace)
    generic = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel"}
    body = {**generic, "metadata": {"name": "generic"}, "spec": {"channelTemplate": TEMPLATE}}
    (await api.create(path, body)).unwrapped()
    subscriptions = SUBSCRIPTIONS.format(namespace=namespace)
    (await api.create(subscriptions, subscription("audit", {**generic, "name": "generic"}, place))).unwrapped()
    of = await ready(api, f"{path}/generic")
    await ready(api, f"{subscriptions}/audit")

    await post(of["status"]["address"]["url"], "1")

    await place.wait(1, 60.0)
    assert place.ids == ["1"]
    # With its owner goes the channel, and with that its streams.
    await api.delete(f"{path}/generic")
    await api.gone(f"{CHANNELS.format(namespace=namespace)}/generic")


async def test_a_channel_whose_template_is_a_mirror_is_ready_and_its_subscribers_get_what_is_mirrored(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber
) -> None:
    place, path = subscriber.place(), MESSAGING.format(namespace=namespace)
    (await api.create(CHANNELS.format(namespace=namespace), channel("origin"))).unwrapped()
    origin = await ready(api, f"{CHANNELS.format(namespace=namespace)}/origin")
    mirror = {**TEMPLATE, "spec": {"stream": {"config": {"mirror": {"name": origin["status"]["stream"]}}}}}
    generic = {"apiVersion": "messaging.knative.dev/v1", "kind": "Channel"}
    body = {**generic, "metadata": {"name": "copies"}, "spec": {"channelTemplate": mirror}}
    (await api.create(path, body)).unwrapped()
    subscriptions = SUBSCRIPTIONS.format(namespace=namespace)
    (await api.create(subscriptions, subscription("audit", {**generic, "name": "copies"}, place))).unwrapped()
    of = await ready(api, f"{path}/copies")
    await ready(api, f"{subscriptions}/audit")

    await post(origin["status"]["address"]["url"], "1")
    refused = await send(of["status"]["address"]["url"], b"{}", BINARY)

    await place.wait(1, 60.0)
    assert place.ids == ["1"]
    assert refused.status == 403
    for gone in (f"{subscriptions}/audit", f"{path}/copies", f"{CHANNELS.format(namespace=namespace)}/origin"):
        await api.delete(gone)
        await api.gone(gone)


async def test_a_sequence_is_ready_and_hands_replies_from_step_to_step(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber
) -> None:
    steps = [subscriber.place().decides(replies("a")), subscriber.place().decides(replies("b"))]
    end = subscriber.place()
    path = FLOWS.format(namespace=namespace, plural="sequences")
    spec = {"steps": [{"uri": step.uri} for step in steps], "reply": {"uri": end.uri}}
    (await api.create(path, flow("Sequence", "line", spec))).unwrapped()
    of = await ready(api, f"{path}/line")

    await post(of["status"]["address"]["url"], "1")

    await end.wait(1, 60.0)
    assert [step.ids for step in steps] == [["1"], ["1a"]]
    assert end.ids == ["1ab"]

    # A step less is a channel less, which Knative's controller deletes.
    (await api.merge(f"{path}/line", {"spec": {"steps": spec["steps"][:1]}})).unwrapped()
    await api.gone(f"{CHANNELS.format(namespace=namespace)}/line-kn-sequence-1")
    numbers = itertools.count(2)

    async def goes_the_short_way() -> bool:
        # Knative tells of the edit as Ready a moment before the channel hears of it: the first may go the old way.
        await post(of["status"]["address"]["url"], str(next(numbers)))
        await asyncio.sleep(0.2)
        return any(event.endswith("a") for event in end.ids)

    await until("the first step's reply goes to the end", goes_the_short_way, 60.0)


async def test_a_parallel_is_ready_and_takes_the_branches_whose_filters_answer(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber
) -> None:
    filters = [subscriber.place().decides(replies("-passed")), subscriber.place(Say(202))]
    branches = [subscriber.place().decides(replies("-done")), subscriber.place().decides(replies("-never"))]
    end = subscriber.place()
    path = FLOWS.format(namespace=namespace, plural="parallels")
    pairs = [
        {"filter": {"uri": one.uri}, "subscriber": {"uri": two.uri}} for one, two in zip(filters, branches, strict=True)
    ]
    (await api.create(path, flow("Parallel", "fork", {"branches": pairs, "reply": {"uri": end.uri}}))).unwrapped()
    of = await ready(api, f"{path}/fork")

    await post(of["status"]["address"]["url"], "1")

    await end.wait(1, 60.0)
    await filters[1].wait(1, 60.0)
    assert [one.ids for one in filters] == [["1"], ["1"]]
    assert [one.ids for one in branches] == [["1-passed"], []]
    assert end.ids == ["1-passed-done"]


async def test_with_knatives_oidc_on_events_go_out_with_a_token_of_the_account_that_it_has_made(
    headrace: dict[str, Function], api: Api, namespace: str, subscriber: Subscriber
) -> None:
    place, path = subscriber.place(), CHANNELS.format(namespace=namespace)
    subscriptions, features = SUBSCRIPTIONS.format(namespace=namespace), f"{CONFIG_MAPS}/config-features"
    (await api.merge(features, {"data": {"authentication-oidc": "enabled"}})).unwrapped()
    try:
        (await api.create(path, channel("orders"))).unwrapped()
        body = subscription("billing", {**TEMPLATE, "name": "orders"}, place)
        body["spec"]["subscriber"]["audience"] = "billing.example"
        (await api.create(subscriptions, body)).unwrapped()
        known = await ready(api, f"{subscriptions}/billing")
        of = await ready(api, f"{path}/orders")

        await post(of["status"]["address"]["url"], "1")

        (received,) = await place.wait(1, 60.0)
        token = (received.header("authorization") or "").removeprefix("Bearer ")
        claims = jwt.decode(token, options={"verify_signature": False})
        account = known["status"]["auth"]["serviceAccountName"]
        assert (claims["sub"], claims["aud"]) == (f"system:serviceaccount:{namespace}:{account}", ["billing.example"])
        (entry,) = (await api.get(f"{path}/orders")).unwrapped()["status"]["subscribers"]
        assert (entry["ready"], entry["auth"]) == ("True", {"serviceAccountName": account})
    finally:
        (await api.merge(features, {"data": {"authentication-oidc": "disabled"}})).unwrapped()
    for gone in (f"{subscriptions}/billing", f"{path}/orders"):
        await api.delete(gone)
        await api.gone(gone)


async def test_an_event_type_of_ours_is_ready_by_knatives_own_controller_and_webhook(
    headrace: dict[str, Function], api: Api, namespace: str
) -> None:
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel("orders"))).unwrapped()
    orders = await ready(api, f"{path}/orders")
    kind = EventKind("order.created", "/shop", "", "1.0")
    folder = f"/apis/{event_type.EVENTING}/namespaces/{namespace}/eventtypes"

    (await api.create(folder, event_type.body(orders, kind))).unwrapped()

    made = await ready(api, f"{folder}/{event_type.name((namespace, 'orders'), kind)}")
    assert event_type.told(made) == ((namespace, "orders"), "order.created", "/shop")
