"""How much of an event we read, and how much we say of its faults: a stranger's megabyte costs no seconds."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event import http_codec, json_format, nats_codec
from headrace.core.event.event import Event, make_event
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.nats_codec import NatsMessage
from headrace.io import web

ORDER = {"specversion": "1.0", "id": "1", "source": "/orders", "type": "order.created"}
HEADERS = tuple((f"ce-{name}".encode(), value.encode()) for name, value in ORDER.items())
TOO_MANY = ("event: has more than 256 attributes: move them into the data",)
MANY = 60_000
BOMB = ("{" + ",".join('"":[]' for _ in range(230_000)) + "}").encode()


def extensions(count: int) -> dict[str, str]:
    return {f"x{number}": "v" for number in range(count)}


def from_http(*headers: tuple[bytes, bytes]) -> Event:
    return http_codec.from_http(HttpMessage((*headers, *HEADERS), b""))


def from_nats(headers: dict[str, str], data: bytes = b"") -> Event:
    return nats_codec.from_nats(NatsMessage("s", headers, data), stream="S", sequence=1)


def from_json(body: bytes) -> Event:
    return http_codec.from_http(HttpMessage(((b"content-type", b"application/cloudevents+json"),), body))


def faults_of(read: Callable[[], object]) -> tuple[str, ...]:
    began = process_time()
    with pytest.raises(InvalidEvent) as refusal:
        read()
    answer = web.response_of(refusal.value)
    assert process_time() - began < 1.5
    assert len(answer.body) < 64_000
    return tuple(map(str, refusal.value.faults))


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda: from_json(BOMB), id="JSON members"),
        pytest.param(lambda: from_http(*((b"ce-A%d" % n, b"\xff") for n in range(MANY))), id="headers, not UTF-8"),
        pytest.param(lambda: from_http(*((b"ce-x%d" % n, b"v") for n in range(MANY))), id="headers without fault"),
        pytest.param(lambda: from_http(*((b"ce-id", b"%ff") for _ in range(MANY))), id="one header, many times"),
        pytest.param(
            lambda: from_nats({f"ce-x{n}": "%ff" for n in range(MANY)} | {"ce-specversion": "1.0"}),
            id="headers of a stored message",
        ),
        pytest.param(lambda: make_event(ORDER | extensions(253)), id="one attribute too many"),
    ],
)
def test_what_has_too_many_attributes_is_refused_for_that_alone(read: Callable[[], object]) -> None:
    assert faults_of(read) == TOO_MANY


def test_many_content_types_are_one_fault() -> None:
    (fault,) = faults_of(lambda: from_http(*((b"content-type", b"a/b") for _ in range(MANY))))
    assert fault == "content-type: comes twice, as 'a/b' and 'a/b': send it once"


def test_a_stored_event_is_known_by_its_version_wherever_it_stands() -> None:
    many = {f"ce-x{n}": "v" for n in range(300)}
    assert faults_of(lambda: from_nats({**many, "ce-specversion": "1.0"})) == TOO_MANY
    assert from_nats(many).type == "headrace.foreign"


def test_as_many_attributes_as_there_may_be_go_through_every_codec() -> None:
    event = make_event(ORDER | extensions(250) | {"datacontenttype": "application/json"}, b"{}")
    assert len(event.attributes) == 255
    full = event.with_attributes({"last": "v"})
    assert http_codec.from_http(http_codec.to_http(full)) == full
    assert json_format.parse(json_format.write(full)) == full
    assert nats_codec.from_nats(nats_codec.to_binary(full, "s"), stream="S", sequence=1) == full


def test_the_first_faults_are_told_and_the_others_counted() -> None:
    faults = faults_of(lambda: make_event(ORDER | {f"X{number}": "v" for number in range(100)}))
    assert len(faults) == 33
    assert faults[0].startswith("X0: ")
    assert faults[-1] == "event: has 68 more faults: mend these first"


def test_as_many_faults_as_are_told_are_told_without_a_count() -> None:
    invalid = InvalidEvent(*(Fault(f"x{number}", "no") for number in range(32)))
    assert [fault.attribute for fault in invalid.faults] == [f"x{number}" for number in range(32)]
