"""The server's words about streams and consumers, as conditions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from headrace.core.channel import health, position
from headrace.core.channel.health import AckWindow, Health, Noted
from headrace.core.delivery.subscriber import Subscriber

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
BILLING = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside", subscription_namespace="till")
PREFIX = "shop.orders._knative_aside.stage."


def aside(messages: int = 0, size: int = 0, **config: int) -> dict[str, Any]:
    return {"config": {"name": "KN_aside", **config}, "state": {"messages": messages, "bytes": size}}


def troubles(**facts: Any) -> dict[str, str]:
    """Reason and message of each condition that doesn't hold."""
    healthy: dict[str, Any] = {"aside": aside(), "windows": {}, "stuck": {}, "discarded": {}}
    found = health.conditions(Health(**{**healthy, **facts}), {"C": BILLING})
    assert len({one.type for one in found}) == len(found) == 8
    assert all(one.informative for one in found if not one.holds and one.type != "EventsFit")
    return {one.reason: one.message for one in found if not one.holds}


def test_subjects_beside_the_stage_records_tell_what_is_noted() -> None:
    subjects = [f"{PREFIX}C.12", f"{PREFIX}C.5", f"{PREFIX}C.5.stuck", f"{PREFIX}D.discarded.total", "else.where"]
    subjects += [f"{PREFIX}D.pulls.trouble", f"{PREFIX}E.position.ahead", f"{PREFIX}C.12.forgotten"]
    noted = Noted(
        records={"C": (5, 12)}, stuck={"C": (5,)}, counted=("D",), troubled=("D",), forgotten={"C": (12,)}, ahead=("E",)
    )
    assert health.noted(subjects) == noted


def test_what_waited_below_the_first_sequence_is_gone() -> None:
    noted = Noted(records={"C": (3, 5, 12), "D": (20,)}, stuck={"C": (4, 5)}, counted=())
    assert health.gone(noted, {"state": {"first_seq": 12}}) == {"C": (3, 4, 5)}


@pytest.mark.parametrize(
    ("window", "full"),
    [
        pytest.param(AckWindow(2, 3), False, id="there is room"),
        pytest.param(AckWindow(3, 3), True, id="none is left"),
        pytest.param(AckWindow(4, 3), True, id="it was made smaller"),
        pytest.param(AckWindow(9, 0), False, id="any number"),
        pytest.param(AckWindow(9, -1), False, id="any number, as older servers say it"),
    ],
)
def test_full_windows(window: AckWindow, full: bool) -> None:
    assert ("AckWindowFull" in troubles(windows={"C": window})) is full


@pytest.mark.parametrize(
    ("info", "full"),
    [
        pytest.param(aside(9, 9, max_msgs=-1, max_bytes=-1), False, id="no limits"),
        pytest.param(aside(9, 9, max_msgs=10), False, id="one message more"),
        pytest.param(aside(10, 9, max_msgs=10), True, id="no message more"),
        pytest.param(aside(1, 976, max_bytes=2000), False, id="just room for a record"),
        pytest.param(aside(1, 977, max_bytes=2000), True, id="too little for a record"),
    ],
)
def test_full_aside_streams(info: dict[str, Any], full: bool) -> None:
    assert ("AsideStreamFull" in troubles(aside=info)) is full


def test_people_read_which_subscriber_and_which_events() -> None:
    found = troubles(stuck={"C": (1, 2, 3, 4, 5, 6), "gone": (7,)}, discarded={"C": 8})
    assert found["EventsStuck"].startswith("till/billing: 6 (sequence 1, 2, 3, 4, 5, …); gone: 1 (sequence 7); ")
    assert found["EventsDiscarded"].startswith("till/billing: 8; ")


def test_what_was_counted_as_zero_is_no_trouble() -> None:
    assert troubles(discarded={"C": 0}) == {}


STREAM = {"config": {"name": "KN", "max_msgs": 2, "discard": "new"}, "state": {"messages": 2, "bytes": 9}}


def test_a_stream_without_room_is_told_where_it_refuses_events() -> None:
    assert "KN holds 2 messages, of 2 that may be; it refuses events" in troubles(stream=STREAM)["StreamFull"]
    old = {**STREAM, "config": {**STREAM["config"], "discard": "old"}}
    assert troubles(stream=old) == {}
    assert troubles(stream={**STREAM, "state": {"messages": 1, "bytes": 9}}) == {}


def test_a_server_without_room_is_told_before_the_stream() -> None:
    (reason, words), *more = troubles(stream=STREAM, no_room="insufficient resources").items()
    assert (reason, more) == ("StoreFull", [])
    assert words.startswith("NATS has no room for any message: insufficient resources; ")


def test_a_server_that_no_event_fits_makes_the_channel_unready() -> None:
    found = health.conditions(Health(aside(), {}, {}, {}, max_payload=4096), {})
    (told,) = [one for one in found if not one.holds]
    assert (told.type, told.reason, told.informative) == ("EventsFit", "NoEventFits", False)


def test_so_many_events_pass_a_consumer_by() -> None:
    healthy: dict[str, Any] = {"aside": aside(), "windows": {}, "stuck": {}, "discarded": {}}
    [told] = [one for one in health.conditions(Health(**healthy, ahead={"C": 168}), {"C": BILLING}) if not one.holds]

    assert (told.type, told.reason, told.informative) == ("PositionsKept", "PositionAhead", True)
    assert told.message.startswith("the next 168 events will not be handed to till/billing; its consumer remembers")


def ending(last: int = 34, **more: str) -> dict[str, Any]:
    return {"config": {"name": "S"}, "state": {"last_seq": last}, **more}


@pytest.mark.parametrize(
    ("delivered", "ahead"),
    [
        pytest.param({"consumer_seq": 40, "stream_seq": 34}, {}, id="it has got all"),
        pytest.param({"consumer_seq": 221, "stream_seq": 202}, {"C": 168}, id="it remembers more than the stream"),
        pytest.param({"consumer_seq": 0, "stream_seq": 999}, {}, id="it is to begin later"),
        pytest.param({}, {}, id="the server says nothing"),
    ],
)
def test_a_consumer_ahead_of_its_stream_is_passed_by(delivered: dict[str, int], ahead: dict[str, int]) -> None:
    assert position.ahead(ending(), [{"name": "C", "delivered": delivered}]) == ahead


@pytest.mark.parametrize(
    ("floor", "first", "there"),
    [
        pytest.param(202, 35, 35, id="behind the end of its stream"),
        pytest.param(20, 35, 21, id="behind its floor, so that nothing unsettled is lost"),
        pytest.param(202, 12, 12, id="with what was stored of late, which may have passed it by"),
    ],
)
def test_it_goes_on(floor: int, first: int, there: int) -> None:
    assert position.goes_on(ending(), {"name": "C", "ack_floor": {"stream_seq": floor}}, first) == there


@pytest.mark.parametrize(("told", "hour"), [("2026-11-30T14:00:00.123456789Z", 14), ("nonsense", 12), (None, 12)])
def test_the_time_is_the_servers_own_where_it_tells_it(told: str | None, hour: int) -> None:
    assert position.time(ending(ts=told), NOW).hour == hour
