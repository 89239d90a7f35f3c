"""JSON that people and strangers can edit: whatever it says, its reader gets a value or one of our errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel import consumer, stream_config
from headrace.core.channel.hook import HookRequest
from headrace.core.delivery import lease, stage_record, subscriber
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.stage_record import Attempts, Stage, StageFailure, StageRecord
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.errors import HeadraceError, InvalidSpec
from headrace.core.event import json_format
from headrace.core.event.event import Event
from headrace.core.manifest import manifest
from tests.support.functions.channels import channel, entry

numbers = st.sampled_from([0, -1, 1e308, float("inf"), float("-inf"), float("nan"), 10**400, -(10**400), 2**63])
texts = st.text(max_size=5) | st.sampled_from(
    ["0001-01-01T00:00:00+05:00", "PT" + "9" * 400 + "S", "\ud800", "9" * 5000]
)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.floats() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)

EVENT = Event({"specversion": "1.0", "id": "1", "source": "/s", "type": "t", "datacontenttype": "a/json"}, b"[1]")
BILLING = Destination("http://billing/", "PEM", None)
SERVED = Subscriber("shop", "orders", "billing", "u-1", 1, "KN_SHOP__ORDERS_aside", "shop", BILLING, BILLING, BILLING)
RECORD = StageRecord(
    Stage.REPLY, Attempts(1), 5.0, StageFailure("http://b/", 500, "x"), "said", EVENT, ((b"traceparent", b"0"),), "key"
)
CHANNEL = channel(
    entry(delivery={"retry": 3, "timeout": "PT10S", "backoffDelay": "PT1S", "deadLetterSink": {"uri": "http://d/"}}),
    annotations={"headrace.dev/max-scale": "3"},
    stream={"config": {"maxAge": "1h", "sources": [{"name": "A", "optStartTime": "2026-01-01T00:00:00Z"}]}},
    consumerConfigTemplate={"rateLimitBPS": 5, "deliverPolicy": "ByStartTime", "optStartTime": "2026-01-01T00:00:00Z"},
)


def read_lease(text: str) -> object:
    return lease.parse_request(text.encode(errors="surrogatepass"), max_in_flight=10, max_bytes=10)


def read_subscriber(text: str) -> object:
    found = subscriber.from_json(text)
    # What is computed with it.
    return found.names, found.policy.wait(found.policy.retry + 1), found.rate_limit_bps / found.most_leases, hash(found)


def read_record(text: str) -> object:
    return stage_record.from_json(text.encode(errors="surrogatepass"))


def read_channel(text: str) -> object:
    parsed = manifest.parse(HookRequest.from_json(text.encode(errors="surrogatepass")).parent)
    stream_config.wanted(parsed, "default")
    return [subscriber.from_json(row.subscriber.to_json()) for row in consumer.rows(parsed, "S") if row.subscriber]


READERS: list[Any] = [
    pytest.param(read_lease, Lease("S", "C").to_json(), id="a lease request"),
    pytest.param(
        lambda text: lease.read_answer(json.loads(text)), LeaseAnswer({}, 1, 2, 3.0).to_json(), id="a lease answer"
    ),
    pytest.param(read_subscriber, json.loads(SERVED.to_json()), id="a consumer's metadata"),
    pytest.param(read_record, json.loads(stage_record.to_json(RECORD)), id="a stage record"),
    pytest.param(
        lambda text: json_format.parse(text.encode(errors="surrogatepass")),
        json.loads(json_format.write(EVENT)),
        id="an event",
    ),
    pytest.param(read_channel, {"parent": CHANNEL}, id="a hook request"),
]


def places(value: Any) -> list[tuple[Any, ...]]:
    """The path of every value in a JSON value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, below in inner for rest in places(below))]


