"""Events that are missing between the deliveries of a lease, and events that only seem to be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.delivery import gaps
from headrace.core.delivery.gaps import Gaps
from headrace.core.nats.jetstream import Message, ack_tokens


def message(delivery: int, sequence: int, delivered: int = 1) -> Message:
    return Message("s", {}, b"", "", "S", "C", delivered, sequence, 0, delivery)


@pytest.mark.parametrize(
    ("deliveries", "missing"),
    [
        pytest.param([(4, 11, 1), (5, 12, 1)], 0, id="all follow each other"),
        pytest.param([(4, 16, 1)], 5, id="five before the first"),
        pytest.param([(4, 11, 1), (5, 14, 1), (6, 15, 1)], 2, id="two in the middle"),
        pytest.param([(4, 11, 1), (7, 20, 1)], 0, id="others got what came between"),
        pytest.param([(4, 11, 1), (7, 20, 1), (8, 23, 1)], 2, id="and then some are missing"),
        pytest.param([(4, 3, 2), (5, 11, 1)], 0, id="one comes again"),
        pytest.param([(4, 3, 2), (5, 13, 1)], 2, id="one comes again before two that are missing"),
        pytest.param([(4, 11, 1), (9, 3, 2), (10, 30, 1)], 0, id="after others and one that comes again nobody knows"),
        pytest.param([(4, 4, 1), (5, 11, 1)], 0, id="the server has forgotten that it had delivered it"),
    ],
)
def test_missing_events(deliveries: list[tuple[int, int, int]], missing: int) -> None:
    seen = Gaps(3, 10)
    assert sum(seen.seen(message(*each)) for each in deliveries) == missing


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 2)), max_size=60))
def test_leases_side_by_side_count_everything_that_is_discarded_between_deliveries_of_one(
    steps: list[tuple[bool, int]],
) -> None:
    """Two leases share a consumer: together they never count more than is missing, and one alone counts it all."""
    leases = [Gaps(0, 0), Gaps(0, 0)]
    alone = Gaps(0, 0)
    sequence = missing = counted = counted_alone = 0
    for delivery, (second, discarded) in enumerate(steps, 1):
        sequence += discarded + 1
        missing += discarded
        counted += leases[second].seen(message(delivery, sequence))
        counted_alone += alone.seen(message(delivery, sequence))
    assert counted_alone == missing
    assert counted <= missing


def test_a_filtered_consumer_has_gaps_of_its_own() -> None:
    assert gaps.begin({"config": {"filter_subject": "a"}, "delivered": {}}) is None
    assert gaps.begin({"config": {"filter_subjects": ["a", "b"]}, "delivered": {}}) is None
    assert gaps.begin({"config": {"filter_subject": ">"}, "delivered": {}}) is not None


def test_a_lease_begins_where_the_consumer_stands() -> None:
    begun = gaps.begin({"config": {}, "delivered": {"consumer_seq": 3, "stream_seq": 10}})
    assert begun is not None
    assert begun.seen(message(4, 13)) == 2


def test_the_number_of_a_delivery_is_read_from_the_ack_subject() -> None:
    tokens = ack_tokens("$JS.ACK.S.C.2.7.9.1700000000000000000.0")
    assert tokens is not None
    assert (tokens.delivered, tokens.sequence, tokens.delivery) == (2, 7, 9)
