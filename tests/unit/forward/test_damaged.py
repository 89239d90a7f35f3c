"""An event whose stage record was damaged: it begins again, and leaves nothing behind."""

from __future__ import annotations

import pytest

from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.stage_record import StageRecord, to_json
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.nats.jetstream import Message
from headrace.forward.one_event import deliver
from tests.support.functions.effects import NOON, effects

WHOM = Subscriber("shop", "orders", "billing", "u", 1, "KN_aside", subscriber=Destination("http://billing/"))
EVENT = {"ce-specversion": "1.0", "ce-id": "1", "ce-source": "/s", "ce-type": "t"}
STAGE = "shop.orders._knative_aside.stage.KN_SUB_U.7"


@pytest.mark.parametrize(
    ("record", "dropped"),
    [
        pytest.param(b"{", [STAGE, f"{STAGE}.stuck"], id="damaged: it may have been stuck"),
        pytest.param(None, [STAGE, f"{STAGE}.stuck"], id="missing: it may have been stuck"),
        pytest.param(to_json(StageRecord(due=NOON.timestamp())), [STAGE], id="one that says that it was not"),
        pytest.param(
            to_json(StageRecord(due=NOON.timestamp(), stuck=True)), [STAGE, f"{STAGE}.stuck"], id="one that says so"
        ),
    ],
)
async def test_what_an_event_that_was_delivered_leaves_no_trace_of(record: bytes | None, dropped: list[str]) -> None:
    gone: list[str] = []

    async def load(_: str) -> bytes | None:
        return record

    async def drop(subject: str) -> None:
        gone.append(subject)

    tally = Tally()
    message = Message("s", EVENT, b"", "$JS.ACK", "KN_S", "KN_SUB_U", 2, 7, 0)
    await deliver(message, WHOM, effects(load=load, drop=drop), tally)

    assert tally.counts[Outcome.DELIVERED] == 1
    assert gone == dropped
