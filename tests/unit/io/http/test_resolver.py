"""Names and their addresses: who asks, how often, and in which order addresses are tried."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest

from headrace.io.http.resolver import MOST_AT_ONCE, NoAddress, Resolver
from headrace.io.http.socket_address import SocketAddress, in_turn
from tests.support.stopped_clock import StoppedClock
from tests.support.waiting import until


def v4(last: int) -> SocketAddress:
    return SocketAddress(socket.AF_INET, (f"192.0.2.{last}", 80))


def v6(last: int) -> SocketAddress:
    return SocketAddress(socket.AF_INET6, (f"2001:db8::{last}", 80, 0, 0))


class Names:
    """A resolver that answers when it is told to."""

    def __init__(self, *addresses: SocketAddress) -> None:
        self.addresses = list(addresses)
        self.asked: list[str] = []
        self.answer = threading.Event()
        self.answer.set()
        self.resolver = Resolver(self.ask)

    def ask(self, host: str) -> list[SocketAddress]:
        self.asked.append(host)
        self.answer.wait()
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.addresses


async def test_a_name_is_asked_for_again_after_10_seconds(monkeypatch):
    clock, names = StoppedClock(monkeypatch), Names(v4(1))
    for now, asked in ((1000, 1), (1009.9, 1), (1010, 2)):
        clock.now = now
        assert await names.resolver.addresses("shop.example", 80) == [v4(1)]
        assert names.asked == ["shop.example"] * asked


async def test_each_connection_begins_with_another_address():
    names = Names(v4(1), v4(2))
    found = [await names.resolver.addresses("shop.example", 80) for _ in range(3)]
    assert found == [[v4(1), v4(2)], [v4(2), v4(1)], [v4(1), v4(2)]]


async def test_a_name_is_asked_for_once_whatever_the_port():
    names = Names(v4(1))
    assert await names.resolver.addresses("shop.example", 80) == [v4(1)]
    assert await names.resolver.addresses("shop.example", 8080) == [SocketAddress(socket.AF_INET, ("192.0.2.1", 8080))]
    assert names.asked == ["shop.example"]


async def test_a_name_without_an_address_is_an_error_and_asked_for_again_after_a_second(monkeypatch):
    clock, names = StoppedClock(monkeypatch), Names()
    for now, asked in ((1000, 1), (1000.9, 1), (1001, 2)):
        clock.now = now
        with pytest.raises(NoAddress) as failed:
            await names.resolver.addresses("shop.example", 80)
        assert str(failed.value) == "the name 'shop.example' can't be resolved: Name or service not known"
        assert len(names.asked) == asked
    names.addresses.append(v4(1))
    clock.now = 1002
    assert await names.resolver.addresses("shop.example", 80) == [v4(1)]


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", SocketAddress(socket.AF_INET, ("127.0.0.1", 80))),
        ("127.1", SocketAddress(socket.AF_INET, ("127.0.0.1", 80))),
        ("::1", SocketAddress(socket.AF_INET6, ("::1", 80, 0, 0))),
        ("::ffff:192.0.2.1", SocketAddress(socket.AF_INET6, ("::ffff:192.0.2.1", 80, 0, 0))),
        ("fe80::1%3", SocketAddress(socket.AF_INET6, ("fe80::1", 80, 0, 3))),
        ("fe80::1%lo", SocketAddress(socket.AF_INET6, ("fe80::1", 80, 0, socket.if_nametoindex("lo")))),
    ],
)
async def test_nobody_is_asked_for_a_literal(host, address):
    names = Names()
    assert await names.resolver.addresses(host, 80) == [address]
    assert names.asked == []


@pytest.mark.parametrize("zone", ["nowhere", "\u00e9", "\ud800", "9" * 20])
async def test_a_zone_that_is_no_network_interface_is_an_error(zone):
    names = Names()
    with pytest.raises(NoAddress, match="can't be resolved: its zone is no network interface of this machine"):
        await names.resolver.addresses(f"fe80::1%{zone}", 80)
    assert names.asked == []


async def test_all_who_want_a_name_at_the_same_time_ask_once_and_one_who_leaves_disturbs_nobody():
    names = Names(v4(1))
    names.answer.clear()
    waiting = [asyncio.ensure_future(names.resolver.addresses("shop.example", 80)) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    names.answer.set()
    assert await asyncio.gather(*waiting[1:]) == [[v4(1)], [v4(1)]]
    assert waiting[0].cancelled()
    assert len(names.asked) == 1


async def test_what_comes_too_late_is_remembered_for_who_asks_next():
    names = Names(v4(1))
    names.resolver = Resolver(names.ask, seconds=0.1)
    names.answer.clear()
    with pytest.raises(NoAddress, match="name look-up took too long"):
        await names.resolver.addresses("shop.example", 80)
    names.answer.set()

    async def it_is_known() -> bool:
        try:
            return await names.resolver.addresses("shop.example", 80) == [v4(1)]
        except NoAddress:
            return False

    await until("it is known", it_is_known)
    assert names.asked == ["shop.example"]


async def test_who_waits_when_the_client_closes_is_told():
    names = Names(v4(1))
    names.answer.clear()
    waiting = asyncio.ensure_future(names.resolver.addresses("shop.example", 80))
    await asyncio.sleep(0)
    names.resolver.close()
    with pytest.raises(NoAddress, match="closed"):
        await waiting
    names.answer.set()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        pytest.param(socket.gaierror(-2, "Name or service not known"), "Name or service not known", id="no such name"),
        pytest.param(OSError("odd"), "odd", id="an error without a number"),
        pytest.param(None, "it has no address", id="nothing"),
    ],
)
async def test_what_was_not_found_is_told_in_words(error, words):
    def ask(_: str) -> list[SocketAddress]:
        if error is not None:
            raise error
        return []

    with pytest.raises(NoAddress, match=f"^the name 'shop.example' can't be resolved: {words}$"):
        await Resolver(ask).addresses("shop.example", 80)


async def test_when_all_threads_hang_a_name_fails_in_time_and_is_found_once_one_comes_back():
    names = Names(v4(1))
    names.resolver = Resolver(names.ask, seconds=0.3)
    names.answer.clear()
    hanging = [asyncio.ensure_future(names.resolver.addresses(f"h{turn}.slow.test", 80)) for turn in range(100)]
    await until("all threads hang", lambda: len(names.asked) == MOST_AT_ONCE)

    with pytest.raises(NoAddress, match=r"name look-up took too long, more than 0\.3 s"):
        await names.resolver.addresses("shop.example", 80)
    failures = await asyncio.gather(*hanging, return_exceptions=True)
    assert {type(failure) for failure in failures} == {NoAddress}
    # Whoever got no thread in time is not looked up later.
    assert len(names.asked) == MOST_AT_ONCE

    names.answer.set()

    async def it_is_found() -> bool:
        try:
            return await names.resolver.addresses("shop.example", 80) == [v4(1)]
        except NoAddress:
            return False

    await until("it is found", it_is_found)


@pytest.mark.parametrize(
    ("addresses", "turn", "order"),
    [
        pytest.param([v4(1)], 5, [v4(1)], id="one is one"),
        pytest.param([v4(1), v4(2), v4(3)], 0, [v4(1), v4(2), v4(3)], id="at first as the system says"),
        pytest.param([v4(1), v4(2), v4(3)], 1, [v4(2), v4(3), v4(1)], id="then from the next on"),
        pytest.param([v6(1), v6(2), v4(1)], 0, [v6(1), v4(1), v6(2)], id="families take turns"),
        pytest.param([v6(1), v6(2), v4(1)], 1, [v6(2), v4(1), v6(1)], id="inside a family from the next on"),
        pytest.param([], 1, [], id="nothing is nothing"),
    ],
)
def test_the_order_in_which_addresses_are_tried(addresses, turn, order):
    assert in_turn(addresses, turn) == order
