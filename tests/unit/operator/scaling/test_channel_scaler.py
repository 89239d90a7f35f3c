"""Which streams are served for which channels, and at which `forward`, as the hook's answers say.

A channel of which the last answer says that nothing waits is looked at again when something keeps waiting.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.core.channel.hook import HookResponse
from headrace.core.channel.lease_places import Forward, LeasePlaces, SenderIdentity
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.delivery.subscriber import Destination, Subscriber
from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.io.process import clock
from headrace_operator.scaling.channel_scaler import ChannelScaler
from headrace_operator.scaling.lease_client import Meanwhile
from headrace_operator.scaling.tokens import TokenBook, TokenKey

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
        look_soon=lambda _: None,
        arrived=lambda stream, *, alone: arrived.append((stream, alone)),
        told=arrived,
    )
    return found


def answer(lag: int) -> HookResponse:
    rows = [{"durable": "KN_SUB_1", "lag": lag}]
    return HookResponse({"consumers": rows}, lease_places=LeasePlaces("KN_SHOP__ORDERS"))


async def test_a_backlog_that_the_status_does_not_tell_is_told_of_at_the_second_look_and_the_third_if_it_stays_so() -> (
    None
):
    pending = {"KN_SHOP__ORDERS/KN_SUB_1": 0}
    one = waking(pending)
    one.put(ORDERS, answer(lag=0))
    assert one.untold_backlogs() == []
    pending["KN_SHOP__ORDERS/KN_SUB_1"] = 7
    assert [one.untold_backlogs() for _ in range(3)] == [[], [ORDERS], [ORDERS]]
    one.put(ORDERS, answer(lag=7))
    assert one.untold_backlogs() == []


async def test_a_burst_that_is_gone_by_the_next_look_is_none() -> None:
    pending = {"KN_SHOP__ORDERS/KN_SUB_1": 7}
    one = waking(pending)
    one.put(ORDERS, answer(lag=0))
    assert one.untold_backlogs() == []
    pending["KN_SHOP__ORDERS/KN_SUB_1"] = 0
    assert one.untold_backlogs() == []
    pending["KN_SHOP__ORDERS/KN_SUB_1"] = 7
    assert one.untold_backlogs() == []


async def test_a_channel_that_is_not_served_any_more_is_not_told_of() -> None:
    one = waking({"KN_SHOP__ORDERS/KN_SUB_1": 7})
    one.put(ORDERS, answer(lag=0))
    one.untold_backlogs()
    one.remove(ORDERS)
    assert one.untold_backlogs() == []


RECEIVE = "knative-eventing/headrace-receive"


def put(one: ChannelScaler, name: str, receive: str = RECEIVE, *, elsewhere: bool = False) -> None:
    """The hook answers for a channel."""
    stream = "" if elsewhere else f"KN_SHOP__{name.upper()}"
    one.put(("shop", name), HookResponse({}, lease_places=LeasePlaces(stream, receive=receive)))


def arrivals(one: ChannelScaler) -> list[tuple[str, bool]]:
    told: list[tuple[str, bool]] = one.scaler.told  # type: ignore[attr-defined]  # see `waking`
    return told


async def test_who_has_a_receive_alone_is_known_to_be_meant_by_what_arrives_there() -> None:
    one = waking({})
    put(one, "orders")
    put(one, "bills", "shop/receive-bills-1")

    one.arrived(RECEIVE)
    one.arrived("shop/receive-bills-1")
    one.arrived("elsewhere/receive")

    assert arrivals(one) == [("KN_SHOP__ORDERS", True), ("KN_SHOP__BILLS", True)]


@pytest.mark.parametrize(
    ("bills", "told"),
    [
        pytest.param({}, [("KN_SHOP__ORDERS", False), ("KN_SHOP__BILLS", False)], id="served here"),
        pytest.param({"elsewhere": True}, [("KN_SHOP__ORDERS", False)], id="served elsewhere"),
        pytest.param({"receive": ""}, [("KN_SHOP__ORDERS", True)], id="with a Deployment for receive"),
    ],
)
async def test_of_channels_that_share_a_receive_it_is_not_known(
    bills: dict[str, Any], told: list[tuple[str, bool]]
) -> None:
    one = waking({})
    put(one, "orders")
    put(one, "bills", **bills)

    one.arrived(RECEIVE)

    assert arrivals(one) == told


async def test_a_channel_that_is_gone_shares_no_receive() -> None:
    one = waking({})
    put(one, "orders")
    put(one, "bills")
    one.remove(("shop", "bills"))

    one.arrived(RECEIVE)

    assert arrivals(one) == [("KN_SHOP__ORDERS", True)]


@pytest.mark.parametrize(("condition", "then"), [("True", [ORDERS]), ("False", [])])
async def test_a_stream_that_is_missing_is_repaired_unless_it_could_not_be_made_at_all(
    condition: str, then: list[Any]
) -> None:
    one = ChannelScaler(SimpleNamespace(), SimpleNamespace(), max_in_flight=1)  # type: ignore[arg-type]  # reach nobody
    found: list[Any] = []
    one.on_trouble.append(lambda place, _: found.append(place))
    status = {"conditions": [{"type": "StreamReady", "status": condition}]}
    one.put(ORDERS, HookResponse(status, lease_places=LeasePlaces("KN_SHOP__ORDERS")))
    for listener in one.scaler.on_missing:
        listener("KN_SHOP__ORDERS")
    assert found == then


class Opened:
    """Opens leases and tells where."""

    def __init__(self) -> None:
        self.urls: list[str] = []

    async def __call__(self, url: str, _lease: Lease, _meanwhile: Meanwhile) -> Any:
        self.urls.append(url)


def scaling(opened: Opened) -> ChannelScaler:
    return ChannelScaler(SimpleNamespace(), opened, max_in_flight=1)  # type: ignore[arg-type]  # reaches nobody


def billing(namespace: str = "shop", channel: str = "orders") -> Subscriber:
    return Subscriber(namespace, channel, "billing", "1", 1, "KN_SHOP__ORDERS_aside")


async def where(one: ChannelScaler, opened: Opened, subscriber: Subscriber, stream: str = "KN_SHOP__ORDERS") -> str:
    """Where a lease of this subscriber is opened."""
    await one.hold(subscriber, Lease(stream, "KN_SUB_1"), Meanwhile())
    return opened.urls[-1]


def serves(one: ChannelScaler, place: tuple[str, str], url: str, stream: str = "KN_SHOP__ORDERS") -> None:
    """The hook says where the consumer KN_SUB_1 of this channel is served."""
    one.put(place, HookResponse({}, lease_places=LeasePlaces(stream, {"KN_SUB_1": Forward(url, pulls=True)})))


async def test_a_lease_is_opened_where_the_answer_for_its_own_channel_says_whoever_else_names_the_stream() -> None:
    opened = Opened()
    one = scaling(opened)
    serves(one, ORDERS, "http://ours")
    serves(one, ("evil", "mine"), "http://theirs")

    assert await where(one, opened, billing()) == "http://ours"
    assert await where(one, opened, billing("evil", "mine")) == "http://theirs"
    assert await where(one, opened, billing("shop", "bills")) == ""
    assert one.streams == ["KN_SHOP__ORDERS"]

    one.remove(("evil", "mine"))
    assert one.streams == ["KN_SHOP__ORDERS"]
    assert await where(one, opened, billing()) == "http://ours"

    one.remove(ORDERS)
    assert one.streams == []
    assert await where(one, opened, billing()) == ""


async def test_a_function_serves_the_consumers_of_its_channels_stream_alone() -> None:
    opened = Opened()
    one = scaling(opened)
    serves(one, ORDERS, "http://ours", "KN_SHOP__LATER")

    assert await where(one, opened, billing()) == ""
    assert await where(one, opened, billing(), "KN_SHOP__LATER") == "http://ours"


async def test_a_status_changes_nothing_and_an_answer_that_does_not_know_leaves_what_was_known() -> None:
    opened = Opened()
    one = scaling(opened)
    rows = [{"uid": "1", "durable": "KN_SUB_1", "forward": "http://theirs", "lag": 1}]
    forged = {"stream": "KN_SHOP__ORDERS", "receive": RECEIVE, "consumers": rows}

    one.put(ORDERS, HookResponse(forged))
    assert one.streams == []
    assert await where(one, opened, billing()) == ""

    serves(one, ORDERS, "http://ours")
    one.put(ORDERS, HookResponse(forged))
    assert await where(one, opened, billing()) == "http://ours"


async def test_a_channel_that_moved_to_another_account_is_let_go() -> None:
    one = scaling(Opened())
    serves(one, ORDERS, "http://ours")
    serves(one, ORDERS, "http://ours", "")
    assert one.streams == []


# ── tokens ──────────────────────────────────────────────────────────────────────────────────────────────────────────

SENDER = SenderIdentity("shop", "billing-oidc", ("billing",))


class Leases:
    """Opens leases, remembers their tokens, and answers that these audiences' tokens are outdated."""

    def __init__(self, *outdated: str) -> None:
        self.tokens: list[dict[str, str]] = []
        self.outdated = outdated

    async def __call__(self, _url: str, lease: Lease, _meanwhile: Meanwhile) -> LeaseAnswer:
        self.tokens.append({audience: one.text for audience, one in lease.tokens.items()})
        return LeaseAnswer({}, 0, 0, None, self.outdated)


