"""Two ways in which a child process lives: it is always on, or it runs only while somebody uses it.

How a process is started is an argument. Used by `headrace_cli.laptop.functions` and by `headrace_cli.laptop.up`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from headrace.io.process import log
from headrace_cli.laptop.child import ChildProcess, Ended

RESTART_SECONDS = (0.1, 5.0)

_log = log.get("up")

Start = Callable[[str], Awaitable[ChildProcess]]
"""Starts a process for a reason."""


class AlwaysOn:
    """A process that is started again whenever it ends by itself, but not when we have killed it."""

    def __init__(self, start: Start, on_change: Callable[[], None] = lambda: None) -> None:
        self._start = start
        self._on_change = on_change
        self._child: ChildProcess | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._wanted_anew = ""
        self.starts = 0

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.alive

    async def open(self) -> None:
        """Start the process; raises Unavailable when it can't be started this first time."""
        child = await self._start("always on")
        self._keeper = asyncio.create_task(self._keep(child), name=f"keep-{child.name}")

    async def close(self, why: str) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        if self._child is not None:
            await self._child.stop(why)

    def restart(self, why: str) -> None:
        """End the process, so that it is started again; it finishes its work before."""
        if self._child is not None:
            self._wanted_anew = why
            self._child.terminate()

    async def _keep(self, child: ChildProcess) -> None:
        pause = RESTART_SECONDS[0]
        while True:
            self._child = child
            self.starts += 1
            self._on_change()
            status = await child.wait()
            if child.killed:
                return
            why, self._wanted_anew = self._wanted_anew, ""
            if not why:
                _log.warning(f"{child.name} ended by itself, starting it again", pid=child.pid, status=status)
            self._on_change()
            while True:
                await asyncio.sleep(pause)
                try:
                    child = await self._start(why or "it had ended")
                    break
                except Ended:
                    return
                except Exception as error:  # noqa: BLE001  # nobody else would start it again
                    pause = min(RESTART_SECONDS[1], pause * 2)
                    _log.warning("start failed, trying again", error=str(error) or repr(error))
            pause = RESTART_SECONDS[0]


class OnDemand:
    """A process that runs while it is used, and for an idle window after that.

    Attributes:
        starts, stops, last_start_ms: for the status file.
    """

    def __init__(self, start: Start, idle_seconds: float, on_change: Callable[[], None] = lambda: None) -> None:
        self._start = start
        self._idle_seconds = idle_seconds
        self._on_change = on_change
        self._child: ChildProcess | None = None
        self._users = 0
        self._starting = asyncio.Lock()
        self._idle: asyncio.TimerHandle | None = None
        self._stopping: set[asyncio.Task[None]] = set()
        self.starts = 0
        self.stops = 0
        self.last_start_ms = 0

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.alive

    @property
    def row(self) -> dict[str, Any]:
        """The state as JSON values."""
        return {
            "running": self.running,
            "starts": self.starts,
            "stops": self.stops,
            "last_start_ms": self.last_start_ms,
        }

    def let_go(self, url: str) -> None:
        """Another part has told the process at `url` to end: later callers get a new one."""
        child = self._child
        if child is None or child.url != url:
            return
        self._child = None
        _log.warning(f"{child.name} was told to end by somebody else", pid=child.pid)
        self._attend(self._outlive(child))

    @asynccontextmanager
    async def use(self, why: str) -> AsyncIterator[str]:
        """The URL of the process, which is started if need be and stays for as long as the block is open.

        Raises:
            Unavailable: the process could not be started.
        """
        self._users += 1
        self._stay()
        try:
            yield (await self._ready(why)).url
        finally:
            self._users -= 1
            if self._users == 0:
                self._stay()
                self._idle = asyncio.get_running_loop().call_later(self._idle_seconds, self._retire)

    async def close(self, why: str) -> None:
        """Stop the process now; it finishes its work before."""
        self._stay()
        child, self._child = self._child, None
        if child is not None and child.alive:
            await self._stop(child, why)
        await asyncio.gather(*self._stopping)

    async def _ready(self, why: str) -> ChildProcess:
        async with self._starting:
            child = self._child
            if child is not None and child.alive:
                return child
            if child is not None:
                _log.warning(f"{child.name} had ended by itself", pid=child.pid, status=await child.wait())
                self.stops += 1
            self._child = None
            child = self._child = await self._start(why)
            self.starts += 1
            self.last_start_ms = child.start_ms
            self._on_change()
            return child

    def _stay(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _retire(self) -> None:
        """Stop a process that nobody needs; callers that come while it ends get a new one at once."""
        child, self._child = self._child, None
        if child is None:
            return
        self._attend(self._stop(child, f"idle for {self._idle_seconds:g} s"))

    def _attend(self, end: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(end)
        self._stopping.add(task)
        task.add_done_callback(self._stopping.discard)

    async def _outlive(self, child: ChildProcess) -> None:
        await child.wait()
        self.stops += 1
        self._on_change()

    async def _stop(self, child: ChildProcess, why: str) -> None:
        await child.stop(why)
        self.stops += 1
        self._on_change()
