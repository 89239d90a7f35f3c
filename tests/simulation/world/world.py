"""The world of a history: hosts with the product's own programs, and those around them that post and take events.

It knows how each program is started and ended; `tests.simulation.strikes` decides when that happens beside the start.
"""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from dataclasses import replace
from typing import Any, Protocol

from headrace.core import names
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.errors import HeadraceError
from headrace_cli.laptop.file_world import FileWorld
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from tests.simulation.environment import EPOCH, TOKEN
from tests.simulation.faults import Kind
from tests.simulation.ledger import FOR_EVER, Leased, Ledger
from tests.simulation.loop import SimulatedLoop
from tests.simulation.model.disk import Disk
from tests.simulation.model.server import JetStreamModel
from tests.simulation.network import Host, Network
from tests.simulation.plan import Plan, SubscriptionPlan
from tests.simulation.world import channels
from tests.simulation.world.addresses import HOSTS, Addresses
from tests.simulation.world.functions import PORT, FunctionProgram
from tests.simulation.world.operators import OperatorProgram
from tests.simulation.world.producer import Producers

NATS, RECEIVE, RECONCILE, OPERATOR, SECOND_OPERATOR = "nats", "receive", "reconcile", "operator", "operator-2"
OPERATORS = (OPERATOR, SECOND_OPERATOR)
FORWARDS = ("forward-0", "forward-1")
PRODUCER, SPARK = "producer", "spark"
NATS_PORT = 4222
# Small beside the events of a history, so that its limits are reached.
MAX_PAYLOAD = 64 * 1024
PROCESS_BYTES = 256 * 1024
# The leases that one forward can have at once: of six subscriptions, three each.
MOST_LEASES = 18
# A channel's first pass waits for NATS and for `reconcile`.
READY_SECONDS = 180.0
LOOK_SECONDS = 0.25


class Program(Protocol):
    """A program with one life."""

    ending: bool

    async def run(self) -> None: ...

    def terminate(self) -> None: ...

    def gone(self) -> None: ...


