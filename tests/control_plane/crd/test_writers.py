"""Several who write to one channel: its author, Knative's controllers, and the operator."""

from __future__ import annotations

from typing import Any

from tests.control_plane.channel_manifests import channel
from tests.support.kube.kube_api import CHANNELS, Answer, Api
from tests.support.waiting import until


def subscribed(uid: str, **fields: Any) -> dict[str, Any]:
    return {"uid": uid, "subscriberUri": f"http://{uid}", **fields}


def uids(answer: Answer) -> list[str]:
    return [entry["uid"] for entry in answer.unwrapped()["spec"].get("subscribers", ())]


async def test_two_appliers_own_their_subscribers_and_leave_each_others_alone(api: Api, namespace: str) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    await api.apply(path, channel(spec={"subscribers": [subscribed("a")]}), manager="first")

    both = await api.apply(path, channel(spec={"subscribers": [subscribed("b")]}), manager="second")
    one = await api.apply(path, channel(spec={}), manager="first")

    assert uids(both) == ["a", "b"]
    assert uids(one) == ["b"]


async def test_an_applier_that_overwrites_anothers_subscriber_is_told_whose_it_is(api: Api, namespace: str) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    await api.apply(path, channel(spec={"subscribers": [subscribed("a", generation=1)]}), manager="first")
    theirs = channel(spec={"subscribers": [subscribed("a", generation=2)]})

    refused = await api.apply(path, theirs, manager="second")
    forced = await api.apply(path, theirs, manager="second", force=True)

    assert refused.status == 409
    assert 'conflict with "first"' in refused.message
    assert forced.unwrapped()["spec"]["subscribers"][0]["generation"] == 2


async def test_the_authors_apply_leaves_what_the_subscription_controller_wrote(api: Api, namespace: str) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    await api.apply(path, channel(spec={"stream": {"config": {"maxBytes": 5}}}), manager="kubectl")
    (await api.merge(path, {"spec": {"subscribers": [subscribed("a")]}})).unwrapped()

    again = await api.apply(path, channel(spec={"stream": {"config": {"maxBytes": 6}}}), manager="kubectl")

    assert uids(again) == ["a"]
    assert again.unwrapped()["spec"]["stream"]["config"]["maxBytes"] == 6


async def test_the_subscription_controllers_patches_replace_the_whole_list(api: Api, namespace: str) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    (await api.create(CHANNELS.format(namespace=namespace), channel())).unwrapped()

    two = await api.merge(path, {"spec": {"subscribers": [subscribed("a"), subscribed("b")]}})
    one = await api.merge(path, {"spec": {"subscribers": [subscribed("b")]}})
    none = await api.merge(path, {"spec": {"subscribers": None}})

    assert (uids(two), uids(one), uids(none)) == (["a", "b"], ["b"], [])


async def test_one_subscriber_with_nonsense_keeps_no_other_out(api: Api, namespace: str) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    (await api.create(CHANNELS.format(namespace=namespace), channel())).unwrapped()
    nonsense = {"uid": "a", "delivery": {"timeout": "PT1H", "retry": -1, "backoffPolicy": "often"}}

    answer = await api.merge(path, {"spec": {"subscribers": [nonsense, subscribed("b")]}})

    assert uids(answer) == ["a", "b"]


async def test_a_brokers_patch_of_one_value_is_taken(api: Api, namespace: str) -> None:
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel(spec={"delivery": {"retry": 10}}))).unwrapped()

    answer = await api.json_patch(f"{path}/orders", [{"op": "replace", "path": "/spec/delivery/retry", "value": 5}])

    assert answer.unwrapped()["spec"]["delivery"] == {"retry": 5}


async def test_ghosts_are_pruned_only_from_the_list_that_was_looked_at(api: Api, namespace: str) -> None:
    path = CHANNELS.format(namespace=namespace)
    spec = {"subscribers": [subscribed("ghost"), subscribed("b")]}
    seen = (await api.create(path, channel(spec=spec))).unwrapped()["metadata"]["resourceVersion"]
    prune = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": seen},
        {"op": "replace", "path": "/spec/subscribers", "value": [subscribed("b")]},
    ]

    taken = await api.json_patch(f"{path}/orders", prune)
    stale = await api.json_patch(f"{path}/orders", prune)

    assert uids(taken) == ["b"]
    assert stale.status in (409, 422)


async def test_what_a_channel_owns_goes_with_it(api: Api, namespace: str) -> None:
    channels, services = CHANNELS.format(namespace=namespace), f"/api/v1/namespaces/{namespace}/services"
    owner = (await api.create(channels, channel())).unwrapped()
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": "orders",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "orders-kn-jsm-channel", "ownerReferences": [reference]},
        "spec": {"type": "ExternalName", "externalName": "receive.knative-eventing.svc.cluster.local"},
    }
    (await api.create(services, service)).unwrapped()

    (await api.delete(f"{channels}/orders")).unwrapped()

    await api.gone(f"{services}/orders-kn-jsm-channel")


async def test_a_namespace_takes_its_channels_along_once_their_finalizers_let_go(api: Api, namespace: str) -> None:
    path = f"{CHANNELS.format(namespace=namespace)}/orders"
    held = channel(finalizers=["natsjetstreamchannels.messaging.knative.dev"])
    (await api.create(CHANNELS.format(namespace=namespace), held)).unwrapped()

    (await api.delete(f"/api/v1/namespaces/{namespace}")).unwrapped()

    async def told_to_go() -> bool:
        return "deletionTimestamp" in (await api.get(path)).unwrapped()["metadata"]

    await until("the channel is told to go", told_to_go, 120.0)
    (await api.merge(path, {"metadata": {"finalizers": None}})).unwrapped()
    await api.gone(f"/api/v1/namespaces/{namespace}")