def changed(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = changed(value[path[0]], path[1:], new)
    return copy


@pytest.mark.parametrize(("read", "good"), READERS)
def test_what_is_as_it_should_be_is_read(read: Callable[[str], object], good: Any) -> None:
    assert read(json.dumps(good)) is not None


@pytest.mark.parametrize(("read", "good"), READERS)
@given(data=st.data())
def test_whatever_is_changed_in_it_nothing_but_our_errors_comes_of_it(
    read: Callable[[str], object], good: Any, data: st.DataObject
) -> None:
    text = json.dumps(changed(good, data.draw(st.sampled_from(places(good))), data.draw(values)))
    try:
        read(text)
    except HeadraceError as error:
        assert len(str(error)) < 2000  # noqa: PT017  # no error at all is fine, too


@pytest.mark.parametrize(
    "failure", [["http://b/\ud800", 500, "x"], ["http://b/\x00", 500, "x"], ["http://b/", 500, "a\r\nb"]]
)
def test_a_failure_that_no_dead_letter_can_tell_of_is_no_record(failure: list[object]) -> None:
    assert read_record(json.dumps({**json.loads(stage_record.to_json(RECORD)), "failure": failure})) is None


def test_no_header_of_a_record_can_smuggle_another() -> None:
    headers = [["traceparent", "0"], ["knative-x", "a\r\nhost: b"], ["knative-x\r\ny", "1"], ["cookie", "1"]]
    record = read_record(json.dumps({**json.loads(stage_record.to_json(RECORD)), "replyHeaders": headers}))
    assert record == RECORD


def test_headers_without_the_reply_that_they_go_with_are_forgotten() -> None:
    body = json.loads(stage_record.to_json(RECORD))
    del body["reply"]
    record = read_record(json.dumps(body))
    assert isinstance(record, StageRecord)
    assert record.reply_headers == ()


def test_an_empty_field_of_a_subscriber_is_none() -> None:
    body = json.loads(SERVED.to_json())
    body["subscriber"] = {"uri": "http://billing/", "CACerts": "", "audience": ""}
    assert subscriber.from_json(json.dumps(body)).subscriber == Destination("http://billing/")


@pytest.mark.parametrize("key", ["children", "related"])
def test_what_was_observed_is_an_object(key: str) -> None:
    assert getattr(HookRequest.from_json(json.dumps({"parent": CHANNEL, key: None}).encode()), key) == {}
    with pytest.raises(InvalidSpec, match=f"body.{key} is not an object"):
        HookRequest.from_json(json.dumps({"parent": CHANNEL, key: ["x"]}).encode())


@pytest.mark.parametrize(
    ("told", "apis"),
    [
        ({}, None),
        ({"headrace": {}}, None),
        ({"headrace": {"apis": "keda.sh/v1alpha1"}}, None),
        ({"headrace": {"apis": []}}, frozenset()),
        ({"headrace": {"apis": ["keda.sh/v1alpha1"]}}, frozenset({"keda.sh/v1alpha1"})),
    ],
)
def test_that_nobody_told_which_apis_there_are_is_not_that_there_are_none(
    told: dict[str, object], apis: frozenset[str] | None
) -> None:
    assert HookRequest.from_json(json.dumps({"parent": CHANNEL, **told}).encode()).apis == apis


@pytest.mark.parametrize("due", [float("inf"), float("nan"), -1, 1e300, 10**400])
def test_a_due_time_that_no_clock_shows_is_no_record(due: float) -> None:
    assert read_record(json.dumps({**json.loads(stage_record.to_json(RECORD)), "due": due})) is None


@pytest.mark.parametrize(("written", "read"), [(10**30, 1_000_001), (-1, 0)])
def test_attempts_beyond_every_budget_are_a_budget_that_is_used_up(written: int, read: int) -> None:
    record = read_record(json.dumps({**json.loads(stage_record.to_json(RECORD)), "attempts": [written, 0, 0]}))
    assert isinstance(record, StageRecord)
    assert record.attempts == (read, 0, 0)


def test_half_a_character_in_the_place_of_an_object_is_told_of() -> None:
    with pytest.raises(InvalidSpec, match=r"it should be an object: give \{uri: http://host/path\}"):
        manifest.parse_entry({"uid": "a", "delivery": {"deadLetterSink": "\ud800"}}, 0)


@pytest.mark.parametrize("deep", ['{"a":' * 900 + '""' + "}" * 900, '{"a":' * 900 + '"x"' + "}" * 900])
def test_a_channel_may_nest_deeper_than_python_calls_functions(deep: str) -> None:
    parent = json.dumps({**CHANNEL, "spec": {"stream": {"config": {"sources": "DEEP"}}}}).replace('"DEEP"', deep)
    try:
        read_channel(f'{{"parent": {parent}}}')
    except HeadraceError as error:
        assert len(str(error)) < 2000  # noqa: PT017  # no error at all is fine, too
