"""A program that answers in another's namespace may be anything: it costs neither memory nor the time of others."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from headrace.core.delivery.lease import Lease
from headrace.core.errors import Unavailable
from headrace.io.jetstream import own_account
from headrace.io.jetstream.own_account import Calls, RemoteAdmin
from headrace_operator.scaling import lease_client
from headrace_operator.scaling.lease_client import LeaseClient
from tests.support.http.raw_server import Peer, answering, serving
from tests.support.stopped_clock import StoppedClock

MOST = 64 * 1024


def head(length: int, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n%scontent-length: %d\r\n\r\n" % (more, length)


class Huge:
    """Answers for as long as anybody listens."""

    sent = 0

    async def __call__(self, peer: Peer) -> None:
        await peer.request()
        await peer.say(head(10**9))
        while self.sent < 10**9:
            await peer.say(b" " * 65536)
            self.sent += 65536


async def packed(peer: Peer) -> None:
    await peer.request()
    body = gzip.compress(b'{"result": null}' + b" " * 10**7)
    assert len(body) < MOST
    await peer.say(head(len(body), b"content-encoding: gzip\r\n"), body)


async def silent(peer: Peer) -> None:
    await peer.gone()


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_account, "LONGEST_ANSWER", MOST)
    monkeypatch.setattr(lease_client, "LONGEST_ANSWER", MOST)


async def test_an_endless_answer_of_another_reconcile_is_not_read_to_its_end():
    huge, calls = Huge(), Calls(lambda _: "token")
    async with serving(huge) as server:
        with pytest.raises(Unavailable, match="more than 65536 bytes"):
            await RemoteAdmin(calls, server.url).stream("S")
        await calls.close()
    assert huge.sent < 10**8


async def test_nor_is_one_of_a_forward():
    huge = Huge()
    async with serving(huge) as server, LeaseClient("token") as client:
        with pytest.raises(Unavailable, match="more than 65536 bytes"):
            await client.open(server.url, Lease("S", "C"))
    assert huge.sent < 10**8


async def test_a_small_answer_is_not_unpacked_to_a_large_one():
    calls = Calls(lambda _: "token")
    async with serving(packed) as server, LeaseClient("token") as client:
        with pytest.raises(Unavailable, match="no answer of reconcile"):
            await RemoteAdmin(calls, server.url).stream("S")
        with pytest.raises(Unavailable, match="not as forward does"):
            await client.open(server.url, Lease("S", "C"))
        await calls.close()


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(b"[%s{}]" % (b"{}," * 5_000_000), id="objects"),
        pytest.param(b"[%s[]]" % (b"[]," * 5_000_000), id="lists"),
        pytest.param(b'"\xf0\x9f\x98\x80%s"' % (b"a" * 15_000_000), id="a wide character"),
        pytest.param(b'"\\uD83d\\ude00%s"' % (b"a" * 15_000_000), id="a wide character that is escaped"),
    ],
)
async def test_nor_is_an_answer_read_that_swells_when_it_is_read(
    result: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_account, "LONGEST_ANSWER", 16 * 1024 * 1024)
    body = b'{"result":%s}' % result

    async def swelling(peer: Peer) -> None:
        await peer.request()
        await peer.say(head(len(body)), body)

    calls = Calls(lambda _: "token")
    async with serving(swelling) as server:
        tracemalloc.start()
        try:
            with pytest.raises(Unavailable, match="is none of reconcile"):
                await RemoteAdmin(calls, server.url).consumer_infos("S")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            await calls.close()
    assert peak < 4 * len(body)


async def test_who_keeps_us_waiting_is_waited_for_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own_account, "TOGETHER_SECONDS", 0.5)
    calls = Calls(lambda _: "token")
    async with serving(silent) as server:
        first = RemoteAdmin(calls, server.url)
        for _ in range(3):
            with pytest.raises(Unavailable):
                await first.stream("S")
        with pytest.raises(Unavailable, match="asked again in a while"):
            await RemoteAdmin(calls, server.url).named()
        assert server.connections == 1
        await calls.close()


async def test_who_keeps_us_waiting_again_and_again_is_left_alone_for_longer_and_longer(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(own_account, "TOGETHER_SECONDS", 0.3)
    clock, calls = StoppedClock(monkeypatch), Calls(lambda _: "token")
    asked_at = []
    async with serving(silent) as server:
        for clock.now in range(0, 1200, 10):
            with pytest.raises(Unavailable) as told:
                await RemoteAdmin(calls, server.url).named()
            if "asked again in a while" not in str(told.value):
                asked_at.append(clock.now)
        await calls.close()
    assert asked_at == [0, 30, 90, 210, 450, 750, 1050]


async def test_who_was_silent_has_less_time_until_it_has_answered_for_a_while(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(own_account, "PROBE_SECONDS", 0.3)
    clock, calls = StoppedClock(monkeypatch), Calls(lambda _: "token")
    answers = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 16\r\n\r\n" + b'{"result": null}')
    async with serving(silent, silent, answers, silent) as server:
        monkeypatch.setattr(own_account, "TOGETHER_SECONDS", 0.3)
        with pytest.raises(Unavailable):
            await RemoteAdmin(calls, server.url).stream("S")
        # From here on it would be waited for as long as the test has.
        monkeypatch.setattr(own_account, "TOGETHER_SECONDS", 3600.0)
        clock.now += 31
        with pytest.raises(Unavailable):
            await RemoteAdmin(calls, server.url).stream("S")
        clock.now += 61
        # One answer is no proof: the next call has as little time.
        monkeypatch.setattr(own_account, "PROBE_SECONDS", 30.0)
        assert await RemoteAdmin(calls, server.url).stream("S") is None
        monkeypatch.setattr(own_account, "PROBE_SECONDS", 0.3)
        with pytest.raises(Unavailable):
            await RemoteAdmin(calls, server.url).stream("S")
        await calls.close()
