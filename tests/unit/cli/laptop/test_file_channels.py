"""Manifest files as `headrace up` reads them: what becomes of each, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace_cli.laptop import file_channels
from headrace_cli.laptop.file_channels import FileChannels
from tests.support.laptop.manifest_files import BASE, CHANNEL, SUBSCRIPTION, Read, reader, subscription


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return reader(tmp_path)


def subscribers(found: FileChannels, name: str = "orders") -> Any:
    return found.channels["default", name]["spec"].get("subscribers")


def test_a_channel_becomes_the_object_that_the_api_server_would_have(read: Read) -> None:
    found = read(CHANNEL + "spec: {stream: {config: {maxMsgs: 10}}}\n")

    assert found.channels["default", "orders"] == {
        "apiVersion": "messaging.knative.dev/v1alpha1",
        "kind": "NatsJetStreamChannel",
        "metadata": {
            "namespace": "default",
            "name": "orders",
            "uid": "26a1c714-8e11-5359-96aa-c82c79002b1f",
        },
        "spec": {"stream": {"config": {"maxMsgs": 10}}},
    }


def test_a_subscription_becomes_an_entry_of_its_channel(read: Read) -> None:
    found = read(CHANNEL, SUBSCRIPTION)

    assert subscribers(found) == [
        {
            "name": "billing",
            "uid": "87a640d0-5f85-51d0-a9ac-e6d04f5452aa",
            "subscriberUri": "http://billing.example/events",
        }
    ]


def test_uid_and_generation_of_an_exported_object_are_kept(read: Read) -> None:
    exported = SUBSCRIPTION.replace("{name: billing}", "{name: billing, uid: 7e59d707-ab, generation: 3}")

    [entry] = subscribers(read(CHANNEL, exported))

    assert (entry["uid"], entry["generation"]) == ("7e59d707-ab", 3)


def test_an_alias_that_is_no_circle_may_stand_twice(read: Read) -> None:
    labels = "{name: orders, labels: &a {team: x}, annotations: *a}"

    metadata = read(CHANNEL.replace("{name: orders}", labels)).channels["default", "orders"]["metadata"]

    assert metadata["labels"] == metadata["annotations"] == {"team": "x"}


def test_the_order_of_documents_does_not_matter(read: Read) -> None:
    assert subscribers(read(SUBSCRIPTION, CHANNEL)) == subscribers(read(CHANNEL, SUBSCRIPTION))


@pytest.mark.parametrize(
    ("destination", "uri"),
    [
        pytest.param('{uri: "http://a.example/x"}', "http://a.example/x", id="a uri as it is"),
        pytest.param("{ref: {kind: NatsJetStreamChannel, name: other}}", f"{BASE}/default/other", id="a channel"),
        pytest.param("{ref: {kind: Channel, name: other}}", f"{BASE}/default/other", id="a generic channel"),
        pytest.param(
            "{ref: {kind: Channel, name: far, namespace: away}}", f"{BASE}/away/far", id="one of another namespace"
        ),
        pytest.param(
            "{ref: {kind: Channel, name: other}, uri: /dead}", f"{BASE}/default/other/dead", id="a path below it"
        ),
    ],
)
@pytest.mark.parametrize(("role", "key"), [("subscriber", "subscriberUri"), ("reply", "replyUri")])
def test_addresses_are_resolved(read: Read, role: str, key: str, destination: str, uri: str) -> None:
    other = CHANNEL.replace("orders", "other")
    far = CHANNEL.replace("{name: orders}", "{name: far, namespace: away}")

    [entry] = subscribers(read(CHANNEL, other, far, subscription(**{role: destination})))

    assert entry[key] == uri


def test_certificates_and_audiences_go_along(read: Read) -> None:
    trusted = '{uri: "https://a.example", CACerts: PEM, audience: me}'
    found = read(CHANNEL, subscription(subscriber=trusted, reply=trusted, delivery=f"{{deadLetterSink: {trusted}}}"))

    [entry] = subscribers(found)

    assert {name: value for name, value in entry.items() if name not in ("name", "uid")} == {
        "subscriberUri": "https://a.example",
        "subscriberCACerts": "PEM",
        "subscriberAudience": "me",
        "replyUri": "https://a.example",
        "replyCACerts": "PEM",
        "replyAudience": "me",
        "delivery": {"deadLetterSink": {"uri": "https://a.example", "CACerts": "PEM", "audience": "me"}},
    }


SINK = {"uri": "http://sink.example"}


@pytest.mark.parametrize(
    ("channel", "own", "delivery"),
    [
        pytest.param(None, None, None, id="none at all"),
        pytest.param("{retry: 3}", None, {"retry": 3}, id="the channel's, when the Subscription has none"),
        pytest.param("{retry: 3}", "{timeout: PT1S}", {"timeout": "PT1S"}, id="its own and not a mixture"),
        pytest.param(
            '{retry: 3, deadLetterSink: {uri: "http://sink.example"}}',
            "{retry: 1}",
            {"deadLetterSink": SINK, "retry": 1},
            id="but the channel's sink, when its own has none",
        ),
        pytest.param(
            '{deadLetterSink: {uri: "http://sink.example"}}',
            "{deadLetterSink: {ref: {kind: Channel, name: dead}}}",
            {"deadLetterSink": {"uri": f"{BASE}/default/dead"}},
            id="its own sink first",
        ),
        pytest.param("{retry: 0}", None, {"retry": 0}, id="a retry of 0 is said"),
        pytest.param("{format: json, retry: 1}", None, {"retry": 1}, id="the format is not copied"),
    ],
)
def test_delivery_is_inherited_as_knative_does(
    read: Read, channel: str | None, own: str | None, delivery: dict[str, Any] | None
) -> None:
    more = {} if own is None else {"delivery": own}
    with_delivery = CHANNEL if channel is None else f"{CHANNEL}spec: {{delivery: {channel}}}\n"

    dead = CHANNEL.replace("orders", "dead")
    [entry] = subscribers(read(with_delivery, dead, subscription(subscriber='{uri: "http://a.example"}', **more)))

    assert entry.get("delivery") == delivery


def test_the_channels_own_sink_is_resolved_too(read: Read) -> None:
    found = read(
        CHANNEL + "spec: {delivery: {deadLetterSink: {ref: {kind: Channel, name: dead}}}}\n",
        CHANNEL.replace("orders", "dead"),
    )

    delivery = found.channels["default", "orders"]["spec"]["delivery"]
    assert delivery == {"deadLetterSink": {"uri": f"{BASE}/default/dead"}}


def test_a_generic_channel_is_made_of_its_template(read: Read) -> None:
    found = read(
        """
        apiVersion: messaging.knative.dev/v1
        kind: Channel
        metadata: {name: orders}
        spec:
          delivery: {retry: 2}
          channelTemplate:
            apiVersion: messaging.knative.dev/v1alpha1
            kind: NatsJetStreamChannel
            spec: {stream: {config: {storage: Memory}}}
        """
    )

    assert found.channels["default", "orders"]["kind"] == "NatsJetStreamChannel"
    assert found.channels["default", "orders"]["spec"] == {
        "stream": {"config": {"storage": "Memory"}},
        "delivery": {"retry": 2},
    }


def test_other_kinds_are_told_of_and_ignored(read: Read) -> None:
    found = read(CHANNEL, "apiVersion: v1\nkind: Service\nmetadata: {name: x}\n", "# only a comment\n")

    [sentence] = found.ignored
    assert sentence.endswith("all.yaml:6, document 2: v1 Service is nothing that a laptop serves; it is left alone")


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param("messaging.knative.dev/v1, kind: InMemoryChannel", id="another channel"),
        pytest.param("operators.coreos.com/v1alpha1, kind: Subscription", id="a kind of the same name"),
        pytest.param("eventing.knative.dev/v1, kind: Trigger", id="a neighbour"),
        pytest.param("apps/v1, kind: Deployment", id="anything"),
    ],
)
def test_kinds_of_others_are_left_alone(read: Read, foreign: str) -> None:
    [sentence] = read(CHANNEL, f"{{apiVersion: {foreign}, metadata: {{name: x}}}}\n").ignored
    assert sentence.endswith("is nothing that a laptop serves; it is left alone")


def test_what_is_no_object_of_kubernetes_is_left_alone(read: Read) -> None:
    [sentence] = read(CHANNEL, "replicas: 3\n").ignored
    assert "no Kubernetes object, since it has no apiVersion or no kind; it is left alone" in sentence


def test_a_list_is_its_items(read: Read) -> None:
    found = read("apiVersion: v1\nkind: List\nitems:\n" + _item(CHANNEL) + _item(SUBSCRIPTION))

    assert [entry["name"] for entry in subscribers(found)] == ["billing"]


def test_times_stay_text_as_in_kubernetes(read: Read) -> None:
    found = read(CHANNEL + "spec: {stream: {config: {mirror: {name: X, optStartTime: 2026-01-31T09:30:00Z}}}}\n")

    config = found.channels["default", "orders"]["spec"]["stream"]["config"]
    assert config["mirror"]["optStartTime"] == "2026-01-31T09:30:00Z"


def test_a_directory_is_its_manifest_files(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(SUBSCRIPTION)
    (tmp_path / "a.yml").write_text(CHANNEL)
    (tmp_path / "README.md").write_text("no: [manifest")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "c.yaml").write_text("no: [manifest")

    assert [entry["name"] for entry in subscribers(file_channels.load([str(tmp_path)], BASE))] == ["billing"]


def test_the_minimal_example_is_right() -> None:
    example = Path(__file__).parents[4] / "examples" / "minimal"

    found = file_channels.load([str(example)], BASE)

    assert [entry["subscriberUri"] for entry in subscribers(found, "hello")] == ["http://127.0.0.1:9000"]


def _item(document: str) -> str:
    lines = document.strip().splitlines()
    return "".join(f"{'- ' if number == 0 else '  '}{line}\n" for number, line in enumerate(lines))
