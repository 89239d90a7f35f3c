"""Whatever happens: no event goes before an earlier one of its key, and every one goes in the end.

Random histories of arrivals, outcomes, ends and crashes of leases, against a model of JetStream and its records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.delivery.order import Go, Order, Postpone, Twin, Unsettled, Wait

SLOTS = 6
ACK_WAIT = 8.0


@dataclass
class World:
    """JetStream, the stage records and one lease after the other, as they are in truth.

    Attributes:
        keys: of the events, by sequence.
        pending: delivered and not settled: when the server would deliver each again; None while a lease has it.
        records: due times of those that were put off.
    """

    keys: dict[int, str | None]
    now: float = 0.0
    fresh: int = 1
    pending: dict[int, float | None] = field(default_factory=dict)
    records: dict[int, float] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)
    line: Order = field(default_factory=lambda: Order(SLOTS // 2, 1000))
    hand: list[int] = field(default_factory=list)
    waiting: set[int] = field(default_factory=set)
    started: bool = False

    def pull(self, count: int, turn: int = 0) -> None:
        """Redeliveries come first: the longest due of them, or with a `turn` any."""
        room = SLOTS - len(self.hand) - len(self.waiting)
        for _ in range(min(count, room)):
            due = sorted((at, seq) for seq, at in self.pending.items() if at is not None and at <= self.now)
            if due:
                soonest = [seq for at, seq in due if turn or at == due[0][0]]
                sequence = soonest[turn % len(soonest)]
            elif self.fresh in self.keys:
                sequence, self.fresh = self.fresh, self.fresh + 1
            else:
                break
            self.pending[sequence] = None
            self._take(sequence)
        self.look()

    def look(self) -> None:
        """The take-over: read the records once, and count."""
        if self.line.open:
            return
        if not self.started:
            self.started = True
            for sequence, due in self.records.items():
                if due > self.now and sequence not in self.settled:
                    self.line.expect(sequence, self.keys[sequence], due)
        if not self.line.missing(Unsettled(len(self.pending), 10**6), self.line.known()):
            self._apply(self.line.opened(self.now))

    def succeed(self, turn: int) -> None:
        if self.hand:
            sequence = self.hand.pop(turn % len(self.hand))
            self.settled.add(sequence)
            del self.pending[sequence]
            self.records.pop(sequence, None)
            self._apply(self.line.settled(sequence, self.now))

    def retry(self, turn: int, delay: float) -> None:
        if self.hand:
            sequence = self.hand.pop(turn % len(self.hand))
            self._put_off(sequence, self.now + delay)
            self._apply(self.line.away(sequence, self.now + delay, self.now))

    def lose(self, turn: int) -> None:
        """NATS was away when it was to be settled: no record, and it comes again after the ack wait."""
        if self.hand:
            sequence = self.hand.pop(turn % len(self.hand))
            self.pending[sequence] = self.now + ACK_WAIT
            self._apply(self.line.away(sequence, self.now + ACK_WAIT, self.now))

    def end(self) -> None:
        """A lease in good order: what is in hand is finished, what waits is given back."""
        waiting, self.waiting = self.waiting, set()
        while self.hand:
            sequence = self.hand.pop()
            self.settled.add(sequence)
            del self.pending[sequence]
            self.records.pop(sequence, None)
        for sequence in waiting:
            self.pending[sequence] = self.now
        self._anew()

    def crash(self) -> None:
        for sequence in (*self.hand, *self.waiting):
            self.pending[sequence] = self.now + ACK_WAIT
        self.hand, self.waiting = [], set()
        self._anew()

    def _anew(self) -> None:
        self.line, self.started = Order(SLOTS // 2, 1000), False

    def _take(self, sequence: int) -> None:
        verdict = self.line.arrived(sequence, self.keys[sequence], 1, self.now)
        assert not isinstance(verdict, Twin)
        if isinstance(verdict, Wait):
            self.waiting.add(sequence)
        else:
            self._carry_out(sequence, verdict)

    def _apply(self, changes: tuple[tuple[int, Go | Postpone], ...]) -> None:
        for sequence, verdict in changes:
            self.waiting.remove(sequence)
            self._carry_out(sequence, verdict)

    def _carry_out(self, sequence: int, verdict: Go | Postpone) -> None:
        if isinstance(verdict, Postpone):
            self._put_off(sequence, verdict.due)
            return
        key = self.keys[sequence]
        earlier = [seq for seq in range(1, sequence) if self.keys[seq] == key and seq not in self.settled]
        assert key is None or not earlier, f"{sequence} goes before {earlier}"
        self.hand.append(sequence)

    def _put_off(self, sequence: int, due: float) -> None:
        self.pending[sequence] = self.records[sequence] = due

    def wait(self, seconds: float) -> None:
        self.now += seconds


TURNS = st.integers(0, 20)
DEEDS = st.one_of(
    st.tuples(st.just(World.pull), st.integers(1, 5), TURNS),
    st.tuples(st.just(World.succeed), TURNS),
    st.tuples(st.just(World.retry), TURNS, st.sampled_from([0.2, 2.0, 60.0])),
    st.tuples(st.just(World.lose), TURNS),
    st.tuples(st.just(World.wait), st.sampled_from([0.1, 1.0, 10.0, 100.0])),
    st.tuples(st.just(World.end)),
    st.tuples(st.just(World.crash)),
)


@settings(max_examples=300, deadline=None)
@given(
    keys=st.lists(st.sampled_from(["a", "b", None]), min_size=1, max_size=12),
    deeds=st.lists(DEEDS, max_size=60),
)
def test_no_event_goes_before_an_earlier_one_of_its_key_and_all_go_in_the_end(
    keys: list[str | None], deeds: list[tuple[Callable[..., None], *tuple[int, ...]]]
) -> None:
    world = World(dict(enumerate(keys, 1)))
    for deed, *arguments in deeds:
        deed(world, *arguments)
    for _ in range(20 + 3 * len(keys)):
        world.pull(SLOTS)
        world.succeed(0)
        world.wait(10.0)
    assert world.settled == set(world.keys)
