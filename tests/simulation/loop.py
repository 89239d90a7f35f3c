"""An event loop whose time is virtual and whose chances come from a seed; everything runs on it, host by host.

A callback takes no time. When nothing is ready, the clock goes to the next timer. A callback belongs to the process in
whose context it was planned. That of a dead process never runs: neither `finally` nor `except`, as after SIGKILL. That
of a frozen one runs when it thaws.

The loop knows neither sockets nor the product; `tests.simulation.network` gives it connections.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
import sys
import weakref
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

# A history has some thousands; one that goes round without time would never end.
MOST_CALLBACKS = 2_000_000
LEAST_WAIT = 1e-6


class RunsAway(Exception):
    """The history does not come to its end."""


class Process:
    """One life of a host's program; another one begins with its next start.

    Attributes:
        dead: nothing of it runs any more.
        program: its main task.
        thaws: until then it stands still.
        tasks: those that are not over; after its death they are kept, or Python would clean up after them.
    """

    __slots__ = ("dead", "ends", "host", "kept", "listeners", "program", "tasks", "thaws")

    def __init__(self, host: Any) -> None:
        self.host = host
        self.dead = False
        self.program: asyncio.Task[Any] | None = None
        self.thaws = 0.0
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.kept: list[asyncio.Task[Any]] = []
        # What the network keeps for it: its listeners by port, and its connections' ends.
        self.listeners: dict[int, Any] = {}
        self.ends: dict[Any, None] = {}


current: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process in whose context the program runs; None: the history's own."""


