"""Targets: JSON and headers that we keep in NATS or are handed by Kubernetes, and that people can edit by hand."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import strategies as st

from headrace.core.channel import consumer, stream_config
from headrace.core.channel.hook import HookRequest
from headrace.core.delivery import lease, parked, stage_record, subscriber
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.parked import Parked
from headrace.core.delivery.stage_record import Attempts, Stage, StageFailure, StageRecord
from headrace.core.delivery.subscriber import METADATA_KEY, Destination, Subscriber
from headrace.core.errors import InvalidEvent, InvalidSpec, Refused
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.event import Event
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.manifest import manifest
from headrace.core.nats import nats_wire
from headrace.core.nats.jetstream import Message
from headrace.io.http import address
from headrace.io.http.request import HeaderNames, RequestHead
from tests.fuzz import codecs, mutations
from tests.fuzz.codecs import written_well
from tests.fuzz.target import Target
from tests.support.functions.channels import channel, entry

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "a/json"}, b"[1]")
BILLING = Destination("http://billing/", "PEM", None)
SERVED = Subscriber("shop", "orders", "billing", "u-1", 1, "KN_SHOP__ORDERS_aside", "shop", BILLING, BILLING, BILLING)
RECORD = StageRecord(
    Stage.REPLY,
    Attempts(1),
    5.0,
    StageFailure("http://b/", 500, "x"),
    "said",
    EVENT,
    ((b"traceparent", b"0"),),
    "key",
    True,
)
CHANNEL = channel(
    entry(delivery={"retry": 3, "timeout": "PT10S", "backoffDelay": "PT1S", "deadLetterSink": {"uri": "http://d/"}}),
    annotations={"headrace.dev/max-scale": "3", "headrace.dev/delivery-order": "by-key"},
    stream={"config": {"maxAge": "1h", "sources": [{"name": "A", "optStartTime": "2026-01-01T00:00:00Z"}]}},
    consumerConfigTemplate={"rateLimitBPS": 5, "deliverPolicy": "ByStartTime", "optStartTime": "2026-01-01T00:00:00Z"},
)
_HEAD = RequestHead(address.parse("http://billing/"), HeaderNames())


def dead_letter(destination: str) -> None:
    """An event that failed there can be sent on, and says so without smuggling."""
    told = EVENT.with_attributes(StageFailure(destination, 500).extensions())
    message = http_codec.to_http(told)
    written_well(message.headers)
    assert http_codec.from_http(message) == told


def _hold_record(given: bytes, record: StageRecord | None) -> None:
    if record is None:
        return
    assert stage_record.from_json(stage_record.to_json(record)) == record
    if record.failure is not None:
        dead_letter(record.failure.destination)
        written_well(http_codec.to_http(EVENT.with_attributes(record.failure.extensions())).headers)
    written_well(record.reply_headers)
    with suppress(InvalidEvent):
        assert _HEAD.render(record.reply_headers, 0).count(b"\n") <= len(record.reply_headers) + 5


def _park(given: tuple[bytes, bytes, str, str]) -> tuple[Parked | None, Parked | None]:
    """What is read from the block as it is, and from the copy that we make of a message with it."""
    block, data, subject, reason = given
    headers = nats_wire.Headers(block)
    message = Message(subject, headers, data, "$JS.ACK.x", "KN_S__C", "KN_SUB_A", 1, 7, 1_700_000_000_000_000_000)
    kept = nats_codec.encoded(
        parked.parked_message(message, StageRecord(failure=StageFailure(reason, 500)), reason, SERVED)
    )
    now = datetime(2026, 1, 1, tzinfo=UTC)
    ours = parked.parse(1, now, nats_wire.Headers(kept.block), kept.data, len(kept.data))
    return parked.parse(1, now, headers, data, len(data)), ours


def _hold_parked(given: tuple[bytes, bytes, str, str], result: tuple[Parked | None, Parked | None]) -> None:
    block, data, *_ = given
    theirs, ours = result
    assert ours is not None, "what we park can't be read back"
    assert (ours.data, ours.stream, ours.sequence) == (data, "KN_S__C", 7)
    own = {
        name: value for name, value in nats_wire.Headers(block).items() if not name.startswith(("nats-", "headrace-"))
    }
    carried = {name: value for name, value in own.items() if nats_wire.can_carry(name, value)}
    assert dict(ours.headers) == carried
    assert ours.dropped == len(own) - len(carried)
    codecs.comes_back(ours.event)
    for found in (theirs, ours):
        if found is None:
            continue
        written_well(found.passing)
        _ = found.event, found.foreign
        for replayed in (parked.replay(found, "run", "s"), parked.replay_for(found, "run", "KN_SUB_A")):
            _stays_one_message(replayed, refusable=found is theirs)


def _stays_one_message(message: NatsMessage, *, refusable: bool) -> None:
    try:
        block = nats_codec.encoded(message).block
    except Refused:
        assert refusable, "what was parked can't be replayed"
        return
    assert block.count(b"\n") == len(message.headers) + 2
    assert b"\0" not in block


def _read_lease(body: bytes) -> tuple[Lease, LeaseAnswer | None]:
    asked = lease.parse_request(body, max_in_flight=10, max_bytes=1000)
    answer = None
    with suppress(InvalidSpec):
        answer = lease.read_answer(json.loads(body))
    return asked, answer


def _hold_lease(body: bytes, result: tuple[Lease, LeaseAnswer | None]) -> None:
    asked, answer = result
    assert 0 <= asked.seconds <= lease.LONGEST_SECONDS
    assert 0 <= asked.linger <= lease.LONGEST_LINGER
    assert 1 <= asked.max_in_flight <= 10
    for name in (asked.stream, asked.consumer):
        assert not set(name) & set(" .*>\r\n\0\t"), f"{name!r} changes a subject"
    assert lease.parse_request(json.dumps(asked.to_json()).encode(), max_in_flight=10, max_bytes=1000) == asked
    if answer is not None:
        assert lease.read_answer(answer.to_json()) == answer


def _read_subscriber(body: bytes) -> Subscriber | None:
    return subscriber.from_metadata({METADATA_KEY: body.decode(errors="surrogateescape")})


def _hold_subscriber(body: bytes, found: Subscriber | None) -> None:
    assert found is not None
    assert subscriber.from_metadata({METADATA_KEY: found.to_json()}) == found
    for destination in (found.subscriber, found.reply, found.dead_letter):
        if destination is not None:
            address.parse(destination.uri)
            dead_letter(destination.uri)
    # What is computed with it.
    _ = found.names, found.policy.wait(found.policy.retry + 1), found.rate_limit_bps / found.most_leases, hash(found)


def _read_hook(body: bytes) -> tuple[HookRequest, list[Subscriber]]:
    request = HookRequest.from_json(body)
    with suppress(InvalidSpec):
        manifest.parse_identity(request.parent)
    parsed = manifest.parse(request.parent)
    stream_config.wanted(parsed, "default")
    return request, [row.subscriber for row in consumer.rows(parsed, "S") if row.subscriber]


def _hold_hook(body: bytes, result: tuple[HookRequest, list[Subscriber]]) -> None:
    request, served = result
    assert isinstance(request.children, dict)
    assert isinstance(request.related, dict)
    if not request.stock:
        assert HookRequest.from_json(request.to_json()) == request, (
            "what one side of the hook writes the other misreads"
        )
    for found in served:
        assert subscriber.from_json(found.to_json()) == found, "reconcile writes what forward can't read"


_parked_block = (
    b"NATS/1.0\r\nHeadrace-Origin-Stream: KN_S__C\r\nHeadrace-Origin-Sequence: 7\r\n"
    b"Headrace-Origin-Subject: s.c._knative\r\n"
    b"Headrace-Consumer: KN_SUB_A\r\nHeadrace-Subscription: s/b\r\nHeadrace-Attempts: 3\r\nHeadrace-Reason: gave up\r\n"
    b"Headrace-Status: 500\r\nce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\nknative-x: 1\r\n\r\n"
)
_whole_lease: dict[str, Any] = {**LeaseAnswer({}, 1, 2, 3.0).to_json(), **Lease("S", "C").to_json()}
_request = {"parent": CHANNEL, "children": {}, "related": {}, "finalizing": False}

TARGETS = (
    Target(
        "stage_record",
        mutations.json_texts(json.loads(stage_record.to_json(RECORD))),
        (stage_record.to_json(RECORD),),
        stage_record.from_json,
        _hold_record,
        (),
    ),
    Target(
        "parked",
        st.tuples(
            mutations.mutated([_parked_block], [*codecs.VALUES, *(name + b": v\r\n" for name in codecs.NAMES)]),
            st.sampled_from((b"", b"data")) | mutations.json_texts(*codecs.JSON_EVENTS),
            # NATS tells the words of a line apart by blanks.
            mutations.mutated_text(["s.c._knative"]).map(lambda text: "".join(text.split()) or "s"),
            mutations.mutated_text(["gave up after 2 attempts"]),
        ),
        ((_parked_block, b"data", "s.c._knative", "gave up"),),
        _park,
        _hold_parked,
        (),
    ),
    Target(
        "lease",
        mutations.json_texts(_whole_lease),
        (json.dumps(_whole_lease).encode(),),
        _read_lease,
        _hold_lease,
        (InvalidSpec,),
    ),
    Target(
        "subscriber",
        mutations.json_texts(json.loads(SERVED.to_json())),
        (SERVED.to_json().encode(),),
        _read_subscriber,
        _hold_subscriber,
        (InvalidSpec,),
    ),
    Target(
        "hook",
        mutations.json_texts(_request),
        (json.dumps(_request).encode(),),
        _read_hook,
        _hold_hook,
        (InvalidSpec,),
    ),
)
