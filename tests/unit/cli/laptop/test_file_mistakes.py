"""How `headrace up` tells of mistakes in manifest files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from headrace.core.errors import InvalidSpec
from headrace_cli.laptop import file_channels
from tests.support.laptop.manifest_files import BASE, CHANNEL, SUBSCRIPTION, Read, reader, subscription


@pytest.fixture
def read(tmp_path: Path) -> Read:
    return reader(tmp_path)


@pytest.mark.parametrize(
    ("documents", "told"),
    [
        pytest.param((CHANNEL, "a: [b\n"), "all.yaml, document 2: this is not YAML: while parsing", id="broken YAML"),
        pytest.param(
            (CHANNEL, "a: 1\na: 2\n"), "document 2: this is not YAML: the key 'a' is given twice", id="a key twice"
        ),
        pytest.param((CHANNEL, "just text\n"), "document 2: 'just text' is no Kubernetes object", id="no object"),
        pytest.param((SUBSCRIPTION,), "there is no NatsJetStreamChannel in ", id="no channel"),
        pytest.param(
            (CHANNEL.replace("kind: NatsJetStreamChannel", "kind: NatsJetstreamChannel"),),
            "all.yaml:2, document 1: kind is 'NatsJetstreamChannel': did you mean 'NatsJetStreamChannel'?",
            id="a channel's kind with a typo",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("kind: Subscription", "kind: Subscripton")),
            "all.yaml:7, document 2: kind is 'Subscripton': did you mean 'Subscription'?",
            id="a Subscription's kind with a typo",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("kind: Subscription", "kind: subscription")),
            "document 2: kind is 'subscription': did you mean 'Subscription'?",
            id="a kind in lower case",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("kind: Subscription", "kind: Abo")),
            "document 2: kind is 'Abo', which messaging.knative.dev does not have: NatsJetStreamChannel, Channel, "
            "Subscription are served",
            id="a kind that the group does not have",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("messaging.knative.dev/v1\nkind", "mesaging.knative.dev/v1\nkind")),
            "document 2: apiVersion is 'mesaging.knative.dev/v1': a Subscription has 'messaging.knative.dev/v1'",
            id="a group with a typo",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("messaging.knative.dev/v1\nkind", "v1\nkind")),
            "document 2: apiVersion is 'v1': a Subscription has 'messaging.knative.dev/v1'",
            id="no group",
        ),
        pytest.param(
            (CHANNEL + "spec: {stream: {config: {maxByte: 5}}}\n",),
            "document 1: spec.stream.config.maxByte is no field that is known here: did you mean maxBytes?",
            id="a typo deep in a channel",
        ),
        pytest.param(
            (CHANNEL + "spec: {streem: {}}\n",),
            "document 1: spec.streem is no field that is known here: did you mean stream?",
            id="a typo in a channel",
        ),
        pytest.param(
            (CHANNEL, CHANNEL),
            "document 2: NatsJetStreamChannel default/orders is also in {file}:2, document 1: keep one",
            id="an object twice",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("name: orders", "name: order")),
            "document 2: spec.channel.name is 'order', but no file holds that channel in 'default': did you mean "
            "'orders'?",
            id="a channel that is nowhere",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("kind: NatsJetStreamChannel", "kind: InMemoryChannel")),
            "document 2: spec.channel.kind is 'InMemoryChannel': only NatsJetStreamChannel and Channel are served",
            id="a channel of another kind",
        ),
        pytest.param(
            (CHANNEL, subscription(subscriber="{ref: {apiVersion: v1, kind: Service, name: billing}}")),
            "document 2: spec.subscriber.ref is Service default/billing, which can't be "
            "resolved on a laptop: give a uri",
            id="a ref that only a cluster can resolve",
        ),
        pytest.param(
            (CHANNEL, subscription(subscriber="{}")),
            "document 2: spec.subscriber has neither a uri nor a ref: give one",
            id="an address that leads nowhere",
        ),
        pytest.param(
            (CHANNEL, subscription(subscriber="{ref: {kind: Channel, name: orders}, uri: 'http://x'}")),
            "document 2: spec.subscriber.uri is 'http://x': beside a ref it is a path",
            id="a ref and a whole uri",
        ),
        pytest.param(
            (CHANNEL, subscription(subscriber="{uri: 'ftp://x'}")),
            "document 2: spec.subscriber.uri 'ftp://x': only http and https can be delivered to",
            id="a uri that nobody can POST to",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {retry: three}\n"),
            "document 2: spec.delivery.retry is 'three': it should be a whole number",
            id="a number that is none",
        ),
        pytest.param(
            (CHANNEL, subscription(subscriber="http://x")),
            "document 2: spec.subscriber is 'http://x': it should be an object: give {uri: http://x}",
            id="an address in the place of an object",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {deadLetterSink: 'http://u:secret@x'}\n"),
            "document 2: spec.delivery.deadLetterSink is 'http://…': it should be an object: give {uri: http://host/path}",
            id="an address with a password in the place of an object",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: [retry]\n"),
            "document 2: spec.delivery is a list: it should be an object",
            id="a list in the place of an object",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {timeout: 5}\n"),
            "document 2: spec.delivery.timeout is 5: it should be a duration as text: write for example PT0.5S",
            id="a number in the place of a duration",
        ),
        pytest.param(
            (CHANNEL, "apiVersion: messaging.knative.dev/v1\nkind: Subscription\nmetadata: {name: x}\n"),
            "document 2: spec is missing: give it",
            id="a Subscription without a spec",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {backoffDelay: 1s}\n"),
            "document 2: spec.delivery.backoffDelay is '1s', which is not an ISO 8601 duration: "
            "write for example PT0.5S",
            id="a duration that is none",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {backofDelay: PT1S}\n"),
            "document 2: spec.delivery.backofDelay is no field that is known here: did you mean backoffDelay?",
            id="a typo",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {backoffMax: PT1M}\n"),
            "document 2: spec.delivery.backoffMax is neither Knative's nor ours: waits grow by backoffPolicy without a "
            "bound of their own (a day at most); retryAfterMax is for what a Retry-After header asks",
            id="a field that somebody would like to have",
        ),
        pytest.param(
            (CHANNEL + "spec: {delivery: {backoffMax: PT1M}}\n",),
            "document 1: spec.delivery.backoffMax is neither Knative's nor ours: ",
            id="the same of a channel",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("name: orders", "name: orders, namespace: shop")),
            "document 2: spec.channel.namespace is 'shop': links between namespaces are Knative's, and not served on a "
            "laptop, where a Subscription is for a channel of its own, here 'default'",
            id="a channel of another namespace",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  reply: {channel: {name: bills}}\n"),
            "document 2: spec.reply.channel was Knative's before messaging.knative.dev/v1: write spec.reply.ref: "
            "{apiVersion: …, kind: …, name: …}",
            id="a field that Knative had earlier",
        ),
        pytest.param(
            (CHANNEL, subscription(subscriber="{kind: Channel, name: orders}")),
            "document 2: spec.subscriber.kind is no field that is known here: it belongs into spec.subscriber.ref, so "
            "write spec.subscriber.ref.kind",
            id="one step too high",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  retry: 3\n"),
            "document 2: spec.retry is no field that is known here: it belongs into spec.delivery, so write "
            "spec.delivery.retry",
            id="it is a name elsewhere",
        ),
        pytest.param(
            (CHANNEL + "spec: {maxAge: 1h}\n",),
            "document 1: spec.maxAge is no field that is known here: it belongs into spec.stream.config, so write "
            "spec.stream.config.maxAge",
            id="it is a name deeper in a channel",
        ),
        pytest.param(
            (CHANNEL + "spec: {delivery: {deadLetterSink: {name: dead}}}\n",),
            "document 1: spec.delivery.deadLetterSink.name is no field that is known here: it belongs into "
            "spec.delivery.deadLetterSink.ref, so write spec.delivery.deadLetterSink.ref.name",
            id="a sink without its ref",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION + "  delivery: {colour: red}\n"),
            "document 2: spec.delivery.colour is no field that is known here: take it out; spec.delivery has "
            "deadLetterSink, retry, timeout, backoffPolicy, backoffDelay, retryAfterMax, format",
            id="nothing like it is known",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("name: orders", "name: orders, subscriber: x")),
            "document 2: spec.channel.subscriber is no field that is known here: it belongs into spec, so write "
            "spec.subscriber",
            id="one step too deep",
        ),
        pytest.param(
            (CHANNEL + "spce: {stream: {}}\n",),
            "document 1: spce is no field that is known here: did you mean spec?",
            id="a typo in the object",
        ),
        pytest.param(
            (CHANNEL.replace("orders}", "orders, annotation: {}}"),),
            "document 1: metadata.annotation is no field that is known here: did you mean annotations?",
            id="a typo in the metadata",
        ),
        pytest.param(
            (CHANNEL, subscription()),
            "document 2: spec has neither a subscriber nor a reply: give a subscriber",
            id="a Subscription without a subscriber",
        ),
        pytest.param(
            (CHANNEL + "spec: {stream: {config: {retention: Limit}}}\n",),
            "document 1: spec.stream.config.retention is 'Limit': it should be 'Limits', 'Interest' or 'Work'",
            id="what reconcile would refuse",
        ),
        pytest.param(
            (CHANNEL.replace("orders", "Orders"),),
            "document 1: metadata.name is 'Orders'; a name is a DNS subdomain",
            id="a name that Kubernetes would not have",
        ),
        pytest.param(
            (CHANNEL.replace("{name: orders}", "{}"),), "document 1: metadata.name is missing: give it", id="no name"
        ),
        pytest.param(
            (CHANNEL.replace("v1alpha1", "v1"),),
            "document 1: apiVersion is messaging.knative.dev/v1: a NatsJetStreamChannel is served as "
            "messaging.knative.dev/v1alpha1",
            id="another version",
        ),
        pytest.param(
            (CHANNEL.replace("orders}", "orders, annotations: {headrace.dev/delivery-oder: ordered}}"),),
            "document 1: metadata.annotations[headrace.dev/delivery-oder] is no annotation that is known here: did you "
            "mean headrace.dev/delivery-order?",
            id="a typo in an annotation",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("billing}", "billing, annotations: {headrace.dev/frobnicate: x}}")),
            "document 2: metadata.annotations[headrace.dev/frobnicate] is no annotation that is known here: take it "
            "out; known are headrace.dev/delivery-order, headrace.dev/order-key, headrace.dev/lag-threshold, "
            "headrace.dev/max-scale",
            id="an annotation that nothing is like",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("billing}", 'billing, annotations: {headrace.dev/retain: "true"}}')),
            "document 2: metadata.annotations[headrace.dev/retain] counts on a channel only: write it there",
            id="a channel's annotation on a Subscription",
        ),
        pytest.param(
            (CHANNEL, SUBSCRIPTION.replace("billing}", "billing, annotations: {headrace.dev/order-key: tenant}}")),
            "document 2: metadata.annotations[headrace.dev/order-key] is 'tenant': it counts with "
            "headrace.dev/delivery-order: by-key only, and the order is unordered",
            id="a key without an order",
        ),
        pytest.param(("kind: List\nitems: 5\n",), "document 1: items is '5': it should be a list", id="a broken List"),
        pytest.param((CHANNEL, "{[a]: b}\n"), "document 2: this is not YAML: ", id="a key that is a list"),
        pytest.param((CHANNEL, "a: !!bool maybe\n"), "document 2: this is not YAML: ", id="a tag that does not fit"),
        pytest.param((CHANNEL, "a: \0\n"), "document 1: this is not YAML: ", id="a control character"),
    ],
)
def test_a_mistake_is_told_with_file_document_field_and_value(
    read: Read, tmp_path: Path, documents: tuple[str, ...], told: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        read(*documents)

    assert told.replace("{file}", str(tmp_path / "all.yaml")) in str(caught.value)


def test_what_an_api_server_writes_and_a_namespace_that_is_the_same_are_no_mistakes(read: Read) -> None:
    written = "creationTimestamp: null, resourceVersion: '7', generateName: o, managedFields: []}"
    channel = CHANNEL.replace("orders}", f"orders, {written}") + "status: {}\n"

    found = read(channel, SUBSCRIPTION.replace("name: orders", "name: orders, namespace: default"))

    assert len(found.channels["default", "orders"]["spec"]["subscribers"]) == 1


@pytest.mark.parametrize(
    ("label", "told"),
    [
        pytest.param("&a {x: *a}", "metadata.labels.x is an alias to something that it is in itself", id="a circle"),
        pytest.param("{x: &a [1, *a]}", "metadata.labels.x[1] is an alias to something that it", id="a list"),
        pytest.param("{x: .nan}", "metadata.labels.x is nan, which JSON can't hold: give a finite", id="no number"),
        pytest.param("{x: -.inf}", "metadata.labels.x is -inf, which JSON can't hold", id="infinity"),
        pytest.param("{x: !!binary aGk=}", "labels.x is a bytes, b'hi', which JSON can't hold: write it", id="bytes"),
        pytest.param("{x: !!set {a}}", "labels.x is a set, {'a'}, which JSON can't hold: write it as text", id="a set"),
        pytest.param("{x: !!timestamp 2026-01-01}", "labels.x is a date, datetime.date(2026, 1, 1), ", id="a date"),
        pytest.param("{.nan: x}", "metadata.labels has a key that is a float, nan: write it as text", id="a key"),
        pytest.param("{x: 0x1ffffffffffffffff}", "metadata.labels.x is a number of 65 bits: give", id="a wide number"),
        pytest.param('{x: "\\ud800"}', "labels.x is '\\ud800', which holds half a character", id="half a character"),
        pytest.param("[" * 100 + "]" * 100, "is 100 levels deep: nothing that is served", id="deep"),
        pytest.param(
            "{a: &a [" + "1," * 1000 + "], b: [" + "*a," * 1000 + "]}",
            "metadata stands for more than 1,000,000 values, its aliases written out: split the document",
            id="a few words that stand for millions",
        ),
    ],
)
def test_what_json_can_not_hold_is_told_with_file_document_and_path(read: Read, label: str, told: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        read(CHANNEL, CHANNEL.replace("{name: orders}", f"{{name: bills, labels: {label}}}"))

    assert "all.yaml:7, document 2: metadata" in str(caught.value)
    assert told in str(caught.value)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(InvalidSpec, match="pipe is neither a file nor a directory: write the manifests to a file"):
        file_channels.load([str(tmp_path / "pipe")], BASE)


def test_a_device_is_not_read_for_ever() -> None:
    with pytest.raises(InvalidSpec, match="/dev/zero is neither a file nor a directory"):
        file_channels.load(["/dev/zero"], BASE)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec, match=r"nowhere\.yaml can't be read"):
        file_channels.load([str(tmp_path / "nowhere.yaml")], BASE)


ITSELF = "ref: {kind: NatsJetStreamChannel, apiVersion: messaging.knative.dev/v1alpha1, name: orders}"


@pytest.mark.parametrize(
    ("documents", "field"),
    [
        pytest.param((f"spec: {{delivery: {{deadLetterSink: {{{ITSELF}}}}}}}\n", ""), "spec.delivery.deadLetterSink"),
        pytest.param(
            (f"spec: {{delivery: {{deadLetterSink: {{uri: {BASE}/default/orders}}}}}}\n", ""), "spec.delivery"
        ),
        pytest.param(("", f"  reply: {{{ITSELF}}}\n"), "spec.reply"),
        pytest.param(("", f"  reply: {{uri: {BASE}/default/orders/}}\n"), "spec.reply"),
        pytest.param(("", f"  delivery: {{deadLetterSink: {{{ITSELF}}}}}\n"), "spec.delivery.deadLetterSink"),
    ],
)
def test_an_address_that_leads_back_to_the_channel_is_refused(
    read: Read, documents: tuple[str, str], field: str
) -> None:
    of_channel, of_subscription = documents
    with pytest.raises(InvalidSpec) as caught:
        read(CHANNEL + of_channel, SUBSCRIPTION + of_subscription)

    assert field in str(caught.value)
    assert "is the channel default/orders itself: " in str(caught.value)


APPLE_DOUBLE = b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X        "


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(
            CHANNEL.encode("utf-16"),
            "is in UTF-16 or UTF-32, as PowerShell's > writes: save it as UTF-8; in PowerShell, `… | Out-File",
            id="UTF-16",
        ),
        pytest.param(CHANNEL.encode("utf-16-le"), "is in UTF-16 or UTF-32", id="without its mark"),
        pytest.param(CHANNEL.encode("utf-16-be"), "is in UTF-16 or UTF-32", id="the other way round"),
        pytest.param(CHANNEL.encode("utf-32"), "is in UTF-16 or UTF-32", id="UTF-32"),
        pytest.param(
            b"# gr\xfc\xdfe\n" + CHANNEL.encode(), "is not in UTF-8 (byte 4 is 0xfc): save it as UTF-8", id="Latin-1"
        ),
        pytest.param(
            APPLE_DOUBLE,
            "is what macOS keeps beside a file (AppleDouble), no manifest: name the file without",
            id="Mac",
        ),
    ],
)
def test_a_file_in_another_encoding_is_told_what_it_is(tmp_path: Path, data: bytes, told: str) -> None:
    (tmp_path / "all.yaml").write_bytes(data)

    with pytest.raises(InvalidSpec) as caught:
        file_channels.load([str(tmp_path / "all.yaml")], BASE)

    assert str(caught.value).startswith(f"{tmp_path / 'all.yaml'} {told}")


def test_what_macos_keeps_beside_a_file_is_passed_over_in_a_directory(tmp_path: Path) -> None:
    (tmp_path / "._orders.yaml").write_bytes(APPLE_DOUBLE)
    (tmp_path / "orders.yaml").write_bytes(b"\xef\xbb\xbf" + CHANNEL.encode())

    assert file_channels.load([str(tmp_path)], BASE).channels.keys() == {("default", "orders")}
