"""Names and their addresses: who asks, how often, and in which order addresses are tried."""

from __future__ import annotations

import asyncio
import socket

import pytest

from headrace.io.http.resolver import Resolver, SocketAddress, Unresolved, in_turn


def v4(last: int) -> SocketAddress:
    return SocketAddress(socket.AF_INET, (f"192.0.2.{last}", 80))


def v6(last: int) -> SocketAddress:
    return SocketAddress(socket.AF_INET6, (f"2001:db8::{last}", 80, 0, 0))


class Names:
    """A resolver that answers when it is told to, and a clock."""

    def __init__(self, *addresses: SocketAddress) -> None:
        self.addresses = list(addresses)
        self.asked: list[tuple[str, int]] = []
        self.answer = asyncio.Event()
        self.answer.set()
        self.now = 1000.0
        self.resolver = Resolver(self.ask, lambda: self.now)

    async def ask(self, host: str, port: int) -> list[SocketAddress]:
        self.asked.append((host, port))
        await self.answer.wait()
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return self.addresses


async def test_a_name_is_asked_for_again_after_10_seconds():
    names = Names(v4(1))
    for now, asked in ((1000, 1), (1009.9, 1), (1010, 2)):
        names.now = now
        assert await names.resolver.addresses("shop.example", 80) == [v4(1)]
        assert names.asked == [("shop.example", 80)] * asked


async def test_each_connection_begins_with_another_address():
    names = Names(v4(1), v4(2))
    found = [await names.resolver.addresses("shop.example", 80) for _ in range(3)]
    assert found == [[v4(1), v4(2)], [v4(2), v4(1)], [v4(1), v4(2)]]


async def test_a_name_without_an_address_is_an_error_and_asked_for_again_at_once():
    names = Names()
    for _ in range(2):
        with pytest.raises(Unresolved) as failed:
            await names.resolver.addresses("shop.example", 80)
        assert str(failed.value) == "the name 'shop.example' can't be resolved: Name or service not known"
    names.addresses.append(v4(1))
    assert await names.resolver.addresses("shop.example", 80) == [v4(1)]
    assert len(names.asked) == 3


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", SocketAddress(socket.AF_INET, ("127.0.0.1", 80))),
        ("::1", SocketAddress(socket.AF_INET6, ("::1", 80, 0, 0))),
    ],
)
async def test_nobody_is_asked_for_a_literal(host, address):
    names = Names()
    assert await names.resolver.addresses(host, 80) == [address]
    assert names.asked == []


async def test_a_literal_that_is_none_is_an_error():
    with pytest.raises(Unresolved, match="can't be resolved"):
        await Resolver().addresses("fe80::1%\u00e9", 80)


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


async def test_who_waits_when_the_client_closes_is_told():
    names = Names(v4(1))
    names.answer.clear()
    waiting = asyncio.ensure_future(names.resolver.addresses("shop.example", 80))
    await asyncio.sleep(0)
    await names.resolver.close()
    with pytest.raises(Unresolved, match="closed"):
        await waiting


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