class Maker:
    """Makes tokens that are counted, or raises its trouble."""

    def __init__(self) -> None:
        self.asked: list[TokenKey] = []
        self.trouble: HeadraceError | None = None

    async def __call__(self, key: TokenKey) -> tuple[str, float]:
        self.asked.append(key)
        if self.trouble is not None:
            raise self.trouble
        return f"token-{len(self.asked)}", 3600.0


def asking(audience: str = "billing") -> Subscriber:
    return replace(billing(), subscriber=Destination("http://billing/", audience=audience), service_account="forged")


def sending(leases: Leases, maker: Maker | None) -> ChannelScaler:
    book = None if maker is None else TokenBook(maker)
    one = ChannelScaler(SimpleNamespace(), leases, max_in_flight=1, tokens=book)  # type: ignore[arg-type]  # reach nobody
    names(one, {"KN_SUB_1": SENDER})
    return one


def names(one: ChannelScaler, identities: dict[str, SenderIdentity] | None) -> None:
    """The hook says as whom events are sent."""
    one.put(ORDERS, HookResponse({}, lease_places=LeasePlaces("KN_SHOP__ORDERS", identities=identities)))


async def hold(one: ChannelScaler, subscriber: Subscriber) -> None:
    await one.hold(subscriber, Lease("KN_SHOP__ORDERS", "KN_SUB_1"), Meanwhile())


