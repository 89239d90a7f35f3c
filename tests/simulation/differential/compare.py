"""Runs lanes on both servers at once, step by step, and says where they part.

What takes time is waited for, so that a step never races with a timer: before each command nothing may be due soon.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

from tests.simulation.differential.commands import SECOND, Command, Consume, Lane, Lapse
from tests.simulation.differential.side import Side
from tests.simulation.model import JetStreamModel
from tests.support.nats.nats_server import NatsServer

# Nothing may be due within so long when a command begins: more than it takes both sides to carry it out.
AHEAD_SECONDS = 0.4
# So long after it was due a thing has happened on both sides.
AFTER_SECONDS = 0.15
SETTLED_SECONDS = 2.0
# Longer than the server takes to write a consumer's file.
WRITTEN_SECONDS = 0.3


class Difference(Exception):
    """Where two servers part."""

    def __init__(self, history: list[str], real: object, model: object) -> None:
        """Args:
        history: the lane's steps, that which parts them last.
        """
        super().__init__("\n".join((*history, *_parts("", real, model))))


class Comparison:
    """One real server and one model, for as many lanes as somebody wants.

    Attributes:
        steps: commands that were compared.
    """

    _serial = 0

    def __init__(self, real: NatsServer) -> None:
        self._real = real
        self.steps = 0

    async def run(self, lanes: list[Lane]) -> None:
        """Raises:
        Difference: the first.
        """
        model = JetStreamModel()
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(model.factory, "127.0.0.1", 0)
        url = f"nats://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        pairs = [_Pair(self._pair(url), model, lane) for lane in lanes]
        try:
            async with asyncio.TaskGroup() as group:
                for pair in pairs:
                    group.create_task(pair.begin())
            for phase in range(max(len(lane.phases) for lane in lanes)):
                if phase:
                    await self._kill(model, pairs)
                async with asyncio.TaskGroup() as group:
                    for pair in pairs:
                        group.create_task(pair.phase(phase))
        except* Difference as found:
            raise found.exceptions[0] from None  # type: ignore[misc]  # a group of none else
        finally:
            self.steps += sum(pair.steps for pair in pairs)
            await asyncio.gather(*(pair.end() for pair in pairs))
            listener.close()
            model.kill()

    def _pair(self, url: str) -> tuple[Side, Side]:
        Comparison._serial += 1
        name = f"L{Comparison._serial}"
        return Side(self._real.url, name), Side(url, name)

    async def _kill(self, model: JetStreamModel, pairs: list[_Pair]) -> None:
        await asyncio.sleep(WRITTEN_SECONDS)
        self._real.kill()
        model.kill()
        model.start()
        self._real.start()
        await asyncio.gather(*(side.ready() for pair in pairs for side in pair.sides))
        await asyncio.gather(*(pair.came_back() for pair in pairs))


class _Pair:
    """One lane on both."""

    def __init__(self, sides: tuple[Side, Side], model: JetStreamModel, lane: Lane) -> None:
        self.sides = sides
        self.steps = 0
        self._model = model
        self._lane = lane
        self._history = [str(lane.stream), str(lane.consumer)]

    async def begin(self) -> None:
        real, model = await asyncio.gather(*(side.begin(self._lane) for side in self.sides))
        await self._agree(real, model)

    async def phase(self, number: int) -> None:
        for command in self._lane.phases[number] if number < len(self._lane.phases) else []:
            await self.step(command)

    async def step(self, command: Command) -> None:
        await self._let_pass(SECOND * 3600 if isinstance(command, Lapse) else 0)
        command = self._possible(command)
        self._history.append(f"{self.steps} {command}")
        real, model = await asyncio.gather(*(side.carry_out(command) for side in self.sides))
        self.steps += 1
        await self._agree(real, model)

    async def came_back(self) -> None:
        self._history.append("the servers were killed and started")
        stream = self._model.streams.get(self.sides[1].stream)
        if stream is not None and any(consumer.pending for consumer in stream.consumers.values()):
            # The server looks after what its consumers hold within a second and a half.
            await asyncio.sleep(1.8)
            await self._let_pass(0)
        await self._agree(None, None)

    async def end(self) -> None:
        await asyncio.gather(*(side.end() for side in self.sides))

    async def _agree(self, real: object, model: object) -> None:
        """Compare two answers, and then all that can be seen, once it has come to rest."""
        if real != model:
            raise Difference(self._history, real, model)
        deadline, pause = time.monotonic() + SETTLED_SECONDS, 0.002
        while True:
            seen, shown = await asyncio.gather(*(side.snapshot() for side in self.sides))
            if seen == shown:
                return
            if time.monotonic() > deadline:
                raise Difference(self._history, seen, shown)
            await asyncio.sleep(pause)
            pause = min(0.1, pause * 2)

    async def _let_pass(self, longest: int) -> None:
        """Wait for all that is due soon; or, for a lapse, for all that ends within some seconds."""
        horizon = AHEAD_SECONDS if not longest else 3.0
        waited = False
        for _ in range(8):
            due = [one for one in self._dues() if one <= horizon]
            if not due:
                break
            waited = True
            self._history.append("what was due has happened")
            await asyncio.sleep(max(0.0, max(due)) + AFTER_SECONDS)
        if waited:
            await self._agree(None, None)

    def _possible(self, command: Command) -> Command:
        """The command, or one in its place that the model knows: filters are widened, and not taken away."""
        stream = self._model.streams.get(self.sides[1].stream)
        if not isinstance(command, Consume) or stream is None:
            return command
        existing, config = stream.consumers.get(f"C{command.consumer}"), command.config
        if existing is None or not existing.filters or config["filter_subject"] or config.get("filter_subjects"):
            return command
        return replace(command, config={**config, "filter_subject": ">"})

    def _dues(self) -> list[float]:
        """Seconds until each timed thing of the lane, as the model has it."""
        stream = self._model.streams.get(self.sides[1].stream)
        if stream is None:
            return []
        now, clock = self._model.now(), asyncio.get_running_loop().time()
        dues = stream.next_ends()
        for consumer in stream.consumers.values():
            if consumer.acks:
                wait, queue = consumer.config["ack_wait"], consumer.unsettled.queue
                pending = consumer.pending.items()
                dues += [(one.time + wait - now) / SECOND for key, one in pending if key not in queue]
            for pull in consumer.pulls.waiting:
                dues += [pull.until - clock] if pull.until is not None else []
                # The first beat is waited for, and those after it are like it.
                dues += [pull.next_beat - clock] if pull.beat and not pull.beaten else []
            if (pinned := consumer.pulls.pin.until) is not None:
                dues.append(pinned - clock)
        return dues


def _parts(path: str, real: Any, model: Any) -> list[str]:
    """The places where two values differ."""
    if isinstance(real, dict) and isinstance(model, dict):
        keys = dict.fromkeys([*real, *model])
        return [line for key in keys for line in _parts(f"{path}.{key}", real.get(key), model.get(key))]
    if isinstance(real, list) and isinstance(model, list) and len(real) == len(model):
        pairs = enumerate(zip(real, model, strict=True))
        return [line for index, (a, b) in pairs for line in _parts(f"{path}[{index}]", a, b)]
    return [] if real == model else [f"  {path}: real {real!r}", f"  {path}: model {model!r}"]
