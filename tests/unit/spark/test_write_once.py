"""Guards against a row that is stored twice: its id, and the decision of a commit marker."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import Refused
from pyspark_jetstream.writing import ids
from pyspark_jetstream.writing.ids import ContentIds
from pyspark_jetstream.writing.marker import Decision, Found, Marker, decide, refuse_others
from pyspark_jetstream.writing.target import Target, short_window

SECOND = 1_000_000_000
TARGET = Target("ORDERS", "2026-01-01T00:00:00Z", 500, 1_000 * SECOND, 120.0, False, 0, "limits", 1)
MARKER = Marker("query", "ORDERS", TARGET.created, epoch=7, after=400, is_complete=False)

contents = st.lists(st.sampled_from([b"a", b"b", b"c", b"ab"]), max_size=30)


@given(contents, st.randoms())
def test_ids_do_not_depend_on_the_order_of_rows_and_are_never_given_twice(rows, random):
    def given_ids(in_order):
        found = ContentIds("s.x.")
        return [found.of(row, "subject", b"", data) for row, data in enumerate(in_order)]

    first = given_ids(rows)
    random.shuffle(rows)
    assert sorted(given_ids(rows)) == sorted(first)
    assert len(set(first)) == len(first)


def test_ids_tell_subject_headers_and_data_apart():
    parts = [("ab", b"", b"c"), ("a", b"b", b"c"), ("a", b"", b"bc"), ("a", b"bc", b"")]
    found = {ContentIds("").of(0, *one) for one in parts}
    assert len(found) == len(parts)


def test_equal_rows_far_apart_have_ids_of_their_own_though_they_are_counted_in_blocks():
    found = ContentIds("")
    first = found.of(0, "a", b"", b"x")
    assert found.of(ids.BLOCK_ROWS, "a", b"", b"x") != first


def test_a_prefix_is_of_one_partition_of_one_epoch_of_one_run():
    prefixes = {ids.prefix(run, epoch, at) for run in ("q", "q1", "1") for epoch in (1, 11) for at in (1, 11)}
    assert len(prefixes) == 12


@pytest.mark.parametrize(
    ("found", "epoch", "then"),
    [
        pytest.param(None, 7, Decision(begins=True), id="a run's first epoch begins"),
        pytest.param(MARKER, 8, Decision(begins=True), id="the next epoch begins"),
        pytest.param(MARKER, 7, Decision(), id="soon after, the server knows the ids"),
        pytest.param(replace(MARKER, is_complete=True), 7, Decision(passes=True), id="what is complete is passed over"),
        pytest.param(
            replace(MARKER, created="before", is_complete=True),
            7,
            Decision(begins=True),
            id="a stream that was made anew",
        ),
    ],
)
def test_what_a_task_does_with_a_marker(found: Marker | None, epoch: int, then: Decision):
    at = None if found is None else Found(found, 3, TARGET.now_ns - 10 * SECOND)
    assert decide(at, epoch, TARGET) == then


@pytest.mark.parametrize(("age", "reads"), [(0, False), (60, False), (61, True), (86_400, True)])
def test_the_target_is_read_once_the_marker_is_older_than_half_its_window(age: int, reads: bool):
    assert decide(Found(MARKER, 3, TARGET.now_ns - age * SECOND), 7, TARGET).reads is reads


def test_an_epoch_before_the_marker_is_refused():
    with pytest.raises(Refused, match="checkpoint has gone back"):
        decide(Found(MARKER, 3, 0), 6, TARGET)


COMPLETE = replace(MARKER, is_complete=True, rows=10, content="c0ffee")


@pytest.mark.parametrize(
    ("rows", "content", "words"),
    [
        pytest.param(11, "c0ffee", "with 10 rows in stream ORDERS, and is given 11 now", id="another number"),
        pytest.param(10, "decaf", "is given 10 others now: nothing of them was written", id="as many others"),
    ],
)
def test_a_run_that_was_complete_refuses_other_rows(rows: int, content: str, words: str):
    with pytest.raises(Refused, match=words):
        refuse_others(COMPLETE, rows, content)


def test_a_run_that_was_complete_passes_over_the_same_rows():
    refuse_others(COMPLETE, 10, "c0ffee")
    # By an earlier version, which noted the number only.
    refuse_others(replace(COMPLETE, content=""), 10, "c0ffee")


@pytest.mark.parametrize(("seconds", "warns"), [(0.0, True), (119.0, True), (120.0, False)])
def test_a_stream_that_forgets_sooner_than_spark_is_back_is_warned_of(seconds: float, warns: bool):
    words = short_window("ORDERS", seconds)
    assert ("ORDERS" in words and f"{seconds:g} s" in words) is warns
