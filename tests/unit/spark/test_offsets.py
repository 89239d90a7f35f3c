"""Offsets of streaming queries: arithmetic, with no stream and no Spark."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import Misconfigured, Refused
from pyspark_jetstream.client import StreamInfo
from pyspark_jetstream.offsets import (
    At,
    OnLoss,
    Range,
    ReadLimits,
    from_json,
    latest,
    partitions,
    ranges,
    share,
    to_json,
)

MADE = "2026-01-31T09:30:00Z"
AGAIN = "2026-02-01T10:00:00Z"


def state(name: str = "EV", *, first: int = 1, last: int = 100, created: str = MADE, size: int = 10) -> StreamInfo:
    count = last + 1 - first
    return StreamInfo(name, created, first, last, count, count * size, "limits", True)


def at(next: int, *, base: int = 1, created: str = MADE, init: bool = False) -> At:
    return At(next, base, created, init)


def end_of(
    start: dict[str, At], *states: StreamInfo, limits: ReadLimits | None = None, **on_loss: bool
) -> dict[str, At]:
    joining = {one.name: one.first for one in states if one.name not in start}
    found = latest(start, {one.name: one for one in states}, limits or ReadLimits(), OnLoss(**on_loss), joining)
    return dict(found)


def test_a_batch_ends_behind_the_last_message_and_carries_where_the_query_started() -> None:
    assert end_of({"EV": at(11, base=5, init=True)}, state()) == {"EV": at(101, base=5)}


def test_nothing_new_is_the_same_offset_to_the_letter() -> None:
    start = {"B": at(101), "A": at(101)}
    end = end_of(start, state("A"), state("B"))
    assert str(to_json(end)) == str(to_json(start))


def test_an_offset_is_json_and_back() -> None:
    offset = {"EV": at(11, base=5, init=True), "B": at(7)}
    assert from_json(to_json(offset)) == offset
    with pytest.raises(Misconfigured, match="version 2"):
        from_json({"v": 2, "streams": {}})


def test_what_was_stored_between_two_askings_for_the_start_is_read() -> None:
    """Spark asks for the initial offset again, and later: the end says where the query began."""
    end = end_of({"EV": at(51, base=51, init=True)}, state())
    assert ranges({"EV": at(90, base=90, init=True)}, end) == [Range("EV", MADE, 51, 101, opens=True)]


def test_a_batch_goes_on_where_the_last_one_ended() -> None:
    assert ranges({"EV": at(51)}, {"EV": at(101)}) == [Range("EV", MADE, 51, 101)]
    assert ranges({"EV": at(101)}, {"EV": at(101)}) == []
    assert ranges({"EV": at(102)}, {"EV": at(101)}) == []


@pytest.mark.parametrize(("begin", "size"), [(40, 61), (90, 11), (101, 0)], ids=["earliest", "a place", "latest"])
def test_a_stream_that_joins_a_query_is_read_from_where_it_should_start(begin: int, size: int) -> None:
    states = {"A": state("A"), "B": state("B", first=40)}
    end = latest({"A": at(101)}, states, ReadLimits(), OnLoss(), {"B": begin})
    assert end["B"] == at(101, base=begin)
    # Also when nothing is to be read yet: so that what comes next is.
    assert str(to_json(end)) != str(to_json({"A": at(101)}))
    assert sum(map(len, ranges({"A": at(101)}, end))) == size


def test_a_stream_that_is_left_out_ends_the_query_with_its_name_and_what_to_do() -> None:
    with pytest.raises(Refused, match=r"B at 7; it reads A\): name them again .* new checkpoint.*failOnDataLoss"):
        end_of({"A": at(5), "B": at(7)}, state("A"))


def test_a_stream_that_is_left_out_on_purpose_keeps_its_place_and_goes_on_there() -> None:
    without = end_of({"A": at(5), "B": at(7, base=3)}, state("A"), fail_on_data_loss=False)
    assert without == {"A": at(101), "B": at(7, base=3)}
    assert ranges({"A": at(5), "B": at(7, base=3)}, without) == [Range("A", MADE, 5, 101)]
    assert end_of(without, state("A"), fail_on_data_loss=False) == without
    again = end_of(without, state("A"), state("B"))
    assert ranges(without, again) == [Range("B", MADE, 7, 101)]


def test_messages_that_were_discarded_unread_end_the_query_or_are_passed_over() -> None:
    with pytest.raises(Refused, match="messages 11 to 39 of stream EV are gone"):
        end_of({"EV": at(11)}, state(first=40))
    passed = end_of({"EV": at(11)}, state(first=40), limits=ReadLimits(messages=10), fail_on_data_loss=False)
    assert passed == {"EV": at(50)}


@pytest.mark.parametrize(
    "now", [pytest.param(state(created=AGAIN), id="made again"), pytest.param(state(last=9), id="shrunk")]
)
def test_another_stream_of_that_name_ends_the_query_or_is_read_from_its_start(now: StreamInfo) -> None:
    start = {"EV": at(50, base=20)}
    with pytest.raises(Refused, match="onStreamRecreated"):
        end_of(start, now)
    end = end_of(start, now, start_over=True)
    assert end == {"EV": at(now.last + 1, base=1, created=now.created)}


def test_a_range_of_a_stream_that_was_made_again_starts_at_its_base() -> None:
    found = ranges({"EV": at(50, base=20)}, {"EV": at(31, base=3, created=AGAIN)})
    assert found == [Range("EV", AGAIN, 3, 31, opens=True)]


def test_bytes_are_limited_by_the_average_message() -> None:
    assert end_of({"EV": at(1)}, state(size=10), limits=ReadLimits(bytes=250)) == {"EV": at(26)}
    assert end_of({"EV": at(1)}, state(size=10), limits=ReadLimits(messages=20, bytes=250)) == {"EV": at(21)}
    assert end_of({"EV": at(1)}, state(size=10), limits=ReadLimits(bytes=1)) == {"EV": at(2)}


backlogs = st.dictionaries(st.sampled_from("ABCDE"), st.integers(0, 10**9), min_size=1)


@given(backlogs, st.integers(1, 10**6))
def test_a_limit_is_used_up_and_kept(backlog: dict[str, int], most: int) -> None:
    shares = share(backlog, most)
    assert sum(shares.values()) == min(most, sum(backlog.values()))
    assert all(0 <= shares[name] <= count for name, count in backlog.items())


@given(
    st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 10_000)), min_size=1, max_size=5),
    st.integers(1, 5000),
    st.integers(1, 50),
)
def test_partitions_cover_their_ranges_once_and_keep_their_bounds(
    spans: list[tuple[int, int]], most_each: int, least: int
) -> None:
    wanted = [Range(f"S{n}", MADE, start, start + size, opens=True) for n, (start, size) in enumerate(spans)]
    cut = partitions(wanted, most_each, least)
    assert all(0 < len(one) <= most_each for one in cut)
    assert len(cut) >= min(least, sum(map(len, wanted)))
    for whole in wanted:
        parts = [one for one in cut if one.stream == whole.stream]
        assert [parts[0].start, *(one.end for one in parts)] == [*(one.start for one in parts), whole.end]
        assert [one.opens for one in parts] == [True] + [False] * (len(parts) - 1)


@given(st.lists(st.tuples(st.sets(st.sampled_from("ABC"), min_size=1), st.integers(0, 50)), max_size=20))
def test_whichever_streams_are_read_each_sequence_of_each_is_read_once(runs: list[tuple[set[str], int]]) -> None:
    last = dict.fromkeys("ABC", 0)
    read: dict[str, list[int]] = {name: [] for name in "ABC"}
    offset: dict[str, At] = {}
    for chosen, more in runs:
        last = {name: count + more for name, count in last.items()}
        end = end_of(offset, *(state(name, last=last[name]) for name in sorted(chosen)), fail_on_data_loss=False)
        for one in ranges(offset, end):
            read[one.stream] += range(one.start, one.end)
        offset = dict(from_json(to_json(end)))
        assert all(read[name] == list(range(1, last[name] + 1)) for name in chosen)


@given(
    st.lists(st.integers(0, 500), min_size=1, max_size=30),
    st.integers(1, 200),
    st.booleans(),
)
def test_batches_one_after_the_other_read_every_sequence_once(growth: list[int], most: int, restarts: bool) -> None:
    """Whatever grows between two batches, whatever is asked twice."""
    last = 0
    offset: dict[str, At] = {"EV": at(1, init=True)}
    read: list[int] = []
    for more in growth:
        last += more
        end = end_of(offset, state(last=last), limits=ReadLimits(messages=most))
        for one in ranges(offset, end):
            read += range(one.start, one.end)
        offset = dict(from_json(to_json(end))) if restarts else end
    assert read == list(range(1, len(read) + 1))
    assert len(read) == offset["EV"].next - 1
