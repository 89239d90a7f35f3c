"""Manifests of other systems, converted: what becomes of each field, and what is noted because it has no equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from headrace_cli.convert import Conversion, convert
from headrace_cli.manifests.documents import Document
from headrace_cli.view.output import text_of


def converted(text: str) -> Conversion:
    bodies = [body for body in yaml.safe_load_all(text) if body]
    return convert(Document(f"doc {number}", body) for number, body in enumerate(bodies, 1))


def template_of(objects: list[dict[str, Any]]) -> dict[str, Any]:
    [config] = [each for each in objects if each["kind"] == "ConfigMap"]
    template: dict[str, Any] = yaml.safe_load(config["data"]["channel-template-spec"])
    # Whatever we write has to be a channel that reconcile takes.
    manifest.parse({**template, "metadata": {"namespace": "n", "name": "c"}, "spec": template.get("spec", {})})
    return template


def triggers_of(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == "Trigger"]


KYMA = """
apiVersion: operator.kyma-project.io/v1alpha1
kind: Eventing
metadata: {name: eventing, namespace: kyma-system}
spec:
  backend:
    type: NATS
    config:
      {natsStreamStorageType: File, natsStreamReplicas: 3, natsStreamMaxSize: 700Mi, eventTypePrefix: sap.kyma.custom}
"""
KYMA_SUBSCRIPTION = """
apiVersion: eventing.kyma-project.io/v1alpha2
kind: Subscription
metadata: {name: billing, namespace: shop}
spec:
  sink: http://billing.shop.svc.cluster.local/events
  typeMatching: standard
  source: commerce
  types: [order.created.v1, order.paid.v1]
  config: {maxInFlightMessages: "10"}
"""


def test_a_kyma_subscription_is_a_trigger_on_a_broker_of_its_namespace() -> None:
    found = converted(KYMA_SUBSCRIPTION)
    [trigger] = triggers_of(found.objects)
    assert trigger["metadata"] == {"namespace": "shop", "name": "billing"}
    assert trigger["spec"] == {
        "broker": "kyma",
        "filters": [
            {"exact": {"source": "commerce"}},
            {"any": [{"exact": {"type": "order.created.v1"}}, {"exact": {"type": "order.paid.v1"}}]},
        ],
        "subscriber": {"uri": "http://billing.shop.svc.cluster.local/events"},
        "delivery": {"retry": 10, "backoffPolicy": "exponential", "backoffDelay": "PT2S"},
    }
    assert [each["kind"] for each in found.objects] == ["ConfigMap", "Broker", "Trigger"]
    assert any("maxInFlightMessages is 10" in str(note) for note in found.notes)


def test_the_stream_of_kyma_is_that_of_the_brokers_wherever_its_document_stands() -> None:
    found = converted(f"{KYMA_SUBSCRIPTION}---{KYMA}")
    assert template_of(found.objects)["spec"]["stream"]["config"] == {
        "retention": "Interest",
        "discard": "New",
        "storage": "File",
        "replicas": 3,
        "maxBytes": 734003200,
    }


def test_many_kyma_subscriptions_of_a_namespace_share_a_broker() -> None:
    found = converted(f"{KYMA_SUBSCRIPTION}---{KYMA_SUBSCRIPTION.replace('billing', 'mail')}")
    assert [each["kind"] for each in found.objects] == ["ConfigMap", "Broker", "Trigger", "Trigger"]


ARGO_BUS = """
apiVersion: argoproj.io/v1alpha1
kind: EventBus
metadata: {name: default, namespace: shop}
spec:
  jetstream:
    version: latest
    replicas: 3
    streamConfig: |
      maxMsgs: 50000
      maxAge: 168h
      maxBytes: -1
      replicas: 3
      duplicates: 300s
      retention: 0
      discard: 1
