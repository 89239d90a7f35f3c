"""A channel whose status says that nothing waits is looked at again when something keeps waiting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headrace_operator.scaling.channel_scaler import ChannelScaler, changed_for_scaler

ORDERS = ("shop", "orders")


def waking(pending: dict[str, int]) -> ChannelScaler:
    """That serves one channel; `pending` is what the scaler sees, by consumer, and may be changed."""
    found = ChannelScaler(
        SimpleNamespace(),  # type: ignore[arg-type]  # never connected
        SimpleNamespace(),  # type: ignore[arg-type]  # opens no lease
        max_in_flight=1,
        sweep_seconds=15.0,
    )
    rows = {"consumers": {name: {"pending": 0} for name in pending}}

    def stats() -> dict[str, Any]:
        for name, count in pending.items():
            rows["consumers"][name]["pending"] = count
        return rows

    arrived: list[tuple[str, bool]] = []
    found.scaler = SimpleNamespace(  # type: ignore[assignment]  # what it is asked
        stats=stats,
        serve=lambda _: None,
        arrived=lambda stream, *, alone: arrived.append((stream, alone)),
        told=arrived,
    )
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


RECEIVE = "knative-eventing/headrace-receive"


def received(name: str, receive: str = RECEIVE, **status: Any) -> dict[str, Any]:
    stream = f"KN_SHOP__{name.upper()}"
    metadata = {"namespace": "shop", "name": name}
    return {"metadata": metadata, "status": {"stream": stream, "receive": receive, "consumers": [], **status}}


def arrivals(one: ChannelScaler) -> list[tuple[str, bool]]:
    told: list[tuple[str, bool]] = one.scaler.told  # type: ignore[attr-defined]  # see `waking`
    return told


async def test_who_has_a_receive_alone_is_known_to_be_meant_by_what_arrives_there() -> None:
    one = waking({})
    one.put(received("orders"))
    one.put(received("bills", "shop/receive-bills-1"))

    one.arrived(RECEIVE)
    one.arrived("shop/receive-bills-1")
    one.arrived("elsewhere/receive")

    assert arrivals(one) == [("KN_SHOP__ORDERS", True), ("KN_SHOP__BILLS", True)]


@pytest.mark.parametrize(
    ("others", "told"),
    [
        pytest.param([received("bills")], [("KN_SHOP__ORDERS", False), ("KN_SHOP__BILLS", False)], id="served here"),
        pytest.param([received("bills", elsewhere=True)], [("KN_SHOP__ORDERS", False)], id="served elsewhere"),
        pytest.param([received("bills", "")], [("KN_SHOP__ORDERS", True)], id="with a Deployment for receive"),
    ],
)
async def test_of_channels_that_share_a_receive_it_is_not_known(
    others: list[dict[str, Any]], told: list[tuple[str, bool]]
) -> None:
    one = waking({})
    for each in (received("orders"), *others):
        one.put(each)

    one.arrived(RECEIVE)

    assert arrivals(one) == told


async def test_a_channel_that_is_gone_shares_no_receive() -> None:
    one = waking({})
    one.put(received("orders"))
    one.put(received("bills"))
    one.remove(("shop", "bills"))

    one.arrived(RECEIVE)

    assert arrivals(one) == [("KN_SHOP__ORDERS", True)]


def test_another_receive_is_news_to_the_scaler() -> None:
    assert changed_for_scaler(received("orders"), received("orders", "shop/receive-orders-1"))
    assert not changed_for_scaler(received("orders"), received("orders", readySubscribers="1/1"))


@pytest.mark.parametrize(("condition", "then"), [("True", [ORDERS]), ("False", [])])
async def test_a_stream_that_is_missing_is_repaired_unless_it_could_not_be_made_at_all(
    condition: str, then: list[Any]
) -> None:
    one = ChannelScaler(SimpleNamespace(), SimpleNamespace(), max_in_flight=1)  # type: ignore[arg-type]  # reach nobody
    found: list[Any] = []
    one.on_trouble.append(lambda place, _: found.append(place))
    parent = channel(lag=0)
    parent["status"]["conditions"] = [{"type": "StreamReady", "status": condition}]
    one.put(parent)
    for listener in one.scaler.on_missing:
        listener("KN_SHOP__ORDERS")
    assert found == then
