"""Settings that NATS has learned since the Go channel was written: how they are asked for, or why they are refused."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import consumer, stream_config
from headrace.core.delivery.subscriber import METADATA_KEY, Subscriber
from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, stream

BILLING = Subscriber("shop", "orders", "billing", "aaaa-1", 1, "KN_SHOP__ORDERS_aside")


@pytest.mark.parametrize(
    ("config", "key", "value"),
    [
        ({"maxMsgsPerSubject": 7}, "max_msgs_per_subject", 7),
        ({"discard": "New", "maxMsgsPerSubject": 7, "discardNewPerSubject": True}, "discard_new_per_subject", True),
        ({"compression": "S2"}, "compression", "s2"),
        ({"denyDelete": True}, "deny_delete", True),
        ({"denyPurge": True}, "deny_purge", True),
        ({"allowDirect": True}, "allow_direct", True),
        ({"mirror": {"name": "A"}, "mirrorDirect": True}, "mirror_direct", True),
        ({"allowRollup": True}, "allow_rollup_hdrs", True),
        (
            {"subjectTransform": {"source": "a.*", "destination": "b.{{wildcard(1)}}"}},
            "subject_transform",
            {"src": "a.*", "dest": "b.{{wildcard(1)}}"},
        ),
        (
            {"republish": {"destination": "b.>", "headersOnly": True}},
            "republish",
            {"src": ">", "dest": "b.>", "headers_only": True},
        ),
        ({"firstSeq": "100"}, "first_seq", 100),
        ({"allowMsgTTL": True}, "allow_msg_ttl", True),
        ({"allowAtomic": True}, "allow_atomic", True),
        ({"allowBatched": True}, "allow_batched", True),
        ({"persistMode": "Async"}, "persist_mode", "async"),
        (
            {"mirror": {"name": "A", "external": {"apiPrefix": "$JS.hub.API"}}},
            "mirror",
            {"name": "A", "filter_subject": "", "external": {"api": "$JS.hub.API", "deliver": ""}},
        ),
        (
            {"sources": [{"name": "A", "subjectTransforms": [{"source": "a", "destination": "b"}]}]},
            "sources",
            [{"name": "A", "filter_subject": "", "subject_transforms": [{"src": "a", "dest": "b"}]}],
        ),
    ],
)
def test_settings_of_the_stream_go_to_the_server(config: dict[str, Any], key: str, value: object) -> None:
    made = stream_config.wanted(manifest.parse(channel(stream=stream(**config))), "east").config

    assert made[key] == value


def test_what_cannot_be_taken_back_or_is_new_is_not_mentioned_unless_it_is_asked_for() -> None:
    made = stream_config.wanted(manifest.parse(channel()), "east").config

    assert {
        "deny_delete",
        "deny_purge",
        "first_seq",
        "allow_msg_ttl",
        "allow_msg_schedules",
        "allow_atomic",
        "allow_batched",
        "persist_mode",
    }.isdisjoint(made)


def test_schedules_leave_roll_ups_to_the_server_which_needs_them() -> None:
    spec = {
        "stream": stream(allowMsgSchedules=True),
        "consumerConfigTemplate": {"filterSubject": "shop.orders._knative"},
    }

    made = stream_config.wanted(manifest.parse(channel(**spec)), "east").config

    assert made["allow_msg_schedules"] is True
    assert "allow_rollup_hdrs" not in made


def test_the_authors_metadata_stand_beside_ours() -> None:
    spec = {"stream": stream(metadata={"team": "shop"}), "consumerConfigTemplate": {"metadata": {"team": "billing"}}}
    parsed = manifest.parse(channel(**spec))

    of_stream = stream_config.wanted(parsed, "east").config["metadata"]
    of_consumer = consumer.config(BILLING, "KN_SUB_AAAA1", parsed.spec.consumer_config_template, ())["metadata"]

    assert of_stream["team"] == "shop"
    assert of_stream["headrace.dev/channel"] == "orders"
    assert of_consumer["team"] == "billing"
    assert METADATA_KEY in of_consumer


@pytest.mark.parametrize(
    ("template", "key", "value"),
    [
        ({"filterSubjects": ["a", "b", "a"]}, "filter_subjects", ["a", "b"]),
        ({"filterSubjects": ["a"]}, "filter_subject", "a"),
        ({"replicas": 3}, "num_replicas", 3),
    ],
)
def test_settings_of_the_consumers_go_to_the_server(template: dict[str, Any], key: str, value: object) -> None:
    parsed = manifest.parse(channel(consumerConfigTemplate=template)).spec.consumer_config_template

    assert consumer.config(BILLING, "KN_SUB_AAAA1", parsed, ("ignored",))[key] == value


def test_the_rate_limit_may_be_spelled_as_the_proposal_does() -> None:
    parsed = manifest.parse(channel(consumerConfigTemplate={"rateLimitBps": 8}))

    assert parsed.spec.consumer_config_template.bits_per_second == 8


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"stream": stream(noAck=True)}, "spec.stream.config.noAck is True: a stream without publish acks"),
        ({"stream": stream(sealed=True)}, "spec.stream.config.sealed is True: a sealed stream takes no events"),
        (
            {"stream": stream(subjectDeleteMarkerTTL="5s")},
            "spec.stream.config.subjectDeleteMarkerTTL is '5s': the server's markers",
        ),
        ({"stream": stream(maxAge="1ms")}, "spec.stream.config.maxAge is '0.001s': NATS"),
        (
            {"stream": stream(maxAge="1m", duplicateWindow="2m")},
            "spec.stream.config.duplicateWindow is '120s': it can't be longer than maxAge",
        ),
        (
            {"stream": stream(mirror={"name": "A"}, sources=[{"name": "B"}])},
            "spec.stream.config.sources is [{'name': 'B'}]: a mirror has one origin",
        ),
        (
            {"stream": stream(discardNewPerSubject=True)},
            "spec.stream.config.discardNewPerSubject is True: it needs discard New and a maxMsgsPerSubject",
        ),
        ({"stream": stream(mirrorDirect=True)}, "spec.stream.config.mirrorDirect is True: only a mirror can answer"),
        (
            {"stream": stream(allowRollup=True, denyPurge=True)},
            "spec.stream.config.allowRollup is True: a rollup purges, which denyPurge forbids",
        ),
        (
            {"stream": stream(persistMode="Async", storage="Memory")},
            "spec.stream.config.persistMode is 'Async': only storage File has an Async mode",
        ),
        (
            {"stream": stream(allowMsgSchedules=True)},
            "spec.stream.config.allowMsgSchedules is True: schedules themselves would be delivered",
        ),
        (
            {"stream": stream(consumerLimits={"maxAckPending": 5})},
            "spec.consumerConfigTemplate.maxAckPending is missing: stream.config.consumerLimits.maxAckPending is the",
        ),
        (
            {"stream": stream(metadata={"headrace.dev/role": "x"})},
            "the key headrace.dev/role is not yours",
        ),
        ({"stream": stream(additionalSubjects=["a b"])}, "it should be a NATS subject: tokens with dots between"),
        (
            {"consumerConfigTemplate": {"headersOnly": True}},
            "spec.consumerConfigTemplate.headersOnly is True: subscribers get events with their data: take it out",
        ),
        (
            {"consumerConfigTemplate": {"filterSubject": "a", "filterSubjects": ["b"]}},
            "spec.consumerConfigTemplate.filterSubjects is ['b']: it excludes filterSubject",
        ),
        (
            {"consumerConfigTemplate": {"rateLimitBPS": 1, "rateLimitBps": 2}},
            "spec.consumerConfigTemplate.rateLimitBps is 2: it is rateLimitBPS in another spelling",
        ),
        (
            {"deploymentSpecTemplate": {"resources": {"limits": {"cpu": "lots"}}}},
            "spec.deploymentSpecTemplate.resources.limits.cpu",
        ),
        (
            {"deploymentSpecTemplate": {"tolerations": [{"operator": "Equals"}]}},
            "spec.deploymentSpecTemplate.tolerations[0].operator is 'Equals': it should be 'Exists' or 'Equal'",
        ),
    ],
)
def test_what_no_channel_can_have_is_refused_with_what_to_do(spec: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse(channel(**spec))

    assert says in str(refused.value)


def test_the_pod_template_is_read_whole() -> None:
    template = {
        "labels": {"team": "shop"},
        "annotations": {"a": "b"},
        "nodeSelector": {"disk": "ssd"},
        "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}
                ]
            },
        },
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "priorityClassName": "high",
        "imagePullSecrets": [{"name": "registry"}],
    }

    parsed = manifest.parse(channel(deploymentSpecTemplate=template)).spec.deployment_spec_template

    assert parsed is not None
    assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == template


def test_a_password_of_the_dead_letter_sink_is_refused_and_not_repeated() -> None:
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse(channel(delivery={"deadLetterSink": {"uri": "http://me:secret@dead/"}}))

    assert refused.value.field == "spec.delivery.deadLetterSink.uri"
    assert "names a user or password" in str(refused.value)
    assert "secret" not in str(refused.value)