"""
ARGO_SENSOR = """
apiVersion: argoproj.io/v1alpha1
kind: Sensor
metadata: {name: mail, namespace: shop}
spec:
  dependencies:
    - {name: paid, eventSourceName: shop-hooks, eventName: paid}
    - {name: sent, eventSourceName: shop-hooks, eventName: sent}
  triggers:
    - template:
        name: tell
        conditions: paid
        http: {url: "http://mailer.shop.svc/tell", method: POST}
      retryStrategy: {steps: 5, duration: 10s, factor: 2}
      dlqTrigger: {template: {name: dead, http: {url: "http://dead.shop.svc/"}}}
    - template: {name: both, conditions: paid && sent, http: {url: "http://x.shop.svc/"}}
    - template: {name: job, conditions: sent, k8s: {operation: create}}
"""


def test_an_argo_bus_is_a_broker_with_its_stream() -> None:
    found = converted(ARGO_BUS)
    assert template_of(found.objects)["spec"]["stream"]["config"] == {
        "maxMsgs": 50000,
        "maxBytes": -1,
        "replicas": 3,
        "maxAge": "168h",
        "duplicateWindow": "300s",
        "retention": "Limits",
        "discard": "New",
    }
    assert "install NATS" in str(found.notes[0])


def test_http_triggers_of_an_argo_sensor_are_triggers_and_the_rest_is_noted() -> None:
    found = converted(ARGO_SENSOR)
    [trigger] = triggers_of(found.objects)
    assert trigger["metadata"]["name"] == "mail-tell"
    assert trigger["spec"] == {
        "broker": "default",
        "filters": [{"exact": {"source": "shop-hooks"}}, {"exact": {"subject": "paid"}}],
        "subscriber": {"uri": "http://mailer.shop.svc/tell"},
        "delivery": {
            "retry": 4,
            "backoffPolicy": "exponential",
            "backoffDelay": "PT10S",
            "deadLetterSink": {"uri": "http://dead.shop.svc/"},
        },
    }
    told = [str(note) for note in found.notes]
    assert any("'both' waits for 'paid && sent'" in words for words in told)
    assert any("'job' is k8s" in words for words in told)


def test_subscriptions_follow_their_channel_of_another_kind() -> None:
    found = converted("""
apiVersion: messaging.knative.dev/v1beta1
kind: NatssChannel
metadata: {name: orders, namespace: shop, labels: {team: a}, annotations: {kubectl.kubernetes.io/x: y}}
spec: {delivery: {retry: 3}}
---
apiVersion: messaging.knative.dev/v1
kind: Subscription
metadata: {name: billing, namespace: shop}
spec:
  channel: {apiVersion: messaging.knative.dev/v1beta1, kind: NatssChannel, name: orders}
  subscriber: {uri: "http://billing.shop.svc/"}
""")
    channel, subscription = found.objects
    assert channel == {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "metadata": {"labels": {"team": "a"}, "namespace": "shop", "name": "orders"},
        "spec": {"delivery": {"retry": 3}},
    }
    assert subscription["spec"] == {
        "channel": {"apiVersion": "messaging.knative.dev/v1alpha1", "kind": "NatsJetStreamChannel", "name": "orders"},
        "subscriber": {"uri": "http://billing.shop.svc/"},
    }
    assert any("can't be changed" in str(note) for note in found.notes)


def test_a_kafka_channel_keeps_its_retention_and_its_copies() -> None:
    found = converted("""
apiVersion: messaging.knative.dev/v1beta1
kind: KafkaChannel
metadata: {name: orders}
spec: {numPartitions: 6, replicationFactor: 3, retentionDuration: P7D}
""")
    [channel] = found.objects
    assert channel["metadata"] == {"namespace": "default", "name": "orders"}
    assert channel["spec"] == {"stream": {"config": {"replicas": 3, "maxAge": "604800s"}}}
    manifest.parse(channel)
    assert any("by-key" in str(note) for note in found.notes)


def test_a_channel_of_the_go_implementation_is_what_it_was_without_what_the_server_added() -> None:
    found = converted("""
