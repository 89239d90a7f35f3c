"""Who is woken when a request wakes the channel's `receive`, before its event is stored."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.core.delivery.scale_spec import Wake
from headrace.core.delivery.subscriber import Subscriber
from headrace_operator.scaling.lag import Outlook
from headrace_operator.scaling.served_streams import ScaledConsumer

BILLING = Subscriber("shop", "orders", "billing", "aaaa-1", 1, "KN_SHOP__ORDERS_aside")
ASLEEP = Outlook(threshold=1000, max_scale=4)


@pytest.mark.parametrize(
    ("wake", "alone", "outlook", "woken"),
    [
        pytest.param(None, True, ASLEEP, True, id="what comes is surely for it"),
        pytest.param(None, False, ASLEEP, False, id="it may be another channel's"),
        pytest.param(Wake.EARLY, False, ASLEEP, True, id="which its author does not mind"),
        pytest.param(Wake.STORED, True, ASLEEP, False, id="its author wants to be sure"),
        pytest.param(None, True, replace(ASLEEP, open=1), False, id="it is awake"),
        pytest.param(Wake.EARLY, True, replace(ASLEEP, open=1, late=1), False, id="and has a pod"),
        pytest.param(Wake.EARLY, True, replace(ASLEEP, failures=1), False, id="its leases fail"),
    ],
)
def test_who_is_woken(wake: Wake | None, alone: bool, outlook: Outlook, woken: bool) -> None:
    served = ScaledConsumer("KN_SHOP__ORDERS", "KN_SUB_1", replace(BILLING, wake=wake), outlook)

    assert served.wakes_early(alone=alone) is woken
