"""The CustomResourceDefinition: the committed file says the same as the models, in a form that Kubernetes can take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from headrace.core.channel import desired as desired_module
from headrace.core.channel import status as status_module
from headrace.core.channel.desired import Desired
from headrace.core.channel.plan import Observed
from headrace.core.channel.status import Result
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.core.manifest import obeyed
from headrace.core.manifest.channel_status import ChannelStatus
from infra.generate import crd, fields
from tests.support.functions.channels import channel, entry

Schema = dict[str, Any]


@pytest.fixture(scope="module")
def channel_schema() -> Schema:
    (version,) = yaml.safe_load(crd.FILE.read_text(encoding="utf-8"))["spec"]["versions"]
    schema: Schema = version["schema"]["openAPIV3Schema"]
    return schema


def nodes(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    yield path, schema
    for name, child in schema.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}")
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from nodes(schema[key], f"{path}[{key}]")


def at(schema: Schema, path: str) -> Schema:
    for step in path.split("."):
        schema = schema["items"] if step == "items" else schema["properties"][step]
    return schema


def test_the_committed_file_is_what_the_generator_writes() -> None:
    assert crd.FILE.read_text(encoding="utf-8") == crd.text(), "run `task crd`"


def test_the_table_of_fields_is_what_the_crd_says() -> None:
    assert fields.FILE.read_text(encoding="utf-8") == fields.text(), "run `task crd`"


def test_every_node_has_a_type_and_nothing_that_kubernetes_refuses(channel_schema: Schema) -> None:
    refused = {"$ref", "$defs", "title", "const", "prefixItems", "exclusiveMinimum", "oneOf"}
    for path, node in nodes(channel_schema):
        assert ("type" in node) != bool(node.get("x-kubernetes-int-or-string")), path
        assert not refused & node.keys(), path
        assert not ("properties" in node and "additionalProperties" in node), path


def test_every_field_is_described(channel_schema: Schema) -> None:
    fields = [(path, node) for path, node in nodes(channel_schema) if "[" not in path and path.count(".") > 1]

    assert [path for path, node in fields if not node.get("description")] == []


def test_nothing_unknown_is_kept(channel_schema: Schema) -> None:
    assert [path for path, node in nodes(channel_schema) if "x-kubernetes-preserve-unknown-fields" in node] == []


def test_what_is_accepted_and_not_obeyed_says_so_and_a_condition_says_the_same(channel_schema: Schema) -> None:
    words = "Accepted and not obeyed: "
    said = {
        path.removeprefix("."): node["description"].removeprefix(words).removesuffix(".")
        for path, node in nodes(channel_schema)
        if node.get("description", "").startswith(words) and "subscribers" not in path
    }

    assert said == {field.path: field.instead for field in obeyed.FIELDS}


def test_one_bad_value_of_a_subscriber_keeps_no_other_out(channel_schema: Schema) -> None:
    entries = at(channel_schema, "spec.subscribers.items")
    strict = {"enum", "minimum", "maximum", "pattern", "maxLength", "x-kubernetes-validations", "default"}

    assert entries["required"] == ["uid"]
    assert [path for path, node in nodes(entries) if strict & node.keys()] == []
    assert [path for path, node in nodes(entries) if "required" in node] == [""]


def test_no_default_is_written_where_knative_inherits(channel_schema: Schema) -> None:
    delivery = at(channel_schema, "spec.delivery")

    assert [path for path, node in nodes(delivery) if "default" in node] == []
    assert "default" not in at(channel_schema, "spec.subscribers")


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("spec.subscribers.items.auth.serviceAccountNames", "array"),
        ("spec.subscribers.items.delivery.deadLetterSink.ref.group", "string"),
        ("spec.subscribers.items.replyCACerts", "string"),
        ("spec.delivery.deadLetterSink.CACerts", "string"),
        ("spec.delivery.retryAfterMax", "string"),
        ("spec.deploymentSpecTemplate.affinity.podAntiAffinity", "object"),
        ("status.address.CACerts", "string"),
        ("status.addresses.items.audience", "string"),
        ("status.subscribers.items.auth.serviceAccountName", "string"),
        ("status.deadLetterSinkCACerts", "string"),
        ("status.policies.items.apiVersion", "string"),
        ("status.annotations", "object"),
    ],
)
def test_every_field_of_knatives_duck_types_is_there(channel_schema: Schema, path: str, type_: str) -> None:
    assert at(channel_schema, path)["type"] == type_


def test_the_status_that_reconcile_writes_loses_nothing_to_the_api_server(channel_schema: Schema) -> None:
    parent = channel(entry(), {"uid": "bbbb-2"}, delivery={"deadLetterSink": {"uri": "http://dead/"}})
    wish = desired_module.desired(parent, ReconcileSettings())
    assert isinstance(wish, Desired)

    written = status_module.status(parent, wish, Result(Observed(None, None)), datetime.now(UTC))

    assert written["readySubscribers"] == "0/2"
    assert unknown(written, at(channel_schema, "status")) == []
    ChannelStatus.model_validate(written)


def unknown(value: Any, schema: Schema, path: str = "status") -> list[str]:
    if isinstance(value, list):
        return [found for item in value for found in unknown(item, schema["items"], path)]
    if not isinstance(value, dict) or "additionalProperties" in schema:
        return []
    properties = schema["properties"]
    missing = [f"{path}.{name}" for name in value if name not in properties]
    return missing + [
        found
        for name in value
        if name in properties
        for found in unknown(value[name], properties[name], f"{path}.{name}")
    ]
