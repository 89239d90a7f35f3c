"""Which channels of a namespace may have functions of their own in another one: the oldest, whoever counts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.channel import guests
from headrace.core.channel.guests import Guests

SYSTEM = "knative-eventing"


def function(name: str, channel: str, second: int, place: str = SYSTEM) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "namespace": place,
            "annotations": {"headrace.dev/channel": f"shop/{channel}"},
            "creationTimestamp": f"2026-01-31T12:00:{second:02}Z",
        }
    }


def test_a_channel_is_told_how_many_others_there_are_and_how_many_are_older_than_its_own() -> None:
    there = [
        function("a", "bills", 1),
        function("b", "orders", 2),
        function("c", "bills", 3),
        function("d", "orders", 4),
    ]

    assert guests.of(there, "shop/orders") == {SYSTEM: Guests(2, {"b": 1, "d": 2})}
    assert guests.of(there, "shop/bills") == {SYSTEM: Guests(2, {"c": 1})}
    assert guests.of(there, "shop/new") == {SYSTEM: Guests(4)}


def test_each_place_is_counted_for_itself_so_that_nobody_is_crowded_by_objects_elsewhere() -> None:
    """A tenant can give objects of its own namespace any name and mark."""
    there = [function("a", "bills", 1, "evil"), function("b", "orders", 2)]

    assert guests.of(there, "shop/orders").get(SYSTEM, Guests()) == Guests()


@pytest.mark.parametrize(
    ("body", "read"),
    [
        (None, Guests()),
        ({"others": "many", "older": [1]}, Guests()),
        ({"others": 2, "older": {"a": 1, "b": "x"}}, Guests(2, {"a": 1})),
    ],
)
def test_what_is_damaged_counts_as_nothing(body: object, read: Guests) -> None:
    assert Guests.from_json(body) == read


def test_a_new_function_finds_room_only_beside_all_that_are_there() -> None:
    mine = [function("old", "orders", 1)]

    assert guests.admitted(["old", "new", "newer"], mine, Guests(1), 3) == {"old", "new"}
    assert guests.admitted(["old", "new"], mine, Guests(5), 3) == {"old"}
    assert guests.admitted(["old", "new"], [], Guests(), 0) == frozenset()


made = st.dictionaries(
    st.sampled_from([f"f{number}" for number in range(12)]),
    st.tuples(st.sampled_from(["orders", "bills", "carts"]), st.integers(0, 3)),
)


@given(made, st.integers(0, 12))
def test_whatever_was_made_at_once_the_channels_come_to_keep_the_oldest_and_as_many_as_may_be(
    made: dict[str, tuple[str, int]], most: int
) -> None:
    there = [function(name, channel, second) for name, (channel, second) in made.items()]

    kept: set[str] = set()
    for channel in ("orders", "bills", "carts"):
        mine = [one for one in there if made[one["metadata"]["name"]][0] == channel]
        seen = guests.of(there, f"shop/{channel}").get(SYSTEM, Guests())
        kept |= guests.admitted([one["metadata"]["name"] for one in mine], mine, seen, most)

    oldest = sorted(made, key=lambda name: (made[name][1], name))
    assert kept == set(oldest[:most])
