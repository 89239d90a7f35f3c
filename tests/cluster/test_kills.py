"""Two hundred events a second through pods that are deleted and killed: none is lost, or comes twice without a reason.

A subscriber takes a second for each event, so that each killed pod holds some. Each test is one load of its own on one
channel; the figures go to docs/cluster.md.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cluster.account import Account, Fault
from tests.support.cluster.figures import Figures
from tests.support.cluster.killing import kill
from tests.support.cluster.kubectl import Kubectl, Pod, until
from tests.support.cluster.load import Flow, World, running

EVENTS, RATE = 2000, 200.0
SUBSCRIBER_SECONDS = 1.0
OPERATOR = "app.kubernetes.io/name=headrace,app.kubernetes.io/component=operator"
RECEIVE = "app.kubernetes.io/name=headrace,app.kubernetes.io/component=receive"
HEAD = (
    "during the load",
    "accepted",
    "lost",
    "twice",
    "in hands",
    "retried",
    "silent s",
    "caught up s",
    "p50 s",
    "max s",
)

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def flow(world: World) -> Flow:
    """A channel with up to four busy `forward` pods."""
    return world.flow("kills", "load", seconds=SUBSCRIBER_SECONDS, lag_threshold="50", max_scale="4")


@pytest.fixture
def strike(flow: Flow, figures: Figures, request: pytest.FixtureRequest) -> Strike:
    return Strike(flow, figures, request.node.name)


class Strike:
    """Runs a load with faults, writes its row, and says what became of it."""

    def __init__(self, flow: Flow, figures: Figures, name: str) -> None:
        self._flow, self._figures = flow, figures
        self._prefix = name

    async def __call__(self, words: str, *faults: Fault) -> Account:
        account = await self._flow.under_load(self._prefix, EVENTS, RATE, faults)
        worst = max(account.recoveries, key=lambda one: one.silent + one.caught_up)
        self._figures.row(
            "kills",
            HEAD,
            (
                words,
                account.accepted,
                len(account.lost),
                account.again,
                account.in_hands,
                account.refusals,
                worst.silent,
                worst.caught_up,
                account.p50,
                account.longest,
            ),
        )
        assert account.unknown == 0, "the sender has had no answer to some"
        assert account.lost == []
        assert account.parked == 0
        return account


def busy(flow: Flow) -> Callable[[], object]:
    """Wait until two `forward` pods of this channel are at work."""

    def two() -> bool:
        # One that was killed a moment ago is still told of as ready, and has no container.
        return sum(pod.ready and "forward" in pod.containers for pod in flow.pods("forward")) >= 2

    return lambda: until("two are at work", two, 60)


async def test_forward_pods_that_are_deleted_finish_what_they_hold(strike: Strike, flow: Flow) -> None:
    def delete() -> None:
        flow.world.kubectl.delete_pods(flow.pods("forward"))

    account = await strike(
        "all `forward` pods deleted, twice", Fault(5, delete, first=busy(flow)), Fault(11, delete, first=busy(flow))
    )
    assert account.twice == {}


async def test_forward_pods_that_are_deleted_by_force(strike: Strike, flow: Flow) -> None:
    def delete() -> None:
        flow.world.kubectl.delete_pods(flow.pods("forward"), force=True)

    account = await strike(
        "all `forward` pods deleted by force, twice",
        Fault(5, delete, first=busy(flow)),
        Fault(11, delete, first=busy(flow)),
    )
    assert account.twice == {}


def sigkill_forward(flow: Flow) -> None:
    # A container that has just been started again is told of a moment later.
    until("processes are killed", lambda: kill(flow.pods("forward"), "forward") >= 2)


@pytest.mark.short
async def test_forward_processes_that_are_killed(strike: Strike, flow: Flow) -> None:
    fault = Fault(5, lambda: sigkill_forward(flow), first=busy(flow), excuses=True)
    account = await strike("SIGKILL of all `forward` processes", fault)
    assert account.unexcused == []


async def test_forward_processes_that_are_killed_while_they_come_back(strike: Strike, flow: Flow) -> None:
    # Kubernetes starts a container that has ended twice within minutes after 10 s only.
    faults = [Fault(at, lambda: sigkill_forward(flow), first=busy(flow), excuses=True) for at in (5, 8)]
    account = await strike("the same, and once more when they are back", *faults)
    assert account.unexcused == []


async def test_receive_pods_that_are_deleted_and_killed(strike: Strike, flow: Flow) -> None:
    kubectl = flow.world.kubectl

    def delete() -> None:
        kubectl.delete_pods(kubectl.pods(RECEIVE))

    def sigkill() -> None:
        assert kill(kubectl.pods(RECEIVE), "receive") >= 1

    account = await strike(
        "`receive` pods deleted, then SIGKILL of their processes", Fault(4, delete), Fault(10, sigkill)
    )
    assert account.twice == {}


async def test_the_operator_that_leads_is_deleted_by_force(strike: Strike, flow: Flow) -> None:
    kubectl = flow.world.kubectl

    def delete() -> None:
        leader = kubectl.get("lease", "headrace-operator")["spec"]["holderIdentity"]
        kubectl.delete_pods([pod for pod in kubectl.pods(OPERATOR) if pod.name == leader], force=True)

    account = await strike("the leading operator deleted by force", Fault(5, delete))
    assert account.twice == {}


async def test_the_operator_that_leads_is_killed(strike: Strike, flow: Flow) -> None:
    def sigkill() -> None:
        assert kill(flow.world.kubectl.pods(OPERATOR), "operator") >= 1

    account = await strike("SIGKILL of every operator process", Fault(5, sigkill))
    assert account.twice == {}


async def test_knatives_activator_and_autoscaler_are_deleted(strike: Strike, flow: Flow) -> None:
    kubectl = flow.world.kubectl

    def delete() -> None:
        kubectl.delete_pods(kubectl.pods("app in (activator,autoscaler)", "knative-serving"))

    account = await strike("Knative's activator and autoscaler deleted", Fault(5, delete))
    running(kubectl, "app in (activator,autoscaler)", 2, namespace="knative-serving")
    assert account.twice == {}


def nats_struck(kubectl: Kubectl, how: Callable[[list[Pod]], object]) -> Callable[[], None]:
    """Strike NATS, and wait until it serves again."""

    def strike() -> None:
        before = kubectl.pods("app.kubernetes.io/name=nats", "nats-io")
        how(before)
        was = {id for pod in before for id in pod.containers.values()}

        def another() -> bool:
            now = kubectl.pods("app.kubernetes.io/name=nats", "nats-io")
            return any(pod.ready and not was & set(pod.containers.values()) for pod in now)

        until("NATS serves again", another, 90)

    return strike


async def test_nats_is_deleted(strike: Strike, flow: Flow) -> None:
    kubectl = flow.world.kubectl
    # Acks that NATS never had are acks of events that come again: those in hands while it was away.
    fault = Fault(5, nats_struck(kubectl, kubectl.delete_pods), lasts=2, excuses=True)
    account = await strike("NATS's pod deleted", fault)
    assert account.unexcused == []


async def test_nats_is_killed(strike: Strike, flow: Flow) -> None:
    fault = Fault(5, nats_struck(flow.world.kubectl, lambda pods: kill(pods, "nats")), lasts=2, excuses=True)
    account = await strike("SIGKILL of NATS", fault)
    assert account.unexcused == []