class SimulatedTask(asyncio.Task):
    """A task whose place in a set follows from its age, and not from its address, which no seed decides."""

    def __init__(self, coro: Any, *, loop: SimulatedLoop, **named: Any) -> None:
        # The first step is planned, and the task put into sets, before the base class is done.
        self._number = loop.next_number()
        super().__init__(coro, loop=loop, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class Handle:
    """A planned callback; of a timer, `when` is its time."""

    __slots__ = ("_when", "arguments", "callback", "cancelled_", "context", "process")

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        context: Context,
        process: Process | None,
        when: float,
    ) -> None:
        self.callback: Callable[..., object] | None = callback
        self.arguments = arguments
        self.context = context
        self.process = process
        self.cancelled_ = False
        self._when = when

    def cancel(self) -> None:
        self.cancelled_ = True
        self.callback, self.arguments = None, ()

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self._when


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one history.

    Attributes:
        now: seconds since the history began; the same for every host.
        chance: latencies, and whatever else is drawn while the history runs.
        callbacks: how many have run.
        network: connects; set by `tests.simulation.network`.
    """

    def __init__(self, seed: int, *, shuffle: bool = False) -> None:
        self.now = 0.0
        self.chance = random.Random(f"{seed}:loop")
        self.callbacks = 0
        self.network: Any = None
        self.on_trouble: Callable[[dict[str, Any]], None] = lambda _: None
        self._pick = random.Random(f"{seed}:pick").randrange if shuffle else None
        self._ready: Any = [] if shuffle else deque()
        self._timers: list[tuple[float, int, Handle]] = []
        self.next_number = itertools.count().__next__
        self._closed = False

    # Running.

    def run(self, history: Coroutine[Any, Any, Any]) -> Any:
        """Run until this coroutine ends, and give its result."""
        hooks = sys.get_asyncgen_hooks()
        before = events._get_running_loop()
        events._set_running_loop(self)
        sys.set_asyncgen_hooks(finalizer=lambda one: self.call_soon(self._close_generator, one) and None)
        try:
            task = self.create_task(history)
            self._run(task.done)
            return task.result()
        finally:
            sys.set_asyncgen_hooks(*hooks)
            events._set_running_loop(before)

    def block(self, done: Callable[[], bool], seconds: float) -> bool:
        """Let all others run while a program blocks, until `done` or for so many seconds; was it done in time?

        The program must be no coroutine: a task can't wait inside of another.
        """
        until = self.now + max(seconds, LEAST_WAIT)
        self.call_at(until, _nothing)
        self._run(lambda: self.now >= until or done())
        return done()

    def _run(self, until: Callable[[], bool]) -> None:
        ready, pick = self._ready, self._pick
        while not until():
            if not ready:
                self._wait(ready)
            if pick is None:
                handle = ready.popleft()
            else:
                if len(ready) > 1:
                    chosen = pick(len(ready))
                    ready[chosen], ready[-1] = ready[-1], ready[chosen]
                handle = ready.pop()
            callback, process = handle.callback, handle.process
            if callback is None:
                continue
            if process is not None:
                if process.dead:
                    continue
                if process.thaws > self.now:
                    self._put(process.thaws, handle)
                    continue
            self.callbacks += 1
            try:
                handle.context.run(callback, *handle.arguments)
            except Exception as error:  # noqa: BLE001  # as in asyncio: it is told, and the loop goes on
                self.call_exception_handler({"message": f"callback {callback!r} failed", "exception": error})

    def _wait(self, ready: Any) -> None:
        """Go to the time of the next timer."""
        timers = self._timers
        if self.callbacks > MOST_CALLBACKS:
            raise RunsAway(f"{self.callbacks} callbacks until {self.now:.3f} s")
        while True:
            if not timers:
                raise RunsAway(f"nothing is planned any more at {self.now:.3f} s")
            when, _, handle = heapq.heappop(timers)
            if handle.callback is not None:
                break
        self.now = max(self.now, when)
        ready.append(handle)
        while timers and timers[0][0] <= self.now:
            handle = heapq.heappop(timers)[2]
            if handle.callback is not None:
                ready.append(handle)

    def _put(self, when: float, handle: Handle) -> None:
        heapq.heappush(self._timers, (when, self.next_number(), handle))

    def _close_generator(self, generator: Any) -> None:
        self.create_task(generator.aclose())

    # Planning.

    def time(self) -> float:
        return self.now

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is None:
            context = copy_context()
        handle = Handle(callback, args, context, context.get(current), 0.0)
        if not self._closed:
            self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        if context is None:
            context = copy_context()
        # To plan takes time, too: rounded, a wait for the rest of a time would never bring it on.
        when = max(when, self.now + LEAST_WAIT)
        handle = Handle(callback, args, context, context.get(current), when)
        if not self._closed:
            self._put(when, handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = SimulatedTask(coro, loop=self, name=name, context=context)
        process = current.get() if context is None else context.get(current)
        if process is not None:
            process.tasks.add(task)
        return task

    def run_in_executor(self, _executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """At once, and on the loop: a thread takes no time here."""
        done = self.create_future()

        def run() -> None:
            if done.cancelled():
                return
            try:
                done.set_result(func(*args))
            except Exception as error:  # noqa: BLE001  # it belongs to whoever awaits the result
                done.set_exception(error)

        self.call_soon(run)
        return done

    # Processes.

    def start(self, process: Process, work: Coroutine[Any, Any, Any], name: str | None = None) -> asyncio.Task[Any]:
        """Run work as a part of a process."""
        context = copy_context()
        context.run(current.set, process)
        return self.create_task(work, name=name, context=context)

    def call_in(self, process: Process, callback: Callable[..., object], *args: Any) -> Any:
        """Call something as a part of a process, soon."""
        context = copy_context()
        context.run(current.set, process)
        return self.call_soon(callback, *args, context=context)

    def bury(self, process: Process) -> None:
        """End a process as SIGKILL does: nothing of it runs any more, no clean-up either."""
        process.dead = True
        process.kept = [task for task in process.tasks if not task.done()]
        for task in process.kept:
            task._log_destroy_pending = False

    # The rest of a loop.

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **named: Any) -> Any:
        return await self.network.connect(protocol_factory, host, port, named)

    async def create_server(self, protocol_factory: Any, _host: Any = None, port: Any = None, **_: Any) -> Any:
        return self.network.listen(protocol_factory, port)

    async def sock_connect(self, sock: Any, address: Any) -> None:
        self.network.aim(sock, address)

    async def getaddrinfo(self, host: Any, _port: Any, **_: Any) -> Any:
        raise OSError(f"{host!r}: names are not looked up here, hosts have addresses")

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            self.on_trouble(context)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        self._closed = True
        self._ready.clear()
        self._timers.clear()

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """Part of what asyncio expects of a loop."""

    # What is not here raises NotImplementedError, as the base class has it: add_reader, signals, subprocesses.


def _nothing() -> None:
    """It is time."""
