"""A channel whose credentials are gone: it says so, waits while it is deleted, and goes with a word on what stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.core import names
from headrace.core.channel.hook import HookResponse
from headrace.core.channel.own_account import lockout
from headrace.core.channel.own_account.lockout import Lockout
from headrace.core.nats.stream import ChannelStream, Owner
from tests.support.functions.channels import channel

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
PATIENCE = timedelta(minutes=10)
PLACE = ChannelStream(
    Owner("default", "shop", "orders", "uid"), names.channel("shop", "orders"), "KN_SHOP__ORDERS", overridden=False
)


def leaving(status: dict[str, Any] | None, now: datetime, *, retained: bool = False, where: str = "") -> HookResponse:
    return lockout.leaving(
        channel(status=status), PLACE, Lockout("no entry", where=where), now=now, patience=PATIENCE, retained=retained
    )


def test_a_channel_that_is_wanted_says_why_it_is_not_ready_and_keeps_what_it_said_before():
    body = lockout.status(channel(status={"stream": "KN_SHOP__ORDERS"}), "no entry", NOON)
    assert body["stream"] == "KN_SHOP__ORDERS"
    assert {one["type"]: one["reason"] for one in body["conditions"]} == {
        "CredentialsAccepted": "CredentialsRefused",
        "Ready": "CredentialsRefused",
    }


def test_the_clock_begins_with_the_first_answer_and_is_kept_in_the_condition():
    first = leaving(None, NOON)
    second = leaving(first.status, NOON + timedelta(minutes=9))
    last = leaving(second.status, NOON + timedelta(minutes=10))
    assert [one.finalized for one in (first, second, last)] == [False, False, True]
    assert (first.events, second.events) == ((), ())
    assert 0 < second.resync_after_seconds <= 16


def test_what_is_left_behind_is_named_in_an_event():
    first = leaving(None, NOON)
    (event,) = leaving(first.status, NOON + PATIENCE).events
    assert (event.type, event.reason) == ("Warning", "StreamOrphaned")
    assert "KN_SHOP__ORDERS and KN_SHOP__ORDERS_aside" in event.message
    assert "for 10 minutes (no entry)" in event.message


def test_and_whose_account_they_are_in():
    (event,) = leaving(leaving(None, NOON).status, NOON + PATIENCE, where="Secret theirs").events
    assert "stay behind in NATS, in the account of Secret theirs, with their consumers" in event.message


def test_streams_that_are_to_be_kept_are_no_orphans():
    first = leaving(None, NOON)
    answer = leaving(first.status, NOON + PATIENCE, retained=True)
    assert (answer.finalized, answer.events) == (True, ())


def test_credentials_that_were_taken_in_between_set_the_clock_back():
    first = leaving(None, NOON)
    assert first.status is not None
    accepted = {"conditions": [{**one, "status": "True"} for one in first.status["conditions"]]}
    assert leaving(accepted, NOON + PATIENCE).finalized is False


def test_a_time_that_nobody_can_read_begins_the_wait_anew():
    broken = {"conditions": [{"type": "CredentialsAccepted", "status": "False", "lastTransitionTime": "soon"}]}
    assert leaving(broken, NOON + PATIENCE).finalized is False