apiVersion: messaging.knative.dev/v1alpha1
kind: NatsJetStreamChannel
metadata: {name: orders, namespace: shop, uid: u, resourceVersion: "7"}
spec: {stream: {config: {retention: Work}}, subscribers: [{uid: a, subscriberUri: "http://x/"}]}
status: {address: {url: "http://x/"}}
""")
    assert found.objects == [
        {
            "apiVersion": "messaging.knative.dev/v1alpha1",
            "kind": "NatsJetStreamChannel",
            "metadata": {"namespace": "shop", "name": "orders"},
            "spec": {"stream": {"config": {"retention": "Work"}}},
        }
    ]


def test_what_has_no_equal_is_named_and_left_out() -> None:
    found = converted("{apiVersion: v1, kind: Secret, metadata: {name: s}}")
    assert found.objects == []
    assert str(found.notes[0]) == "doc 1: 'Secret' of 'v1' is left out: nothing here corresponds to it"


@pytest.mark.parametrize(
    ("text", "field", "words"),
    [
        (KYMA_SUBSCRIPTION.replace("[order.created.v1, order.paid.v1]", "7"), "spec.types", "is 7: give a list"),
        (KYMA_SUBSCRIPTION.replace("sink: http://billing.shop.svc.cluster.local/events", ""), "spec.sink", "missing"),
        (KYMA.replace("700Mi", "many"), "spec.backend.config.natsStreamMaxSize", "is 'many': give a quantity"),
        (ARGO_BUS.replace("retention: 0", "retention: 9"), "spec.jetstream.streamConfig", "retention is 9"),
        (ARGO_BUS.replace("maxAge: 168h", "maxAge: soon"), "spec.jetstream.streamConfig", "maxAge is 'soon'"),
        (ARGO_SENSOR.replace("10s", "soon"), "retryStrategy.duration", "is 'soon': give a duration"),
        (ARGO_SENSOR.replace("steps: 5", "steps: many"), "retryStrategy.steps", "is 'many': give a whole number"),
        (
            "{apiVersion: argoproj.io/v1alpha1, kind: Sensor, metadata: {}, spec: {triggers: 1}}",
            "spec.triggers",
            "list",
        ),
        ("{apiVersion: argoproj.io/v1alpha1, kind: EventBus, metadata: {}}", "metadata.name", "is missing"),
    ],
)
def test_a_wrong_field_is_named_with_its_value(text: str, field: str, words: str) -> None:
    with pytest.raises(InvalidSpec, match="doc 1") as error:
        converted(text)
    assert error.value.field == field
    assert words in str(error.value)


def test_two_that_would_get_one_name_are_refused() -> None:
    with pytest.raises(InvalidSpec, match="two different Trigger would be called shop/billing"):
        converted(f"{KYMA_SUBSCRIPTION}---{KYMA_SUBSCRIPTION.replace('commerce', 'other')}")


@pytest.mark.parametrize(
    "name", ["A_b", "x" * 80, "ü", "mail-" + "y" * 70, "a.b"], ids=["capitals", "long", "umlaut", "cut", "dotted"]
)
def test_names_become_labels_of_dns_and_stay_different(name: str) -> None:
    found = converted(ARGO_SENSOR.replace("name: tell", f"name: {name}"))
    [trigger] = triggers_of(found.objects)
    made = trigger["metadata"]["name"]
    assert len(made) <= 63
    assert made.replace("-", "").isalnum()
    assert made.isascii()
    assert made == made.lower()
    [other] = triggers_of(converted(ARGO_SENSOR.replace("name: tell", f"name: {name}x")).objects)
    assert other["metadata"]["name"] != made


def test_the_examples_of_the_document_convert_without_a_fault() -> None:
    folder = Path(__file__).resolve().parents[3] / "docs" / "convert"
    texts = [path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.yaml"))]
    assert texts
    for text in texts:
        assert converted(text).objects


def test_a_template_is_shown_as_the_manifest_that_it_is() -> None:
    text = text_of(converted(KYMA + "---" + KYMA_SUBSCRIPTION).objects, "yaml")

    assert "channel-template-spec: |\n      apiVersion: messaging.knative.dev/v1alpha1\n" in text
