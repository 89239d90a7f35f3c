"""Look-ups on threads: which may begin, which have to wait, and what is said when there is no hope."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from headrace.io.http.lookups import LookUps, Outcome, shares_of
from headrace.io.http.socket_address import SocketAddress
from tests.support.waiting import until

FOUND = [SocketAddress(socket.AF_INET, ("192.0.2.1", 0))]
SOON = 0.3


class Threads:
    """Look-ups that end when they are told to, and what was told about them."""

    def __init__(self, seconds: float) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, Outcome | Exception] = {}
        self.answered = threading.Condition()
        self.told: list[tuple[str, Outcome]] = []
        self.look_ups = LookUps(self.ask, lambda host, outcome: self.told.append((host, outcome)), seconds)

    def ask(self, host: str) -> list[SocketAddress]:
        with self.answered:
            self.asked.append(host)
            self.answered.wait_for(lambda: host in self.answers)
        answer = self.answers[host]
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, list)
        return answer

    def answer(self, *hosts: str, outcome: Outcome | Exception = FOUND) -> None:
        with self.answered:
            self.answers.update(dict.fromkeys(hosts, outcome))
            self.answered.notify_all()

    def begin(self, *hosts: str) -> None:
        for host in hosts:
            self.look_ups.begin(host)

    async def asks(self, count: int) -> None:
        await until("so many are asked", lambda: len(self.asked) == count)
        # Nor is there one more on its way.
        await asyncio.sleep(0.05)
        assert len(self.asked) == count


async def _threads(seconds: float) -> AsyncIterator[Threads]:
    threads = Threads(seconds)
    yield threads
    threads.look_ups.close()
    threads.answer(*threads.asked)


@pytest.fixture
async def threads() -> AsyncIterator[Threads]:
    async for threads in _threads(60):
        yield threads


@pytest.fixture
async def hasty() -> AsyncIterator[Threads]:
    """Their time is over soon."""
    async for threads in _threads(SOON):
        yield threads


@pytest.mark.parametrize(
    ("host", "shares"),
    [
        pytest.param("localhost", {"": 32}, id="a name alone"),
        pytest.param("shop.example", {"": 32, "example": 16}, id="two labels"),
        pytest.param("a.shop.example", {"": 32, "shop.example": 4}, id="a host in a domain"),
        pytest.param(
            "billing.shop.svc.cluster.local",
            {"": 32, "cluster.local": 16, "shop.svc.cluster.local": 4},
            id="a Service: its namespace, and the cluster",
        ),
        pytest.param("a.shop.example.", {"": 32, "shop.example": 4}, id="the root is no label"),
    ],
)
def test_the_domains_of_a_name_and_their_shares(host, shares):
    assert shares_of(host) == shares


@pytest.mark.parametrize(
    ("hosts", "at_once"),
    [
        pytest.param([f"h{n}.slow.test" for n in range(40)], 4, id="one domain"),
        pytest.param([f"h.d{n}.slow.test" for n in range(40)], 16, id="one zone"),
        pytest.param([f"h{n}.test" for n in range(40)], 16, id="one top-level domain"),
        pytest.param([f"h{n}" for n in range(40)], 32, id="no domain"),
        pytest.param([f"h.slow{n}.test{n}" for n in range(40)], 32, id="many domains"),
    ],
)
async def test_so_many_are_looked_up_at_once_and_the_others_in_turn(threads, hosts, at_once):
    threads.begin(*hosts)
    await threads.asks(at_once)
    assert sorted(threads.asked) == sorted(hosts[:at_once])
    threads.answer(*hosts)
    await until("all are told", lambda: len(threads.told) == 40)
    assert Counter(host for host, _ in threads.told) == Counter(hosts)
    assert [outcome for _, outcome in threads.told] == [FOUND] * 40


async def test_a_domain_in_trouble_keeps_no_other_waiting(threads):
    threads.begin(*(f"h{number}.slow.test" for number in range(100)), "shop.example", "h.quick.test")
    await threads.asks(6)
    assert {"shop.example", "h.quick.test"} < set(threads.asked)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(socket.gaierror(-2, "Name or service not known"), "Name or service not known", id="no such name"),
        pytest.param(OSError("odd"), "odd", id="an error without a number"),
        pytest.param([], "it has no address", id="nothing"),
    ],
)
async def test_what_was_not_found_is_told_in_words(threads, answer, words):
    threads.answer("shop.example", outcome=answer)
    threads.begin("shop.example")
    await until("it is told", lambda: threads.told == [("shop.example", words)])


async def test_what_takes_too_long_is_told_in_time_and_once_more_when_it_comes(hasty):
    hasty.begin("shop.example")
    await until("it is told", lambda: hasty.told != [])
    too_long = ("shop.example", "name look-up took too long, more than 0.3 s")
    assert hasty.told == [too_long]
    # Asked again, it is not looked up a second time.
    hasty.begin("shop.example")
    assert hasty.told == [too_long] * 2
    hasty.answer("shop.example")
    await until("it has come", lambda: hasty.told == [too_long, too_long, ("shop.example", FOUND)])
    assert hasty.asked == ["shop.example"]
    hasty.begin("shop.example")
    await until("it is asked for again", lambda: len(hasty.asked) == 2)


async def test_who_waits_for_a_thread_is_told_in_time_and_never_looked_up(hasty):
    hosts = [f"h{number}.slow.test" for number in range(5)]
    hasty.begin(*hosts)
    await until("all are told", lambda: len(hasty.told) == 5)
    assert {outcome for _, outcome in hasty.told} == {"name look-up took too long, more than 0.3 s"}
    hasty.answer(*hosts)
    await until("those with a thread have come", lambda: len(hasty.told) == 9)
    await hasty.asks(4)


@pytest.mark.parametrize(
    ("hosts", "stranger", "words"),
    [
        pytest.param(
            [f"h{n}.slow.test" for n in range(4)],
            "h9.slow.test",
            "4 name look-ups in 'slow.test' hang before it",
            id="its domain hangs",
        ),
        pytest.param([f"h{n}" for n in range(32)], "shop.example", "32 name look-ups hang before it", id="all hang"),
    ],
)
async def test_where_all_threads_hang_it_is_told_at_once_until_one_comes_back(hasty, hosts, stranger, words):
    hasty.begin(*hosts)
    await until("they take too long", lambda: len(hasty.told) == len(hosts))
    hasty.begin(stranger)
    assert hasty.told[-1] == (stranger, words)
    hasty.answer(*hosts[:1], stranger)
    await until("one has come back", lambda: (hosts[0], FOUND) in hasty.told)
    hasty.begin(stranger)
    await until("it is found", lambda: (stranger, FOUND) in hasty.told)


async def test_nothing_is_told_after_the_end(hasty):
    hasty.begin(*(f"h{number}.slow.test" for number in range(5)))
    await hasty.asks(4)
    hasty.look_ups.close()
    hasty.answer(*(f"h{number}.slow.test" for number in range(5)))
    await asyncio.sleep(SOON + 0.1)
    assert hasty.told == []
    assert len(hasty.asked) == 4
