"""Impossible manifests are refused at apply, with a sentence that says what to do: typos, combinations, and changes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.control_plane.channel_manifests import channel
from tests.support.kube.kube_api import CHANNELS, Api


def stream(**config: Any) -> dict[str, Any]:
    return {"stream": {"config": config}}


def template(**fields: Any) -> dict[str, Any]:
    return {"consumerConfigTemplate": fields}


def delivery(**fields: Any) -> dict[str, Any]:
    return {"delivery": fields}


MISTAKES = [
    # Typos and types.
    (stream(retention="Limit"), 'spec.stream.config.retention: Unsupported value: "Limit": supported values: "Limits"'),
    (stream(storage="disk"), "spec.stream.config.storage: Unsupported value"),
    (stream(discard="old"), "spec.stream.config.discard: Unsupported value"),
    (stream(compression="s2"), "spec.stream.config.compression: Unsupported value"),
    (template(deliverPolicy="all"), "spec.consumerConfigTemplate.deliverPolicy: Unsupported value"),
    (template(consumerType="pull"), "spec.consumerConfigTemplate.consumerType: Unsupported value"),
    (delivery(backoffPolicy="Linear"), "spec.delivery.backoffPolicy: Unsupported value"),
    (delivery(format="xml"), "spec.delivery.format: Unsupported value"),
    (stream(maxBytes="5"), "spec.stream.config.maxBytes: Invalid value"),
    (stream(maxMsgs=-2), "spec.stream.config.maxMsgs in body should be greater than or equal to -1"),
    (stream(maxMsgSize=2**31), "spec.stream.config.maxMsgSize"),
    (stream(replicas=6), "spec.stream.config.replicas in body should be less than or equal to 5"),
    (stream(additionalSubjects="a"), "spec.stream.config.additionalSubjects in body must be of type array"),
    (delivery(retry=-1), "spec.delivery.retry in body should be greater than or equal to 0"),
    (template(fetchBatchSize=0), "spec.consumerConfigTemplate.fetchBatchSize in body should be greater"),
    ({"stream": "ORDERS"}, "spec.stream in body must be of type object"),
    # Durations, in the dialect of their place.
    (stream(maxAge="1 hour"), "spec.stream.config.maxAge: Invalid value"),
    (
        stream(maxAge="1 hour"),
        "it should be a duration between a microsecond and 100 years, like 500ms, 30s, 5m or 1h30m",
    ),
    (stream(maxAge="PT1H"), "like 500ms, 30s, 5m or 1h30m"),
    (stream(maxAge="100ns"), "between a microsecond and 100 years"),
    (stream(maxAge="-1h"), "between a microsecond and 100 years"),
    (stream(maxAge="9999999h"), "between a microsecond and 100 years"),
    (delivery(timeout="10s"), "it should be an ISO 8601 duration, more than zero and at most PT9M, like PT10S"),
    (delivery(timeout="PT0S"), "more than zero and at most PT9M"),
    (delivery(timeout="PT9M1S"), "more than zero and at most PT9M"),
    (delivery(timeout="P1D"), "more than zero and at most PT9M"),
    (delivery(backoffDelay="0.5"), "it should be an ISO 8601 duration, like PT0.5S, PT10S or PT1M"),
    (template(deliverPolicy="ByStartTime", optStartTime="yesterday"), "it should be RFC 3339"),
    (template(deliverPolicy="ByStartTime", optStartTime="2026-02-30T00:00:00Z"), "optStartTime"),
    (
        template(deliverPolicy="ByStartSequence", optStartSeq="x"),
        "spec.consumerConfigTemplate.optStartSeq in body should match",
    ),
    (template(sampleFrequency="101%"), "it should be a percentage, like 30 or 30%"),
    (stream(additionalSubjects=["a b"]), "it should be a NATS subject: tokens with dots between"),
    ({"stream": {"overrideName": "a.b"}}, "a stream's name has at most 200 characters, no blanks and none of"),
    (stream(mirror={}), "spec.stream.config.mirror.name: Required value"),
    (stream(mirror={"name": "", "optStartSeq": 5}), "name: name the stream"),
    (stream(sources=[{"name": "", "filterSubject": "a"}]), "name: name the stream"),
    (delivery(deadLetterSink={"ref": {"apiVersion": "v1"}}), "spec.delivery.deadLetterSink.ref.kind: Required value"),
    (delivery(deadLetterSink={"uri": "http://me:secret@dead/"}), "it names a user or password"),
    # Settings that no channel can have.
    (
        stream(noAck=True),
        "noAck: a stream without publish acks can't tell that an event is stored: take the setting out",
    ),
    (stream(sealed=True), "sealed: a sealed stream takes no events: take it out"),
    (stream(subjectDeleteMarkerTTL="5s"), "would be delivered as if they were events: take it out"),
    (stream(consumerLimits={"inactiveThreshold": "1m"}), "must not go while it idles: take it out"),
    (stream(metadata={"headrace.dev/role": "x"}), "keys with headrace.dev/ and _nats are taken: choose others"),
    (template(headersOnly=True), "subscribers get events with their data: take it out"),
    (template(backoff=["1s"]), "retries are spec.delivery's, with backoffDelay and backoffPolicy: take it out"),
    (template(maxWaiting=5), "Headrace bounds its own pulls: take it out"),
    (template(inactiveThreshold="1m"), "must not go while it idles: take it out"),
    (template(memStorage=True), "a subscriber's position must outlive the server: take it out"),
    (template(pauseUntil="2030-01-01T00:00:00Z"), "pause a consumer with `nats consumer pause`: take it out"),
    (template(priorityGroups=["a"]), "order is the annotation headrace.dev/delivery-order's: take it out"),
    # Combinations.
    (stream(mirror={"name": "A"}, additionalSubjects=["a"]), "a mirror listens on no subjects: take them, or mirror"),
    (stream(mirror={"name": "A"}, sources=[{"name": "B"}]), "a mirror has one origin"),
    (stream(mirror={"name": "A"}, firstSeq=5), "a mirror has the sequences of its origin"),
    (stream(mirrorDirect=True), "only a mirror can answer for another stream"),
    (stream(maxAge="1m", duplicateWindow="2m"), "it can't be longer than maxAge: shorten it, or take it out"),
    (stream(duplicateWindow="50ms"), "NATS has no shorter one: make it 100ms or more, or take it out"),
    (stream(discardNewPerSubject=True), "it needs discard New and a maxMsgsPerSubject: give both, or take it out"),
    (stream(allowRollup=True, denyPurge=True), "a rollup purges, which denyPurge forbids: take one of the two out"),
    (stream(persistMode="Async", storage="Memory"), "only storage File has an Async mode"),
    (stream(allowMsgSchedules=True), "schedules themselves would be delivered, too"),
    (stream(consumerLimits={"maxAckPending": 5}), "is the most that NATS takes: make it 1 to that"),
    (
        stream(
            sources=[{"name": "A", "filterSubject": "a", "subjectTransforms": [{"source": "a", "destination": "b"}]}]
        ),
        "it excludes subjectTransforms",
    ),
    (template(deliverPolicy="ByStartSequence"), "optStartSeq: deliverPolicy ByStartSequence needs it: give it"),
    (template(optStartSeq=5), "only deliverPolicy ByStartSequence has a use for it: take it out"),
    (template(filterSubject="a", filterSubjects=["b"]), "it excludes filterSubject"),
    (template(rateLimitBPS=1, rateLimitBps=1), "it is rateLimitBPS in another spelling: keep one of the two"),
    ({"connection": {"secretRef": {"name": "Not A Name"}}}, "it should be the name of an object"),
    ({"connection": {"secretRef": {}}}, "spec.connection.secretRef.name: Required value"),
    ({"deploymentSpecTemplate": {"resources": {"limits": {"cpu": "lots"}}}}, "deploymentSpecTemplate.resources.limits"),
    # What not even the list of subscribers may have.
    ({"subscribers": [{"subscriberUri": "http://a"}]}, "spec.subscribers[0].uid: Required value"),
    ({"subscribers": [{"uid": "a"}, {"uid": "a"}]}, "spec.subscribers[1]: Duplicate value"),
]


@pytest.mark.parametrize(("spec", "says"), MISTAKES)
async def test_a_mistake_is_refused_with_what_to_do(api: Api, namespace: str, spec: dict[str, Any], says: str) -> None:
    answer = await api.create(CHANNELS.format(namespace=namespace), channel(spec=spec))

    assert answer.status == 422, answer.body
    assert says in answer.message


CHANGES = [
    (stream(storage="File"), stream(storage="Memory"), "the storage of a stream can't be changed: put it back"),
    ({}, stream(storage="Memory"), "the storage of a stream can't be changed: put it back"),
    ({}, stream(retention="Work"), "NATS can't change retention to or from Work: put it back"),
    (stream(retention="Work"), stream(retention="Limits"), "NATS can't change retention to or from Work"),
    ({}, {"stream": {"overrideName": "OTHER"}}, "a channel can't move to another stream: put it back"),
    ({"stream": {"overrideName": "A"}}, {"stream": {"overrideName": "B"}}, "a channel can't move to another stream"),
    ({"stream": {"overrideName": "A"}}, {"stream": {"overrideName": None}}, "a channel can't move to another stream"),
    ({}, stream(mirror={"name": "A"}), "a stream can't be made a mirror, nor a mirror be changed"),
    (stream(mirror={"name": "A"}), stream(mirror={"name": "B"}), "a stream can't be made a mirror"),
    (stream(mirror={"name": ""}), stream(mirror={"name": "A"}), "a stream can't be made a mirror"),
    ({}, stream(persistMode="Async"), "the persist mode of a stream can't be changed"),
    (stream(denyDelete=True), stream(denyDelete=False), "denyDelete: it can't be taken back: leave it true"),
    (stream(denyPurge=True), stream(denyPurge=None), "denyPurge: it can't be taken back: leave it true"),
    (stream(allowMsgTTL=True), stream(allowMsgTTL=False), "allowMsgTTL: it can't be taken back: leave it true"),
]


@pytest.mark.parametrize(("before", "after", "says"), CHANGES)
async def test_a_change_that_nats_cannot_make_is_refused_with_what_to_do(
    api: Api, namespace: str, before: dict[str, Any], after: dict[str, Any], says: str
) -> None:
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel(spec=before))).unwrapped()

    answer = await api.merge(f"{path}/orders", {"spec": after})

    assert answer.status == 422, answer.body
    assert says in answer.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, stream(storage="File")),
        ({}, stream(storage="", retention="")),
        (stream(storage="Memory"), stream(storage="Memory", maxBytes=5)),
        ({}, stream(retention="Interest")),
        (stream(retention="Interest"), stream(retention="Limits")),
        (stream(mirror={"name": "A"}), stream(mirror=None)),
        (stream(), stream(mirror={"name": ""}, additionalSubjects=["a"])),
        ({}, stream(denyDelete=True, denyPurge=True, allowMsgTTL=True)),
        ({}, stream(maxBytes=5, maxAge="1h", replicas=3, compression="S2", additionalSubjects=["a"])),
        ({}, template(deliverPolicy="New", maxAckPending=7)),
        ({"stream": {"overrideName": "A"}}, {"stream": {"overrideName": "A"}, "delivery": {"retry": 1}}),
    ],
)
async def test_a_change_that_nats_can_make_is_taken(
    api: Api, namespace: str, before: dict[str, Any], after: dict[str, Any]
) -> None:
    path = CHANNELS.format(namespace=namespace)
    (await api.create(path, channel(spec=before))).unwrapped()

    answer = await api.merge(f"{path}/orders", {"spec": after})

    assert answer.accepted, answer.message


async def test_a_password_is_not_repeated(api: Api, namespace: str) -> None:
    spec = delivery(deadLetterSink={"uri": "http://me:secret@dead/"})

    answer = await api.create(CHANNELS.format(namespace=namespace), channel(spec=spec))

    assert answer.status == 422
    assert "secret" not in str(answer.body)
