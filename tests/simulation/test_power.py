"""What a loss of power does to an event that was answered with 202: it checks the oracle, and the promise."""

from __future__ import annotations

import pytest

from tests.simulation import environment
from tests.simulation.faults import Fault, Kind
from tests.simulation.history import run
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
