"""How large an aside stream may become where the account demands a bound, and when it is given one."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.core import names
from headrace.core.channel import aside_bound
from headrace.core.channel.aside_bound import BOUND_KEY
from headrace.core.channel.plan import Observed, StreamsDone
from headrace.core.nats.action import Action, CreateStream, DeleteStream, Done, Outcome, Rejected, UpdateStream
from headrace.core.nats.stream import ChannelStream, Owner

PLACE = ChannelStream(Owner("c", "shop", "orders", "u"), names.channel("shop", "orders"), "KN", overridden=False)
ASIDE: dict[str, Any] = {"name": "KN_aside", "metadata": {"a": "b"}}
DEMAND = Rejected("account requires a stream config to have max bytes set")
MARK = {"a": "b", BOUND_KEY: "share of maxBytes"}


@pytest.mark.parametrize(
    ("stream", "share"), [(0, 0), (-1, 0), (5_000_000, 2_097_152), (8_388_608, 2_097_152), (40_000_000, 10_000_000)]
)
def test_the_bound_is_a_share_with_room_for_an_event_at_least(stream: int, share: int) -> None:
    assert aside_bound.of_stream(stream) == share


@pytest.mark.parametrize("kind", [CreateStream, UpdateStream])
def test_what_is_refused_for_want_of_a_bound_is_asked_for_with_one(kind: Any) -> None:
    asked = aside_bound.demanded(kind(ASIDE), DEMAND, PLACE, {"max_bytes": 40_000_000})

    assert asked == kind({"name": "KN_aside", "max_bytes": 10_000_000, "metadata": MARK})


@pytest.mark.parametrize(
    ("action", "outcome", "stream"),
    [
        pytest.param(CreateStream(ASIDE), Done({}), {"max_bytes": 9}, id="it was taken"),
        pytest.param(CreateStream(ASIDE), Rejected("no"), {"max_bytes": 9}, id="refused for something else"),
        pytest.param(CreateStream({"name": "KN"}), DEMAND, None, id="the stream's own bound is its author's"),
        pytest.param(CreateStream(ASIDE), DEMAND, {"max_bytes": -1}, id="there is nothing to take a share of"),
        pytest.param(DeleteStream("KN_aside"), DEMAND, {"max_bytes": 9}, id="no stream is made"),
    ],
)
def test_nothing_else_is_asked_for_again(action: Action, outcome: Outcome, stream: Any) -> None:
    assert aside_bound.demanded(action, outcome, PLACE, stream) is None


def test_a_bound_that_was_given_follows_the_streams() -> None:
    marked = {"max_bytes": 10_000_000, "metadata": MARK}

    assert aside_bound.following(ASIDE, marked, 80_000_000)["max_bytes"] == 20_000_000
    assert aside_bound.following(ASIDE, {"max_bytes": 7}, 80_000_000) == ASIDE
    assert aside_bound.following(ASIDE, None, 80_000_000) == ASIDE
    # Where the stream has no bound any more, its last share stays.
    assert aside_bound.following(ASIDE, marked, -1) == ASIDE


@pytest.mark.parametrize(
    ("name", "words", "told"),
    [
        ("KN", DEMAND.words, "have max bytes set: set spec.stream.config.maxBytes"),
        ("KN_aside", DEMAND.words, "or max_bytes of KN where that is adopted: this one gets a share of it"),
        ("KN", "stream max bytes exceeds account limit max stream bytes", "lower spec.stream.config.maxBytes"),
        ("KN", "whatever", "NATS refused to create KN: whatever"),
    ],
)
def test_a_refusal_names_the_field_that_mends_it(name: str, words: str, told: str) -> None:
    progress = StreamsDone(PLACE, Observed(None, None)).after(CreateStream({"name": name}), Rejected(words))

    assert progress.problems[0].message.endswith(told)
