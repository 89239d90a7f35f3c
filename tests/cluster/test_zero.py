"""From zero and back to zero: the waits of a sender and a subscriber, and the pods that are up once nothing flows."""

from __future__ import annotations

import os
import statistics
from dataclasses import dataclass, field

import pytest

from tests.cluster.conftest import Told
from tests.faults.sink import Place
from tests.support.cluster.kubectl import Kubectl, until
from tests.support.cluster.load import Flow, World
from tests.support.cluster.pods import Pods
from tests.support.cluster.reach import Sender, address_of

ROUNDS = 3
# After the last event.
REST_SECONDS = 15.0
OPERATOR = "operator"

pytestmark = pytest.mark.timeout(500)


@pytest.mark.short
def test_from_zero_and_back_to_zero_with_one_operator_pod_at_rest(world: World, kubectl: Kubectl, told: Told) -> None:
    rounds = from_zero(world.flow("zero", "orders"), kubectl, ROUNDS)
    told(rounds.words())
    assert max(rounds.longest.values()) <= REST_SECONDS, rounds.longest


@pytest.mark.parametrize("wake", ["stored", "early"])
def test_from_zero_where_other_channels_have_the_same_receive(
    wake: str, world: World, kubectl: Kubectl, told: Told
) -> None:
    world.flow("zero", "orders")
    flow = world.flow(f"zero-{wake}", "orders", wake=wake)
    told(from_zero(flow, kubectl, ROUNDS).words())


@dataclass
class Rounds:
    """What events waited for that came when all was at zero, in seconds.

    Attributes:
        rest: for each round but the first, until the last pods of a component were told to end after its event. In the
            first the functions are new, and Knative keeps what it has made for half a minute, whatever comes.
    """

    accepted: list[float] = field(default_factory=list)
    delivered: list[float] = field(default_factory=list)
    rest: list[dict[str, float]] = field(default_factory=list)

    @property
    def longest(self) -> dict[str, float]:
        names = sorted({name for one in self.rest for name in one})
        return {name: max(one.get(name, 0.0) for one in self.rest) for name in names}

    def words(self) -> str:
        return (
            f"accepted after {_span(self.accepted)}, delivered after {_span(self.delivered)}; after the last event "
            f"told to end by {_named(self.longest)}; load {os.getloadavg()[0]:.0f}"
        )


def from_zero(flow: Flow, kubectl: Kubectl, count: int) -> Rounds:
    """Send an event whenever only the operator is up, so many times."""
    namespace, name = flow.channel.namespace, flow.channel.name
    send, rounds = Sender(kubectl, address_of(kubectl, "natsjetstreamchannel", name, namespace)), Rounds()
    with Pods(kubectl) as pods:
        for number in range(count):
            pods.wait_for_rest(OPERATOR)
            posted = send.accepted(f"zero-{number}")
            delivered_to(flow.place, number + 1)
            last = flow.place.arrivals[-1].at
            rounds.accepted.append(posted.took)
            rounds.delivered.append(last - posted.at)
            pods.wait_for_rest(OPERATOR)
            if number:
                rounds.rest.append(pods.ended_after(last))
    assert [arrival.id for arrival in flow.place.arrivals] == [f"zero-{number}" for number in range(count)]
    assert set(rounds.longest) <= {"forward", "receive", "reconcile"}
    return rounds


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
    return f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"


def _named(seconds: dict[str, float]) -> str:
    return ", ".join(f"`{name}` {value:.1f} s" for name, value in sorted(seconds.items()))
