"""What a loss of power does to an event that was answered with 202: it checks the oracle, and the promise."""

from __future__ import annotations

import pytest

from headrace.core.channel import position
from tests.simulation import environment
from tests.simulation.faults import Fault, Kind
from tests.simulation.history import run
from tests.simulation.oracle.failure import Invariant
from tests.simulation.oracle.fates import reported_as_lost
from tests.simulation.oracle.judge import judge
from tests.simulation.oracle.view import History
from tests.simulation.plan import SUBSCRIBER, ChannelPlan, Deed, EventPlan, Plan, Script, Step, SubscriptionPlan


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    environment.prepare()


@pytest.mark.parametrize("always", [False, True])
def test_a_202_outlives_a_loss_of_power_only_where_the_server_syncs_always(always: bool):
    waits = Script("c0/s0", SUBSCRIBER, (Step(Deed.ANSWER, 503),))
    plan = Plan(
        1,
        sync_always=always,
        channels=(ChannelPlan("c0", (SubscriptionPlan("s0", retry=3, delay=6.0),)),),
        events=(EventPlan("e0", 0.0, scripts=(waits,)),),
        faults=(Fault(Kind.POWER, "nats", 3.0, seconds=1.0, values=(0.0, 0.0, 0.0)),),
    )
    ledger = run(plan).ledger
    assert [one.status for one in ledger.posted] == [202]
    assert judge(plan, ledger) == []
    assert reported_as_lost(History(plan, ledger)) == ([] if always else ["e0"])


@pytest.mark.parametrize("back", [True, False], ids=["as it is", "nobody puts it back"])
def test_what_comes_after_a_loss_of_power_reaches_a_consumer_that_remembers_more_than_its_stream(
    monkeypatch: pytest.MonkeyPatch, *, back: bool
) -> None:
    early, late = [EventPlan(f"e{n}", 0.0) for n in range(5)], [EventPlan(f"late{n}", 6.0) for n in range(3)]
    plan = Plan(
        1,
        replicated=True,
        channels=(ChannelPlan("c0", (SubscriptionPlan("s0"),)),),
        events=(*early, *late),
        # The stream loses its tail, and its consumer nothing.
        faults=(Fault(Kind.POWER, "nats", 3.0, seconds=1.0, values=(0.0, 1.0, 1.0)),),
    )
    if not back:
        monkeypatch.setattr(position, "ahead", lambda _stream, _infos: {})
    failures = judge(plan, run(plan).ledger)
    missed = {failure.event for failure in failures if failure.invariant is Invariant.FATE}
    assert missed == (set() if back else {"late0", "late1", "late2"})
    assert not back or failures == []
