"""From zero and back to zero: what a sender and a subscriber wait for, and what is up once nothing flows."""

from __future__ import annotations

import pytest

from tests.cluster.conftest import Told
from tests.cluster.kubectl import Kubectl, until
from tests.cluster.load import World
from tests.cluster.pods import Pods
from tests.cluster.reach import Sender, address_of
from tests.faults.sink import Place

ROUNDS = 3
# After the last event: 15 s are promised, and 18 were seen on a machine that was busy fifteen times over.
REST_SECONDS = 20.0
OPERATOR = "operator"

pytestmark = pytest.mark.timeout(500)


@pytest.mark.short
def test_from_zero_and_back_to_zero_with_one_operator_pod_at_rest(world: World, kubectl: Kubectl, told: Told) -> None:
    flow = world.flow("zero", "orders")
    send = Sender(kubectl, address_of(kubectl, "natsjetstreamchannel", "orders", "zero"))
    accepted, delivered, rest = [], [], []
    with Pods(kubectl) as pods:
        for number in range(ROUNDS):
            pods.wait_for_rest(OPERATOR)
            posted = send.accepted(f"zero-{number}")
            delivered_to(flow.place, number + 1)
            accepted.append(posted.took)
            delivered.append(flow.place.arrivals[-1].at - posted.at)
            last = flow.place.arrivals[-1].at
            pods.wait_for_rest(OPERATOR)
            rest.append(pods.ended_after(last))
        until("the last pods are gone", lambda: len(pods.ended_after(last, gone=True)) == len(rest[-1]), 90)
        gone = pods.ended_after(last, gone=True)
    assert [arrival.id for arrival in flow.place.arrivals] == [f"zero-{number}" for number in range(ROUNDS)]
    longest = {name: max(one.get(name, 0.0) for one in rest) for name in sorted({name for one in rest for name in one})}
    assert set(longest) <= {"forward", "receive", "reconcile"}
    told(
        f"accepted after {_span(accepted)}, delivered after {_span(delivered)}; after the last event told to end "
        f"by {_named(longest)}, gone by {_named(gone)}"
    )
    assert max(longest.values()) <= REST_SECONDS, longest


def test_what_is_at_rest_stays_at_rest(world: World, kubectl: Kubectl, told: Told) -> None:
    world.flow("rest", "orders")
    with Pods(kubectl) as pods:
        pods.wait_for_rest(OPERATOR)
        with pytest.raises(AssertionError, match="still not"):
            until("something of ours is up beside the operator", lambda: pods.up() != [OPERATOR], 60)
    told("for 60 s one operator pod and nothing else of ours, with a channel and a subscriber")


def delivered_to(place: Place, count: int) -> None:
    until(f"{count} events are delivered", lambda: len(place.arrivals) >= count, 60)


def _span(seconds: list[float]) -> str:
    return f"{min(seconds):.2f} to {max(seconds):.2f} s"


def _named(seconds: dict[str, float]) -> str:
    return ", ".join(f"`{name}` {value:.1f} s" for name, value in sorted(seconds.items()))
