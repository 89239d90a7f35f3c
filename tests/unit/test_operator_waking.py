"""A channel whose status says that nothing waits is looked at again when something keeps waiting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from headrace_operator.waking import Waking

ORDERS = ("shop", "orders")


def waking(pending: dict[str, int]) -> Waking:
    """That serves one channel; `pending` is what the scaler sees, by consumer, and may be changed."""
    found = Waking(
        SimpleNamespace(),  # type: ignore[arg-type]  # never connected
        SimpleNamespace(),  # type: ignore[arg-type]  # opens no lease
        forward=None,
        max_in_flight=1,
        sweep_seconds=15.0,
    )
    rows = {"consumers": {name: {"pending": 0} for name in pending}}

    def stats() -> dict[str, Any]:
        for name, count in pending.items():
            rows["consumers"][name]["pending"] = count
        return rows

    found.scaler = SimpleNamespace(stats=stats, serve=lambda _: None)  # type: ignore[assignment]  # what it is asked
    return found


def channel(lag: int) -> dict[str, Any]:
    consumers = [{"durable": "KN_SUB_1", "lag": lag}]
    metadata = {"namespace": "shop", "name": "orders"}
    return {"metadata": metadata, "status": {"stream": "KN_SHOP__ORDERS", "consumers": consumers}}


async def test_a_backlog_that_the_status_does_not_tell_is_told_of_at_the_second_look_and_the_third_if_it_stays_so() -> (
    None
):
    pending = {"KN_SHOP__ORDERS/KN_SUB_1": 0}
    one = waking(pending)
    one.put(channel(lag=0))
    assert one.untold_backlogs() == []
    pending["KN_SHOP__ORDERS/KN_SUB_1"] = 7
    assert [one.untold_backlogs() for _ in range(3)] == [[], [ORDERS], [ORDERS]]
    one.put(channel(lag=7))
    assert one.untold_backlogs() == []


async def test_a_burst_that_is_gone_by_the_next_look_is_none() -> None:
    pending = {"KN_SHOP__ORDERS/KN_SUB_1": 7}
    one = waking(pending)
    one.put(channel(lag=0))
    assert one.untold_backlogs() == []
    pending["KN_SHOP__ORDERS/KN_SUB_1"] = 0
    assert one.untold_backlogs() == []
    pending["KN_SHOP__ORDERS/KN_SUB_1"] = 7
    assert one.untold_backlogs() == []


async def test_a_channel_that_is_not_served_any_more_is_not_told_of() -> None:
    one = waking({"KN_SHOP__ORDERS/KN_SUB_1": 7})
    one.put(channel(lag=0))
    one.untold_backlogs()
    one.remove(ORDERS)
    assert one.untold_backlogs() == []
