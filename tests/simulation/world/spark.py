"""Spark reads a channel's stream: its planning and its tasks, with their blocking client. Spark itself is left out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from headrace.core.errors import HeadraceError, Unavailable
from pyspark_jetstream import offsets, options, plan
from pyspark_jetstream.client import BlockingApi, Connection, api, connection, link, patience
from pyspark_jetstream.task import TaskPart, fetch
from tests.simulation.faults import Kind
from tests.simulation.loop import Process
from tests.simulation.model.messages import Stored
from tests.simulation.plan import ChannelPlan
from tests.simulation.world import blocking, channels
from tests.simulation.world.world import NATS, NATS_PORT, SPARK, World

# As Spark tries a task.
TRIES = 4
# Small, so that a stream has several parts.
PER_PARTITION = 4


class SparkRead:
    """One batch read of one channel, of all that its stream holds at the moment of the planning.

    Attributes:
        done: it has ended.
        trouble: what is wrong with it, in words; empty if nothing is.
        failed: an error that a user would see, in words.
    """

    def __init__(self, world: World, channel: ChannelPlan) -> None:
        self.done = False
        self.trouble = self.failed = ""
        self._begun = 0.0
        self._world = world
        given = {
            "servers": f"nats://{world.address_of[NATS]}:{NATS_PORT}",
            "channel": f"{channels.NAMESPACE}/{channel.name}",
            "maxMessagesPerPartition": str(PER_PARTITION),
        }
        self._options = options.read_options(given, {}, streaming=False)

    def begin(self) -> None:
        """Read, on a host of its own."""
        self._world.loop.call_in(Process(self._world.hosts[SPARK]), self._run)

    def _run(self) -> None:
        self._begun = self._world.loop.now
        with self._simulated():
            try:
                self._read()
            except HeadraceError as error:
                # What was planned may be gone with power.
                self.failed = "" if self._lost_power() else str(error)
        self.done = True

    def _lost_power(self) -> bool:
        """Did power fail since the planning? Then the server may have given a sequence twice."""
        strikes = self._world.ledger.strikes
        return any(one.fault.kind is Kind.POWER and one.at >= self._begun for one in strikes)

    @contextmanager
    def _simulated(self) -> Iterator[None]:
        loop, network = self._world.loop, self._world.network
        time = blocking.times(loop)
        with ExitStack() as stack:
            stack.enter_context(patch.object(link, "socket", blocking.sockets(loop, network)))
            for module in (link, connection, patience, api):
                stack.enter_context(patch.object(module, "time", time))
            yield

    def _read(self) -> None:
        stored: dict[str, dict[int, Stored]] = {}
        with Connection(self._options.access, name="spark planning", planning=True) as planning:
            jetstream = BlockingApi(planning)
            streams = plan.selected(jetstream, self._options)
            ranges = [plan.range_of(jetstream, one.info, self._options) for one in streams.values()]
            for name in streams:
                stored[name] = dict(self._world.model.streams[name].messages)
        for part in offsets.partitions([one for one in ranges if len(one)], self._options.max_per_partition, 1):
            selected = streams[part.stream]
            self._task(TaskPart(part, selected.filters, selected.mode, part.opens, True), stored[part.stream])

    def _task(self, part: TaskPart, stored: dict[int, Stored]) -> None:
        for turn in range(1, TRIES + 1):
            try:
                with Connection(self._options.access, name="spark task") as connected:
                    found = [
                        (sequence, payload)
                        for messages in fetch(BlockingApi(connected), part)
                        for sequence, payload in zip(messages.sequences, messages.payloads, strict=True)
                    ]
            except Unavailable:
                if turn == TRIES:
                    raise
                continue
            numbers = [sequence for sequence in range(part.range.start, part.range.end) if sequence in stored]
            wanted = [(sequence, stored[sequence].data) for sequence in numbers]
            if found != wanted and not self._lost_power():
                read = [sequence for sequence, _ in found]
                self.trouble = f"Spark has read {read} of {part.range}, and {numbers} are there"
            return