async def test_a_lease_has_the_tokens_of_the_identity_that_the_hook_names_whatever_metadata_says() -> None:
    leases, maker = Leases(), Maker()
    one = sending(leases, maker)
    await hold(one, asking())
    # Metadata that asks for another audience gets no token for it, and `forward` refuses that lease.
    await hold(one, asking("admin"))
    assert maker.asked == [TokenKey("shop", "billing-oidc", "billing")]
    assert leases.tokens == [{"billing": "token-1"}, {"billing": "token-1"}]


async def test_a_lease_whose_addresses_ask_for_nothing_costs_no_token() -> None:
    leases, maker = Leases(), Maker()
    await hold(sending(leases, maker), billing())
    assert (maker.asked, leases.tokens) == ([], [{}])


async def test_no_lease_is_opened_for_an_identity_that_nobody_proves() -> None:
    leases, maker = Leases(), Maker()
    one = sending(leases, maker)
    names(one, {})
    with pytest.raises(Unavailable, match="no identity is known for KN_SUB_1"):
        await hold(one, asking())
    with pytest.raises(Unavailable, match="no identity is known for KN_SUB_1"):
        await hold(sending(leases, None), asking())
    assert (maker.asked, leases.tokens) == ([], [])


async def test_an_answer_that_does_not_know_the_identities_leaves_those_that_were_known() -> None:
    leases = Leases()
    one = sending(leases, Maker())
    names(one, None)
    await hold(one, asking())
    assert leases.tokens == [{"billing": "token-1"}]


async def test_an_outdated_token_is_made_anew_for_the_next_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    leases = Leases("billing", "of a liar")
    one = sending(leases, Maker())
    for _ in range(4):
        await hold(one, asking())
        now[0] += 30.0
    assert [one["billing"] for one in leases.tokens] == ["token-1", "token-1", "token-1", "token-2"]


async def test_a_token_that_can_not_be_had_is_told_of_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])
    leases, maker = Leases(), Maker()
    one, passes = sending(leases, maker), list[Any]()
    one.on_trouble.append(lambda place, _: passes.append(place))
    maker.trouble = Refused("not found", status=404)
    for _ in range(3):
        with pytest.raises(Unavailable, match="no token of ServiceAccount shop/billing-oidc"):
            await hold(one, asking())
    assert one.without_tokens(ORDERS)["KN_SUB_1"].startswith("no token of ServiceAccount shop/billing-oidc")
    assert (passes, leases.tokens) == ([ORDERS], [])

    maker.trouble = None
    now[0] += 5.0
    await hold(one, asking())
    assert one.without_tokens(ORDERS) == {}
    assert passes == [ORDERS, ORDERS]


async def test_a_trouble_of_a_consumer_that_needs_no_token_any_more_is_forgotten() -> None:
    maker = Maker()
    one = sending(Leases(), maker)
    maker.trouble = Refused("not found", status=404)
    with pytest.raises(Unavailable):
        await hold(one, asking())
    names(one, {})
    assert one.without_tokens(ORDERS) == {}
