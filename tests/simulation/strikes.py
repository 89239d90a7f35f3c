"""Strikes: what the faults of a plan do to the world, at their times and at their frames."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.simulation.faults import Fault, Frame, Kind, Verb
from tests.simulation.ledger import Strike
from tests.simulation.model.connection import Connection
from tests.simulation.model.server import Trouble
from tests.simulation.model.watch import Seen
from tests.simulation.network import Host
from tests.simulation.world.world import NATS, SECOND_OPERATOR, World

# A frame to or from a process that this one has killed is lost with it.
_LOSES_THE_FRAME = (Kind.KILL, Kind.RESET, Kind.NATS_KILL, Kind.POWER)
_VERBS = {**{str(verb): verb for verb in Verb}, "ACK_ANSWER": Verb.API_ANSWER}
_TROUBLES = (Trouble.NO_LEADER, Trouble.LATE, Trouble.TWICE)
# A function is given so long to end by itself.
GRACE_SECONDS = 300.0
LOOK_SECONDS = 0.25


class Strikes:
    """All faults of a plan."""

    def __init__(self, world: World, acted: Callable[[Seen, str], None]) -> None:
        """Args:
        acted: hears of each frame upon which the server has acted, and whose it is.
        """
        self._world = world
        self._acted = acted
        self._loop = world.loop
        self._waiting = [fault for fault in world.plan.faults if fault.frame is not None]
        self._seen: Counter[tuple[Verb, str]] = Counter()
        self._counting = False
        self._troubles: list[Trouble] = []
        # When all that strikes at a time has done so.
        self.over_at = 0.0

    def begin(self) -> None:
        """The channels are ready: from now on faults strike, and frames count."""
        self._counting = True
        for fault in self._world.plan.faults:
            if fault.frame is None:
                self._loop.call_later(fault.at or 0.0, self.strike, fault, "", "")
                self.over_at = max(self.over_at, self._loop.now + (fault.at or 0.0) + fault.seconds)

    def watch(self, seen: Seen, connection: Connection, act: Callable[[], None]) -> None:
        """See a frame at the server; a `Frames` of the model."""
        host = self._world.network.at(connection.peer[0]).name
        after = None
        verb = _VERBS.get(seen.verb)
        if self._counting and verb is not None:
            self._seen[verb, ""] += 1
            self._seen[verb, host] += 1
            due = self._due(verb, host)
            if due is not None and due.frame is not None:
                if not due.frame.before:
                    after = due
                else:
                    self.strike(due, host, _words(due.frame))
                    if due.kind in _LOSES_THE_FRAME:
                        return
        act()
        self._acted(seen, host)
        if after is not None and after.frame is not None:
            self.strike(after, host, _words(after.frame))

    def _due(self, verb: Verb, host: str) -> Fault | None:
        for fault in self._waiting:
            frame = fault.frame
            if frame is None or frame.verb is not verb:
                continue
            named = "" if fault.target in ("", NATS) else fault.target
            if named in ("", host) and self._seen[verb, named] == frame.nth:
                self._waiting.remove(fault)
                return fault
        return None

    def strike(self, fault: Fault, carrier: str, frame: str) -> None:
        """Carry out a fault.

        Args:
            carrier: the host whose connection carries the frame.
        """
        target = fault.target or carrier
        fault = replace(fault, target=target)
        now = self._loop.now
        lasts = fault.kind is not Kind.WALL
        hit = () if fault.kind in (Kind.ASIDE_FULL, Kind.STREAM_FULL, Kind.NO_LEADER, Kind.EDIT) else (target,)
        if fault.kind is Kind.CUT:
            hit = (target, fault.peer)
        strike = Strike(fault, now, now + fault.seconds if lasts else now, tuple(filter(None, hit)), frame)
        if _DEEDS[fault.kind](self, fault, strike) is not False:
            self._world.ledger.strikes.append(strike)

    # Deeds; False: there was nothing to strike.

    def _kill(self, fault: Fault, _: Strike) -> bool:
        if self._host(fault).process is None:
            return False
        self._world.kill(fault.target)
        self._later(fault.seconds, self._world.start, fault.target)
        return True

    def _term(self, fault: Fault, strike: Strike) -> bool:
        if fault.target not in self._world.programs:
            return False
        self._world.terminate(fault.target)
        self._spawn(self._see_off(fault, strike))
        return True

    async def _see_off(self, fault: Fault, strike: Strike) -> None:
        host, since = self._host(fault), self._loop.now
        leaving = host.process
        while host.process is leaving and self._loop.now < since + GRACE_SECONDS:  # noqa: ASYNC110  # nobody tells
            await asyncio.sleep(LOOK_SECONDS)
        if host.process is leaving:
            self._world.kill(fault.target)
        strike.until = self._loop.now + fault.seconds
        await asyncio.sleep(fault.seconds)
        self._world.start(fault.target)

    def _pause(self, fault: Fault, _: Strike) -> bool:
        process = self._host(fault).process
        if process is None:
            return False
        process.thaws = max(process.thaws, self._loop.now + fault.seconds)
        return True

    def _reset(self, fault: Fault, strike: Strike) -> bool:
        strike.until = self._loop.now
        process = self._host(fault).process
        ends = [end for end in process.ends if end.peer.host.name == NATS] if process is not None else []
        for end in ends:
            end.reset()
        return bool(ends)

    def _nats_kill(self, fault: Fault, _: Strike) -> bool:
        if not self._world.model.running:
            return False
        self._world.model.kill(fault.values[0] if fault.values else 0.0)
        self._world.network.kill(self._world.hosts[NATS])
        self._later(fault.seconds, self._world.start_nats)
        return True

    def _power(self, fault: Fault, _: Strike) -> bool:
        world = self._world
        if not world.model.running:
            return False
        stream, consumer, aside = (*fault.values, 0.0, 0.0, 0.0)[:3]

        def survives(thing: str) -> float:
            if "/" in thing:
                return consumer
            return aside if thing.endswith("_aside") else stream

        world.model.lose_power(survives)
        world.network.kill(world.hosts[NATS], mute=True)
        self._later(fault.seconds, world.start_nats)
        return True

    def _cut(self, fault: Fault, _: Strike) -> None:
        network, one, other = self._world.network, self._host(fault), self._world.hosts[fault.peer]
        way = int(fault.values[0]) if fault.values else 0
        directions = [(one, other)] * (way != 2) + [(other, one)] * (way != 1)
        for source, target in directions:
            network.cut(source, target)
            self._later(fault.seconds, network.heal, source, target)

    def _wall(self, fault: Fault, _: Strike) -> None:
        self._host(fault).wall = fault.values[0]

    def _slow(self, fault: Fault, _: Strike) -> None:
        slower, host = self._world.network.slower, self._host(fault)
        slower[host] = slower.get(host, 0.0) + fault.values[0]

        def over() -> None:
            slower[host] -= fault.values[0]
            if slower[host] <= 0:
                del slower[host]

        self._later(fault.seconds, over)

    def _two_scalers(self, fault: Fault, _: Strike) -> bool:
        if self._world.hosts[SECOND_OPERATOR].process is not None:
            return False
        self._world.start(SECOND_OPERATOR)
        self._later(fault.seconds, self._world.kill, SECOND_OPERATOR)
        return True

    def _full(self, fault: Fault, _: Strike) -> None:
        aside = fault.kind is Kind.ASIDE_FULL
        for stream in self._world.model.streams.values():
            if stream.name.endswith("_aside") is aside:
                stream.refusal = lambda *_: "maximum bytes exceeded"
                self._later(fault.seconds, lambda one=stream: one.__dict__.pop("refusal", None))

    def _no_leader(self, fault: Fault, _: Strike) -> None:
        # Of several at once the latest counts.
        troubles = self._troubles
        troubles.append(_TROUBLES[int(fault.values[0]) if fault.values else 0])
        self._world.model.refuse = lambda _verb, _subject: troubles[-1] if troubles else None
        self._later(fault.seconds, troubles.remove, troubles[-1])

    def _edit(self, fault: Fault, _: Strike) -> bool:
        return self._world.edit(fault.target, int(fault.values[0]) if fault.values else 0)

    def _host(self, fault: Fault) -> Host:
        return self._world.hosts[fault.target]

    def _later(self, seconds: float, callback: Callable[..., Any], *args: Any) -> None:
        """In the history's own name: who strikes is no part of any host."""
        self._loop.call_later(seconds, callback, *args, context=self._world.outside)

    def _spawn(self, work: Any) -> None:
        self._loop.create_task(work, context=self._world.outside)


def _words(frame: Frame) -> str:
    return f"{'before' if frame.before else 'after'} {frame.verb} {frame.nth}"


_DEEDS: dict[Kind, Callable[[Strikes, Fault, Strike], bool | None]] = {
    Kind.KILL: Strikes._kill,
    Kind.TERM: Strikes._term,
    Kind.PAUSE: Strikes._pause,
    Kind.RESET: Strikes._reset,
    Kind.NATS_KILL: Strikes._nats_kill,
    Kind.POWER: Strikes._power,
    Kind.CUT: Strikes._cut,
    Kind.WALL: Strikes._wall,
    Kind.SLOW: Strikes._slow,
    Kind.TWO_SCALERS: Strikes._two_scalers,
    Kind.ASIDE_FULL: Strikes._full,
    Kind.STREAM_FULL: Strikes._full,
    Kind.NO_LEADER: Strikes._no_leader,
    Kind.EDIT: Strikes._edit,
}
