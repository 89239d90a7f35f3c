"""The CRD as a cluster shows it: discovery, columns, descriptions, the status of its own."""

from __future__ import annotations

from typing import Any

from tests.control_plane.channel_manifests import channel
from tests.control_plane.conftest import DEFINITIONS
from tests.support.kube.kube_api import CHANNELS, Api

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "conditions": [
        {"type": "Ready", "status": "False", "reason": "StreamNotOurs", "lastTransitionTime": "2026-01-31T12:00:00Z"},
        {"type": "NoEventsStuck", "status": "False", "severity": "Info", "message": "two", "reason": "EventsStuck"},
    ],
    "annotations": {"a": "b"},
    "address": {"name": "http", "url": "http://orders/", "CACerts": "PEM", "audience": "orders"},
    "addresses": [{"name": "https", "url": "https://orders/", "CACerts": "PEM", "audience": "orders"}],
    "deadLetterSinkUri": "http://dead/",
    "deadLetterSinkCACerts": "PEM",
    "deadLetterSinkAudience": "dead",
    "policies": [{"apiVersion": "eventing.knative.dev/v1alpha1", "name": "p"}],
    "subscribers": [
        {
            "uid": "u",
            "observedGeneration": 2,
            "ready": "True",
            "message": "",
            "auth": {"serviceAccountName": "s", "serviceAccountNames": ["s"]},
        }
    ],
    "readySubscribers": "1/1",
    "stream": "KN_SHOP__ORDERS",
    "consumers": [{"uid": "u", "name": "billing", "durable": "KN_SUB_U"}],
}


async def test_the_server_finds_nothing_wrong_with_the_definition(api: Api) -> None:
    found = (await api.get(f"{DEFINITIONS}/natsjetstreamchannels.messaging.knative.dev")).unwrapped()

    conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    assert conditions == {"Established": "True", "NamesAccepted": "True"}
    assert found["spec"]["versions"][0]["schema"]["openAPIV3Schema"].keys() >= {"properties"}


async def test_channels_are_found_by_their_short_name_and_with_all_channels(api: Api) -> None:
    kinds = (await api.get("/apis/messaging.knative.dev/v1alpha1")).unwrapped()["resources"]

    (kind,) = [one for one in kinds if one["name"] == "natsjetstreamchannels"]
    assert kind["shortNames"] == ["natsjsmc"]
    assert kind["categories"] == ["all", "knative", "messaging", "channel"]
    assert "natsjetstreamchannels/status" in {one["name"] for one in kinds}


async def test_knatives_controllers_find_the_kind_by_its_labels(api: Api) -> None:
    for label in ("messaging.knative.dev/subscribable", "duck.knative.dev/addressable", "knative.dev/crd-install"):
        found = (await api.get(f"{DEFINITIONS}?labelSelector={label}%3Dtrue")).unwrapped()

        assert [one["spec"]["names"]["kind"] for one in found["items"]] == ["NatsJetStreamChannel"], label


async def test_the_columns_tell_how_a_channel_is(api: Api, namespace: str) -> None:
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel())).unwrapped()
    (await api.merge(f"{path}/orders/status", {"status": STATUS})).unwrapped()

    table = (await api.get(path, accept=TABLE)).unwrapped()

    shown = dict(zip((one["name"] for one in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert shown.pop("Age")
    assert shown == {
        "Name": "orders",
        "Ready": "False",
        "Reason": "StreamNotOurs",
        "URL": "http://orders/",
        "Subscribers": "1/1",
        "Stream": "KN_SHOP__ORDERS",
        "Retention": "",
        "Storage": "",
    }
    wide = [one["name"] for one in table["columnDefinitions"] if one["priority"]]
    assert wide == ["Stream", "Retention", "Storage"]


async def test_the_status_is_kept_whole_and_apart_from_the_spec(api: Api, namespace: str) -> None:
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel())).unwrapped()

    (
        await api.merge(f"{path}/orders/status", {"spec": {"stream": {"overrideName": "X"}}, "status": STATUS})
    ).unwrapped()
    (await api.merge(f"{path}/orders", {"status": {"stream": "OTHER"}, "spec": {"delivery": {"retry": 1}}})).unwrapped()

    found = (await api.get(f"{path}/orders")).unwrapped()
    assert found["status"] == STATUS
    assert "overrideName" not in found["spec"]["stream"]
    assert found["metadata"]["generation"] == 2


async def test_every_field_is_explained(api: Api) -> None:
    """What `kubectl explain` reads."""
    document = (await api.get("/openapi/v3/apis/messaging.knative.dev/v1alpha1")).unwrapped()

    schema = document["components"]["schemas"]["dev.knative.messaging.v1alpha1.NatsJetStreamChannel"]
    stream = schema["properties"]["spec"]["properties"]["stream"]["properties"]["config"]["properties"]
    template = schema["properties"]["spec"]["properties"]["consumerConfigTemplate"]["properties"]
    assert stream["storage"]["description"].endswith(
        "Can't be changed. File when it is not given, here or in the defaults of the namespace."
    )
    assert stream["storage"]["enum"] == ["File", "Memory", ""]
    assert template["ackWait"]["description"].startswith("Accepted and not obeyed: ")


async def test_kubectl_can_read_the_old_schema_too(api: Api) -> None:
    document = (await api.get("/openapi/v2")).unwrapped()

    assert "dev.knative.messaging.v1alpha1.NatsJetStreamChannel" in document["definitions"]
