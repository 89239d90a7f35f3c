"""A channel as its author wrote it: what is taken, and what is said of the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from headrace.core.errors import InvalidSpec
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry, stream


def test_every_field_of_a_delivery_is_read() -> None:
    spec = manifest.parse(
        channel(
            delivery={
                "deadLetterSink": {"uri": "http://dead/", "CACerts": "PEM", "audience": "dead"},
                "retry": 3,
                "timeout": "PT10S",
                "backoffPolicy": "linear",
                "backoffDelay": "PT0.5S",
                "retryAfterMax": "PT0S",
                "format": "json",
            }
        )
    ).spec

    assert spec.delivery is not None
    assert spec.delivery.dead_letter_sink is not None
    sink = spec.delivery.dead_letter_sink
    assert (sink.uri, sink.ca_certs, sink.audience) == ("http://dead/", "PEM", "dead")
    assert (spec.delivery.retry, spec.delivery.backoff_policy, spec.delivery.format) == (3, "linear", "json")
    assert spec.delivery.timeout == timedelta(seconds=10)
    assert spec.delivery.backoff_delay == timedelta(milliseconds=500)
    assert spec.delivery.retry_after_max == timedelta()


def test_every_field_of_a_stream_is_read() -> None:
    config = manifest.parse(
        channel(
            stream=stream(
                additionalSubjects=["a", "b"],
                retention="Work",
                maxConsumers=1,
                maxMsgs=2,
                maxBytes=3,
                discard="New",
                maxAge="1h",
                maxMsgSize=4,
                storage="Memory",
                replicas=3,
                duplicateWindow="5m",
                placement={"cluster": "east", "tags": ["ssd"]},
                sources=[{"name": "B", "optStartTime": "2026-01-01T00:00:00Z"}],
            )
        )
    ).spec.stream.config

    assert config.additional_subjects == ("a", "b")
    assert (config.retention, config.discard, config.storage) == ("Work", "New", "Memory")
    assert (config.max_consumers, config.max_msgs, config.max_bytes, config.max_msg_size) == (1, 2, 3, 4)
    assert config.replicas == 3
    assert (config.max_age, config.duplicate_window) == (timedelta(hours=1), timedelta(minutes=5))
    assert config.placement is not None
    assert (config.placement.cluster, config.placement.tags) == ("east", ("ssd",))
    assert (config.sources[0].name, config.sources[0].opt_start_time) == ("B", "2026-01-01T00:00:00Z")


def test_every_field_of_a_consumer_template_is_read() -> None:
    template = manifest.parse(
        channel(
            consumerConfigTemplate={
                "deliverPolicy": "ByStartSequence",
                "optStartSeq": 6,
                "ackWait": "30s",
                "maxDeliver": 7,
                "filterSubject": "a.b",
                "replayPolicy": "Original",
                "rateLimitBPS": 8,
                "sampleFrequency": "30%",
                "maxAckPending": 9,
                "consumerType": "Pull",
                "fetchMaxWait": "200ms",
                "fetchBatchSize": 10,
            }
        )
    ).spec.consumer_config_template

    assert (template.deliver_policy, template.opt_start_seq) == ("ByStartSequence", 6)
    assert template.filter_subject == "a.b"
    assert (template.ack_wait, template.max_deliver, template.consumer_type) == (timedelta(seconds=30), 7, "Pull")
    assert (template.replay_policy, template.rate_limit_bps, template.sample_frequency) == ("Original", 8, "30%")
    assert (template.max_ack_pending, template.fetch_batch_size) == (9, 10)
    assert template.fetch_max_wait == timedelta(milliseconds=200)


def test_every_field_of_an_entry_is_read() -> None:
    parsed = manifest.parse_entry(
        {
            "name": "billing",
            "uid": "aaaa-1",
            "generation": 4,
            "subscriberUri": "https://billing/",
            "subscriberCACerts": "PEM 1",
            "subscriberAudience": "billing",
            "replyUri": "https://reply/",
            "replyCACerts": "PEM 2",
            "replyAudience": "reply",
            "delivery": {"retry": 2},
            "auth": {"serviceAccountName": "billing"},
        },
        0,
    )

    assert (parsed.name, parsed.uid, parsed.generation) == ("billing", "aaaa-1", 4)
    assert (parsed.subscriber_uri, parsed.subscriber_ca_certs) == ("https://billing/", "PEM 1")
    assert (parsed.reply_uri, parsed.reply_ca_certs) == ("https://reply/", "PEM 2")
    assert (parsed.subscriber_audience, parsed.reply_audience) == ("billing", "reply")
    assert parsed.delivery is not None
    assert parsed.delivery.retry == 2
    assert parsed.auth is not None
    assert parsed.auth.service_account_name == "billing"


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(None, id="no spec at all, as the Subscription controller may make it"),
        pytest.param({}, id="an empty spec"),
        pytest.param({"subscribers": None, "delivery": None, "stream": None}, id="nulls"),
        pytest.param(
            {"consumerConfigTemplate": {"filterSubject": ""}, "stream": {"config": {"maxAge": ""}}}, id="empty"
        ),
        pytest.param({"fromTheFuture": 1}, id="fields that we don't know"),
    ],
)
def test_what_is_absent_or_unknown_is_no_fault(spec: dict[str, Any] | None) -> None:
    parsed = manifest.parse({**channel(), "spec": spec})

    assert parsed.spec == manifest.Spec()


@pytest.mark.parametrize("given", [12, "12", "012"])
def test_sequences_may_be_text_as_the_proposal_writes_them(given: object) -> None:
    parsed = manifest.parse(channel(stream=stream(mirror={"name": "A", "optStartSeq": given})))

    assert parsed.spec.stream.config.mirror is not None
    assert parsed.spec.stream.config.mirror.opt_start_seq == 12


@pytest.mark.parametrize(
    ("given", "normal"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z"),
        ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00.500Z", "2026-01-01T00:00:00.5Z"),
        ("2026-01-01T00:00:10.000Z", "2026-01-01T00:00:10Z"),
    ],
)
def test_moments_are_normalised_to_the_servers_form(given: str, normal: str) -> None:
    template = {"deliverPolicy": "ByStartTime", "optStartTime": given}

    parsed = manifest.parse(channel(consumerConfigTemplate=template))

    assert parsed.spec.consumer_config_template.opt_start_time == normal


@pytest.mark.parametrize(
    ("spec", "field", "says"),
    [
        (
            {"stream": stream(retention="Limit")},
            "spec.stream.config.retention",
            "is 'Limit': it should be 'Limits'",
        ),
        ({"stream": stream(discard="old")}, "spec.stream.config.discard", "is 'old': it should be 'Old' or 'New'"),
        ({"stream": stream(storage="Disk")}, "spec.stream.config.storage", "it should be 'File' or 'Memory'"),
        ({"stream": stream(maxAge="1 hour")}, "spec.stream.config.maxAge", "is '1 hour', which is not a duration"),
        ({"stream": stream(maxAge="PT1H")}, "spec.stream.config.maxAge", "write for example 500ms"),
        ({"stream": stream(maxAge=3600)}, "spec.stream.config.maxAge", "is 3600: it should be a duration as text"),
        ({"stream": stream(maxAge="100ns")}, "spec.stream.config.maxAge", "between a microsecond and 100 years"),
        ({"stream": stream(maxAge="9999999h")}, "spec.stream.config.maxAge", "between a microsecond and 100 years"),
        ({"stream": stream(maxBytes="5")}, "spec.stream.config.maxBytes", "is '5': it should be a whole number"),
        ({"stream": stream(maxBytes=1.5)}, "spec.stream.config.maxBytes", "is 1.5: it should be a whole number"),
        ({"stream": stream(maxMsgs=True)}, "spec.stream.config.maxMsgs", "is true: it should be a whole number"),
        ({"stream": stream(maxMsgs=-2)}, "spec.stream.config.maxMsgs", "is -2: it should be at least -1"),
        (
            {"stream": stream(maxMsgSize=2**31)},
            "spec.stream.config.maxMsgSize",
            "is 2147483648: it should be at most 2147483647",
        ),
        ({"stream": stream(noAck="yes")}, "spec.stream.config.noAck", "is 'yes': it should be true or false"),
        ({"stream": stream(replicas=-1)}, "spec.stream.config.replicas", "is -1: it should be at least 0"),
        ({"stream": stream(additionalSubjects="a")}, "spec.stream.config.additionalSubjects", "it should be a list"),
        (
            {"stream": stream(additionalSubjects=[1])},
            "spec.stream.config.additionalSubjects[0]",
            "is 1: it should be text",
        ),
        ({"stream": stream(mirror={})}, "spec.stream.config.mirror.name", "is missing: give it"),
        (
            {"stream": stream(mirror={"name": "", "filterSubject": "a"})},
            "spec.stream.config.mirror.name",
            "is missing: name the stream",
        ),
        ({"stream": stream(sources=[{}])}, "spec.stream.config.sources[0].name", "is missing: give it"),
        (
            {"stream": stream(mirror={"name": "A", "optStartSeq": "x"})},
            "spec.stream.config.mirror.optStartSeq",
            "is 'x': it should be a whole number",
        ),
        (
            {"stream": stream(mirror={"name": "A", "optStartTime": "2026-01-01"})},
            "spec.stream.config.mirror.optStartTime",
            "is '2026-01-01': it should be RFC 3339, like 2026-01-31T09:30:00Z",
        ),
        ({"stream": "ORDERS"}, "spec.stream", "is 'ORDERS': it should be an object"),
        ({"stream": {"overrideName": 5}}, "spec.stream.overrideName", "is 5: it should be text"),
        ({"delivery": {"timeout": "10s"}}, "spec.delivery.timeout", "is '10s', which is not an ISO 8601 duration"),
        ({"delivery": {"timeout": "PT0S"}}, "spec.delivery.timeout", "is 'PT0S': it should be more than zero"),
        (
            {"delivery": {"timeout": "PT541S"}},
            "spec.delivery.timeout",
            "is 'PT541S': it should be more than zero",
        ),
        ({"delivery": {"retry": -1}}, "spec.delivery.retry", "is -1: it should be at least 0"),
        ({"delivery": {"retry": 1_000_001}}, "spec.delivery.retry", "is 1000001: it should be at most 1000000"),
        (
            {"delivery": {"backoffPolicy": "none"}},
            "spec.delivery.backoffPolicy",
            "it should be 'linear' or",
        ),
        ({"delivery": {"format": "xml"}}, "spec.delivery.format", "it should be 'json' or 'binary'"),
        (
            {"consumerConfigTemplate": {"deliverPolicy": "all"}},
            "spec.consumerConfigTemplate.deliverPolicy",
            "is 'all': it should be 'All', 'Last'",
        ),
        (
            {"consumerConfigTemplate": {"sampleFrequency": "often"}},
            "spec.consumerConfigTemplate.sampleFrequency",
            "is 'often': it should be a percentage",
        ),
        (
            {"consumerConfigTemplate": {"fetchBatchSize": 0}},
            "spec.consumerConfigTemplate.fetchBatchSize",
            "is 0: it should be at least 1",
        ),
        ({"subscribers": {"a": 1}}, "spec.subscribers", "it should be a list"),
    ],
)
def test_the_first_fault_is_named_by_its_path_and_quoted(spec: dict[str, Any], field: str, says: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse({**channel(), "spec": spec})

    assert refused.value.field == field
    assert str(refused.value).startswith(field)
    assert says in str(refused.value)


def test_a_long_value_is_cut() -> None:
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse(channel(stream=stream(retention="x" * 10_000)))

    assert len(str(refused.value)) < 300


def test_an_annotation_that_is_no_text_is_named_by_its_key() -> None:
    parent = channel()
    parent["metadata"]["annotations"] = {"headrace.dev/max-scale": 4}

    with pytest.raises(InvalidSpec) as refused:
        manifest.parse(parent)

    assert refused.value.field == "metadata.annotations[headrace.dev/max-scale]"


def test_a_broken_entry_does_not_break_the_channel() -> None:
    parsed = manifest.parse(channel(entry(), {"uid": 5}, {"delivery": "x"}))

    assert len(parsed.spec.subscribers) == 3


def test_a_broken_entry_is_named_by_its_place() -> None:
    with pytest.raises(InvalidSpec) as refused:
        manifest.parse_entry(entry(delivery={"retry": -1}), 2)

    assert refused.value.field == "spec.subscribers[2].delivery.retry"


def test_what_is_needed_to_take_a_channel_down_is_read_from_any_nonsense() -> None:
    parent = channel(delivery={"retry": "x"}, stream={"overrideName": "ORDERS", "config": 5})

    identity = manifest.parse_identity(parent)

    assert (identity.metadata.name, identity.spec.stream.override_name) == ("orders", "ORDERS")
