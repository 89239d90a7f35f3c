"""Our manifests for `kubectl apply`: a real API server takes them, field by field, in a dry run that leaves nothing."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.support.kube.install import INFRA, SYSTEM, in_file, path_of
from tests.support.kube.kube_api import Api

FILES = ("install.yaml", "install-deployment.yaml", "components/kind/nats.yaml", "components/kind/receive.yaml")


@pytest.fixture(autouse=True)
async def namespaces(api: Api) -> None:
    """There, if they were not: those of Knative Eventing and Serving, and of NATS."""
    for name in (SYSTEM, "knative-serving", "nats-io"):
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        assert (await api.create("/api/v1/namespaces", body)).status in (201, 409)


@pytest.mark.parametrize("file", FILES)
async def test_every_object_is_taken(api: Api, file: str) -> None:
    bodies = in_file(INFRA / file)
    assert bodies
    for body in bodies:
        answer = await api.apply(path_of(body), body, manager="installer", strict=True, dry=True, force=True)
        assert answer.accepted, f"{path_of(body)}: {answer.message}"
        assert answer.warnings == ()


@pytest.mark.parametrize(
    ("file", "key", "member"),
    [
        ("default-channel.yaml", "default-ch-config", "clusterDefault"),
        ("broker-channel.yaml", "channel-template-spec", ""),
    ],
)
async def test_knatives_defaults_name_a_channel_that_is_taken(
    api: Api, namespace: str, file: str, key: str, member: str
) -> None:
    """The ConfigMap is patched with text; what counts is the template in it."""
    (patch,) = in_file(INFRA / "knative" / file)
    template: dict[str, Any] = yaml.safe_load(patch["data"][key])
    template = template[member] if member else template
    body = {**template, "metadata": {"name": "made", "namespace": namespace}}

    answer = await api.apply(path_of(body), body, manager="knative", strict=True, dry=True)

    assert answer.accepted, answer.message


async def test_a_field_that_there_is_not_would_be_found(api: Api) -> None:
    body = next(one for one in in_file(INFRA / "install.yaml") if one["kind"] == "Deployment")
    body["spec"]["template"]["spec"]["containers"][0]["imagge"] = "x"

    answer = await api.apply(path_of(body), body, manager="installer", strict=True, dry=True)

    assert not answer.accepted
    assert "imagge" in answer.message
