"""The bytes that a lease may ask for beside others of its process."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from hypothesis import given
from hypothesis import strategies as st

from headrace.core.delivery.byte_pool import LEAST, BytePool
from headrace.core.delivery.pace import Pace

MIB = 1024 * 1024


def test_a_lease_alone_may_have_it_all() -> None:
    with BytePool(32 * MIB).share() as share:
        assert share.grant(16 * MIB) == 16 * MIB
        assert share.grant(64 * MIB) == 32 * MIB


def test_each_of_several_leases_has_an_equal_share() -> None:
    pool = BytePool(32 * MIB)
    with pool.share() as one, pool.share() as two:
        one.ask(one.grant(32 * MIB) or 0)
        assert one.asked == 16 * MIB
        assert two.grant(32 * MIB) == 16 * MIB


def test_what_one_lease_had_before_the_others_came_is_not_given_twice() -> None:
    pool = BytePool(32 * MIB)
    with pool.share() as greedy, ExitStack() as others:
        greedy.ask(greedy.grant(32 * MIB) or 0)
        late = [others.enter_context(pool.share()) for _ in range(3)]
        assert [share.grant(8 * MIB) for share in late] == [LEAST] * 3
        greedy.ended()
        assert late[0].grant(32 * MIB) == 8 * MIB


def test_a_lease_that_holds_its_share_waits_until_something_is_settled() -> None:
    pool = BytePool(4 * MIB)
    with pool.share() as full, pool.share() as other:
        full.came(2 * MIB)
        assert full.grant(MIB) is None
        assert other.grant(MIB) == MIB
        full.settled(MIB)
        assert full.grant(MIB) == MIB


def test_a_message_of_whatever_size_waits_for_room_unless_nobody_holds_anything() -> None:
    pool = BytePool(MIB)
    with pool.share() as one, pool.share() as two:
        assert one.may_ask_for_any(2 * MIB)
        two.came(1)
        assert not one.may_ask_for_any(2 * MIB)


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["ask", "come", "end", "settle"])), max_size=200))
def test_all_leases_together_never_ask_for_more_than_the_pool_and_a_little_each(steps: list[tuple[int, str]]) -> None:
    pool = BytePool(MIB)
    with ExitStack() as open_leases:
        shares = [open_leases.enter_context(pool.share()) for _ in range(10)]
        for which, step in steps:
            share = shares[which]
            match step:
                case "ask" if not share.asked:
                    share.ask(share.grant(MIB) or 0)
                case "come" if share.asked:
                    share.came(min(share.asked, 40_000))
                case "end":
                    share.ended()
                case "settle":
                    share.settled(share.held)
            assert pool.used <= MIB + 10 * LEAST
    assert pool.used == 0


async def test_a_lease_that_fails_gives_its_share_back() -> None:
    pool = BytePool(MIB)
    try:
        with pool.share() as share:
            share.came(10)
            raise asyncio.CancelledError
    except asyncio.CancelledError:
        pass
    assert pool.used == 0


def test_without_a_rate_limit_nothing_is_paid_for() -> None:
    pace = Pace(0)
    pace.came(10**9, 5.0)
    assert (pace.paid_until, pace.batch(100, 10**9)) == (0.0, 100)


def test_what_came_is_paid_for_one_after_the_other() -> None:
    pace = Pace(8_000)
    pace.came(500, 10.0)
    pace.came(500, 10.1)
    assert pace.paid_until == 11.0
    pace.came(1000, 20.0)
    assert pace.paid_until == 21.0


def test_no_more_is_asked_for_than_a_tenth_of_a_second_brings_and_never_nothing() -> None:
    pace = Pace(80_000)
    assert [pace.batch(100, size) for size in (10, 100, 5_000)] == [100, 10, 1]
