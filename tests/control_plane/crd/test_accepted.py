"""Manifests that work elsewhere work here, unchanged; missing fields are filled in, and unknown ones dropped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.core.channel import stream_config
from headrace.core.manifest import manifest
from tests.control_plane.channel_manifests import (
    ENTRY,
    GO_CHANNEL,
    GO_CHANNEL_SHORT,
    MIRROR,
    OF_A_BROKER,
    PROPOSAL,
    channel,
)
from tests.support.kube.kube_api import CHANNELS, Api

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = [
    document
    for path in sorted((ROOT / "examples").rglob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("document", EXAMPLES, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
async def test_our_examples_are_taken(api: Api, namespace: str, document: dict[str, Any]) -> None:
    body = {**document, "metadata": {**document["metadata"], "namespace": namespace}}
    plural = f"{document['kind'].lower()}s"

    answer = await api.create(f"/apis/{document['apiVersion']}/namespaces/{namespace}/{plural}", body, strict=True)

    assert answer.accepted, answer.message
    assert answer.warnings == ()


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(None, id="no spec at all"),
        pytest.param({}, id="an empty spec"),
        pytest.param(PROPOSAL, id="the proposal's page of fields"),
        pytest.param(GO_CHANNEL, id="every field of the Go channel"),
        pytest.param(GO_CHANNEL_SHORT, id="a short one of the Go channel"),
        pytest.param(MIRROR, id="a mirror"),
        pytest.param(OF_A_BROKER, id="of a Broker"),
        pytest.param({"subscribers": [ENTRY]}, id="a subscriber with every feature"),
        pytest.param({"deploymentSpecTemplate": {"resources": {}}}, id="resources without affinity"),
        pytest.param({"subscribers": None, "stream": None, "delivery": None}, id="nulls"),
    ],
)
async def test_manifests_from_elsewhere_are_taken_by_the_server_and_by_reconcile(
    api: Api, namespace: str, spec: dict[str, Any] | None
) -> None:
    answer = await api.create(CHANNELS.format(namespace=namespace), channel(spec=spec), strict=True)

    assert answer.accepted, answer.message
    assert answer.warnings == ()
    stored = manifest.parse(answer.body)
    stream_config.wanted(stored, "test")
    written = manifest.parse(channel(spec=spec, namespace=namespace))
    assert stored.spec.stream == written.spec.stream
    assert stored.spec.consumer_config_template == written.spec.consumer_config_template
    assert stored.spec.delivery == written.spec.delivery


async def test_a_subscriber_is_stored_with_every_field(api: Api, namespace: str) -> None:
    answer = await api.create(CHANNELS.format(namespace=namespace), channel(spec={"subscribers": [ENTRY]}))

    assert answer.unwrapped()["spec"]["subscribers"] == [ENTRY]


async def test_what_is_not_said_stays_unsaid_so_that_the_defaults_of_a_namespace_can_say_it(
    api: Api, namespace: str
) -> None:
    stored = (await api.create(CHANNELS.format(namespace=namespace), channel())).unwrapped()

    assert stored["spec"] == {
        "stream": {"config": {"retention": "", "discard": "", "storage": "", "compression": "", "persistMode": ""}},
        "consumerConfigTemplate": {"deliverPolicy": "", "replayPolicy": ""},
    }


async def test_nothing_is_filled_in_where_knative_inherits(api: Api, namespace: str) -> None:
    spec = {"delivery": {"retry": 2}, "subscribers": [{"uid": "u", "subscriberUri": "http://a", "delivery": {}}]}

    stored = (await api.create(CHANNELS.format(namespace=namespace), channel(spec=spec))).unwrapped()

    assert stored["spec"]["delivery"] == {"retry": 2}
    assert stored["spec"]["subscribers"] == spec["subscribers"]


async def test_an_unknown_field_is_refused_by_kubectl_and_dropped_with_a_warning_for_others(
    api: Api, namespace: str
) -> None:
    path = CHANNELS.format(namespace=namespace)
    body = channel(spec={"stream": {"config": {"maxByte": 5}}})

    strict = await api.create(path, body, strict=True)
    lenient = await api.create(path, body)

    assert strict.status == 400
    assert 'unknown field "spec.stream.config.maxByte"' in strict.message
    assert any("unknown field" in warning and "maxByte" in warning for warning in lenient.warnings)
    assert "maxByte" not in lenient.unwrapped()["spec"]["stream"]["config"]


@pytest.mark.parametrize("name", ["a", "a" * 63, "a.b.c", "7-up", "a--b"])
async def test_names_of_every_shape_are_taken(api: Api, namespace: str, name: str) -> None:
    answer = await api.create(CHANNELS.format(namespace=namespace), channel(name))

    stream_config.wanted(manifest.parse(answer.unwrapped()), "test")
