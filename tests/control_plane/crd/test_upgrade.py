"""Our CRD in the place of the Go channel's, with channels that it let through: they can still be used, and mended."""

from __future__ import annotations

import copy
from typing import Any

from infra.generate import crd
from tests.control_plane.channel_manifests import ENTRY
from tests.control_plane.conftest import DEFINITIONS, established
from tests.support.kube.kube_api import Api
from tests.support.waiting import until

# What the Go channel took: a misspelt enum meant its default, and nobody looked at the rest.
LET_THROUGH: dict[str, Any] = {
    "delivery": {"backoffPolicy": "Exponential", "timeout": "PT1H"},
    "stream": {"config": {"retention": "limits", "noAck": True, "maxAge": "forever"}},
    "consumerConfigTemplate": {"deliverPolicy": "all", "optStartSeq": 5},
}


def definition(group: str) -> dict[str, Any]:
    """Ours, in a group of the test's own."""
    found = copy.deepcopy(crd.definition())
    found["metadata"]["name"] = f"natsjetstreamchannels.{group}"
    found["spec"]["group"] = group
    # Nor among those that Knative's labels find.
    del found["metadata"]["labels"]
    return found


async def upgraded(api: Api, group: str) -> str:
    """The path of a channel that was stored under a schema without enums and rules, now under ours."""
    name = f"natsjetstreamchannels.{group}"
    theirs = definition(group)
    theirs["spec"]["versions"][0]["schema"] = {
        "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    }
    (await api.create(DEFINITIONS, theirs)).unwrapped()
    await established(api, name)
    path = f"/apis/{group}/v1alpha1/namespaces/default/natsjetstreamchannels"
    body = {"apiVersion": f"{group}/v1alpha1", "kind": "NatsJetStreamChannel", "metadata": {"name": "orders"}}
    (await api.create(path, {**body, "spec": LET_THROUGH})).unwrapped()
    (await api.merge(f"{DEFINITIONS}/{name}", {"spec": definition(group)["spec"]})).unwrapped()

    async def ours() -> bool:
        other = {**body, "metadata": {"name": "other"}, "spec": LET_THROUGH}
        return not (await api.create(path, other, dry=True)).accepted

    await until("our definition is served", ours, 60.0)
    return f"{path}/orders"


async def test_a_channel_that_would_be_refused_today_is_still_subscribed_to_and_reported_on(api: Api) -> None:
    path = await upgraded(api, "subscribed.example")

    subscribed = await api.merge(path, {"spec": {"subscribers": [ENTRY]}})
    reported = await api.merge(f"{path}/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})

    assert subscribed.accepted, subscribed.message
    assert reported.accepted, reported.message
    assert reported.body["spec"]["subscribers"] == [ENTRY]


async def test_it_is_mended_in_one_edit_and_not_made_worse(api: Api) -> None:
    path = await upgraded(api, "mended.example")

    worse = await api.merge(path, {"spec": {"stream": {"config": {"retention": "Limit"}}}})
    mended = await api.merge(
        path,
        {
            "spec": {
                "delivery": {"backoffPolicy": "exponential", "timeout": "PT9M"},
                "stream": {"config": {"retention": "Limits", "noAck": None, "maxAge": None}},
                "consumerConfigTemplate": {"deliverPolicy": "All", "optStartSeq": None},
            }
        },
    )

    assert worse.status == 422
    assert mended.accepted, mended.message


async def test_its_finalizer_can_let_go(api: Api) -> None:
    path = await upgraded(api, "finalized.example")
    (await api.merge(path, {"metadata": {"finalizers": ["natsjetstreamchannels.messaging.knative.dev"]}})).unwrapped()
    (await api.delete(path)).unwrapped()

    released = await api.merge(path, {"metadata": {"finalizers": None}})

    assert released.accepted, released.message
    await api.gone(path)
