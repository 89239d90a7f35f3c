"""Which consumers are the Go channel's, and in which order one of ours takes the place of one."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core.channel import peer
from headrace.core.channel.peer import Peer
from headrace.core.nats.action import CreateConsumer, DeleteConsumer, PurgeSubjects
from tests.support.kube.flapping import PLACE, STREAM

THEIRS = "KN_SUB_AAAA1"
DELIVER = "shop.orders._knative_consumer.aaaa1"


def info(name: str = THEIRS, *, state: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    return {"name": name, "config": {"ack_policy": "explicit", **config}, **(state or {})}


@pytest.mark.parametrize(
    ("found", "push", "busy", "floor"),
    [
        pytest.param(info(deliver_subject=DELIVER), True, False, 0, id="push"),
        pytest.param(info(deliver_subject=DELIVER, state={"push_bound": True}), True, True, 0, id="push, served"),
        pytest.param(info(state={"ack_floor": {"stream_seq": 7}}), False, False, 7, id="pull"),
        pytest.param(info(state={"num_waiting": 1}), False, True, 0, id="pull, served"),
        pytest.param(info(metadata={"_nats.ver": "2.12.1"}), False, False, 0, id="with the server's own marks"),
    ],
)
def test_consumers_of_the_go_channel(found: dict[str, Any], push: bool, busy: bool, floor: int) -> None:
    (known,) = peer.recognize([found], PLACE).values()

    assert (known.durable, known.push, known.busy, known.floor) == (THEIRS, push, busy, floor)
    assert known.config["name"] == THEIRS


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(info("billing"), id="another name"),
        pytest.param(info(metadata={"headrace.dev/subscriber": "{}"}), id="ours"),
        pytest.param(info(ack_policy="none"), id="one that acknowledges nothing"),
        pytest.param(info(deliver_subject="elsewhere"), id="one that delivers elsewhere"),
        pytest.param(info(deliver_subject=f"{DELIVER}2"), id="one that delivers to another subscriber"),
    ],
)
def test_consumers_that_are_not_the_go_channels(found: dict[str, Any]) -> None:
    assert peer.recognize([found], PLACE) == {}


FORGET = PurgeSubjects("aside", "stage")


def test_where_a_new_consumer_may_stand_beside_it_that_is_made_first() -> None:
    theirs = Peer(THEIRS, {}, push=True, busy=False, floor=7)
    config = {"name": peer.successor(THEIRS), "deliver_policy": "new", "opt_start_time": "2026-01-31T12:00:00Z"}

    for retention in ("limits", "interest"):
        assert peer.replacement(theirs, PLACE, config, FORGET, retention) == (
            FORGET,
            CreateConsumer(
                STREAM,
                {
                    "name": "KN_SUB_AAAA1_pull",
                    "deliver_policy": "by_start_sequence",
                    "opt_start_seq": 8,
                    "opt_start_time": None,
                },
            ),
            DeleteConsumer(STREAM, THEIRS),
        )


def test_a_work_queue_has_room_for_one_only_and_keeps_what_is_not_settled() -> None:
    theirs = Peer(THEIRS, {}, push=True, busy=False, floor=7)
    config = {"name": THEIRS, "deliver_policy": "all"}

    assert peer.replacement(theirs, PLACE, config, FORGET, "workqueue") == (
        DeleteConsumer(STREAM, THEIRS),
        FORGET,
        CreateConsumer(STREAM, config),
    )