class World:
    """All hosts.

    Attributes:
        programs: those that run, by the names of their hosts; nats-server and the harness's own are not among them.
    """

    def __init__(self, plan: Plan, loop: SimulatedLoop, ledger: Ledger) -> None:
        self.plan = plan
        self.loop = loop
        self.ledger = ledger
        self.network = Network(loop, plan.latency)
        self.model = JetStreamModel(
            self._nats_clock,
            Disk(sync_always=plan.sync_always, may_lose_power=_cuts_power(plan), replicated=plan.replicated),
            plan.seed,
        )
        self.model.max_payload = MAX_PAYLOAD
        self.programs: dict[str, Program] = {}
        hosts = (NATS, RECEIVE, RECONCILE, *FORWARDS, OPERATOR, SECOND_OPERATOR, PRODUCER, SPARK, *HOSTS.values())
        self.hosts: dict[str, Host] = {name: self.network.add(name) for name in hosts}
        self.address_of = {name: host.address for name, host in self.hosts.items()}
        self.channels = FileWorld(lambda: EPOCH + loop.now)
        # In the history's own name.
        self.outside = copy_context()
        self._terms = plan.subscriptions()
        self._addresses = Addresses(plan, ledger, self.network.at)
        self._consumers = {
            names.durable(channels.uid(one.name, sub.name)): f"{one.name}/{sub.name}"
            for one in plan.channels
            for sub in one.subscriptions
        }

    def variables(self) -> dict[str, str]:
        """The environment of every program of the product."""
        receive = f"http://{self.address_of[RECEIVE]}:{PORT}"
        return {
            "NATS_URL": f"nats://{self.address_of[NATS]}:{NATS_PORT}",
            "HEADRACE_TOKEN": TOKEN,
            "HEADRACE_NAMES": "any",
            "HEADRACE_ADDRESS": receive,
            "FORWARD_MAX_PROCESS_BYTES": str(PROCESS_BYTES),
            "FORWARD_MAX_IN_FLIGHT_BYTES": str(PROCESS_BYTES // 2),
        }

    async def begin(self) -> Producers:
        """Start everything, and wait until the channels are ready."""
        for name in HOSTS.values():
            self.network.boot(self.hosts[name], self._addresses.serve())
        self.start_nats()
        for name in (RECEIVE, RECONCILE, *FORWARDS):
            self.start(name)
        self.channels.apply(channels.objects(self.plan, self._terms, self.address_of))
        self.start(OPERATOR)
        async with asyncio.timeout(READY_SECONDS):
            while not all(_is_ready(channel) for channel in self.channels.channels):  # noqa: ASYNC110  # nobody tells
                await asyncio.sleep(LOOK_SECONDS)
        return Producers(self.plan.events, (self.address_of[RECEIVE], PORT), self.ledger)

    def settled(self) -> bool:
        """Has every consumer had every event, and is none in anybody's hands, nor about to be put back?"""
        streams = self.model.streams.values()
        if any(one.kept.count(["*.*._knative_aside.stage.*.position.ahead"], 0) for one in streams):
            return False
        consumers = [each for one in streams for each in one.consumers.values()]
        return not any(each.num_pending() or each.pending or each.is_ahead for each in consumers)

    # Programs.

    def start_nats(self) -> None:
        async def serve() -> None:
            self.model.start()
            await asyncio.get_running_loop().create_server(self.model.factory, "0.0.0.0", NATS_PORT)

        self.network.boot(self.hosts[NATS], serve())

    def start(self, name: str) -> None:
        """Start the program of a host that has none."""
        if self.hosts[name].process is None:
            self.network.boot(self.hosts[name], self._life(name))

    async def _life(self, name: str) -> None:
        program: Program
        if name in OPERATORS:
            hook = f"http://{self.address_of[RECONCILE]}:{PORT}"
            number = OPERATORS.index(name)

            async def open_lease(leases: LeaseClient, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
                return await self._open_lease(number, leases, lease, meanwhile)

            program = OperatorProgram(self.channels, hook, open_lease)
        else:
            program = FunctionProgram(name.partition("-")[0])
        self.programs[name] = program
        await program.run()
        # It has ended by itself: its process is gone, and so is all that it had open.
        self.loop.call_soon(self.kill, name)

    def kill(self, name: str) -> None:
        """SIGKILL, or the end of a process that has nothing left to do."""
        self.network.kill(self.hosts[name])
        if name in OPERATORS:
            for held in self.ledger.leases:
                if held.scaler == OPERATORS.index(name) and held.ended == FOR_EVER:
                    held.ended, held.answer = self.loop.now, "its operator is gone"
        program = self.programs.pop(name, None)
        if program is not None:
            program.gone()

    def terminate(self, name: str) -> None:
        """SIGTERM; the program ends when it has done its drain."""
        program, process = self.programs.get(name), self.hosts[name].process
        if program is not None and process is not None and not program.ending:
            self.loop.call_in(process, program.terminate)

    def edit(self, subscription: str, what: int) -> bool:
        """Somebody changes a subscription: 0 its retries, 1 deletes its consumer, 2 its timeout, 3 that and back."""
        if what == 1:
            return self._delete_consumer(subscription)
        before = self._terms[subscription]
        if what == 0:
            self._apply(subscription, replace(before, retry=before.retry + 1))
        else:
            self._apply(subscription, replace(before, timeout=before.timeout + 1.0))
            if what == 3:
                self._apply(subscription, before)
        return True

    def _delete_consumer(self, subscription: str) -> bool:
        """By hand; False where there is none that the scaler knows: only of such a one it notices that it is gone."""
        durable = next(name for name, one in self._consumers.items() if one == subscription)
        found = [one.consumers[durable] for one in self.model.streams.values() if durable in one.consumers]
        process, operator = self.hosts[NATS].process, self.programs.get(OPERATOR)
        served = isinstance(operator, OperatorProgram) and subscription in operator.served_subscriptions
        if not (found and served and process is not None and self.model.running):
            return False
        self.loop.call_in(process, found[0].delete)
        return True

    def _apply(self, subscription: str, terms: SubscriptionPlan) -> None:
        self._terms[subscription] = terms
        self.channels.apply(channels.objects(self.plan, self._terms, self.address_of))

    def _nats_clock(self) -> int:
        return int((EPOCH + self.loop.now + self.hosts[NATS].wall) * 1_000_000_000)

    # Leases.

    async def _open_lease(self, scaler: int, client: LeaseClient, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        """Open a lease at one of the forwards that a Service would choose among."""
        up = [name for name in FORWARDS if self._takes_requests(name)]
        name = self.loop.chance.choice(up or FORWARDS)
        held = Leased(self.loop.now, name, self.subscription(lease.consumer), scaler, seconds=lease.seconds)
        self.ledger.leases.append(held)

        def ending() -> None:
            held.late = min(held.late, self.loop.now)
            meanwhile.ending()

        try:
            answer = await client.open(
                f"http://{self.address_of[name]}:{PORT}/", lease, meanwhile._replace(ending=ending)
            )
        except HeadraceError as error:
            held.answer = str(error)
            raise
        else:
            held.answer = f"{dict(answer.counts)}"
            return answer
        finally:
            held.ended = min(held.ended, self.loop.now)

    def _takes_requests(self, name: str) -> bool:
        program = self.programs.get(name)
        return isinstance(program, FunctionProgram) and program.ready and not program.ending

    def subscription(self, consumer: str) -> str:
        """`c0/s0` of a consumer's name."""
        return self._consumers.get(consumer, consumer)


def _cuts_power(plan: Plan) -> bool:
    return any(fault.kind is Kind.POWER for fault in plan.faults)


def _is_ready(channel: Any) -> bool:
    conditions = (channel.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
