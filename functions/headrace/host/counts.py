"""The counts of every function: requests by status, the steps of its start, its connection to NATS."""

from __future__ import annotations

from headrace.core import metric_families as families
from headrace.core.metrics import Snapshot
from headrace.io import web
from headrace.io.process import clock, usage
from headrace.server.crowd import Crowd


class Counts:
    """The counts of one application."""

    def __init__(self, function: str, crowd: Crowd) -> None:
        self._function = function
        self._crowd = crowd
        self._codes: dict[int, int] = {}
        self._steps: dict[str, float] = {}
        self._disconnects = 0
        usage.began()

    def step(self, until: str) -> None:
        """Note the end of a step of the start; only the first time counts."""
        if until not in self._steps:
            self._steps[until] = usage.age()

    def answered(self, code: int) -> None:
        """Count the answer to a request that is no probe."""
        self._codes[code] = self._codes.get(code, 0) + 1
        self.step("answer")

    def refused(self, code: int) -> None:
        """Count a request that the server has refused by itself."""
        self._codes[code] = self._codes.get(code, 0) + 1

    def disconnected(self) -> None:
        self._disconnects += 1

    def snapshot(self, *, connected: bool) -> Snapshot:
        function = (self._function,)
        memory = usage.resident_bytes()
        return {
            families.REQUESTS.name: {(*function, str(code)): count for code, count in self._codes.items()},
            families.STARTED.name: {(*function, until): round(took, 3) for until, took in self._steps.items()},
            families.WORKERS.name: {function: 1},
            families.NATS_CONNECTED.name: {function: int(connected)},
            families.NATS_DISCONNECTS.name: {function: self._disconnects},
            families.CONNECTIONS.name: {function: len(self._crowd)},
            families.CLOSED.name: {(*function, reason): count for reason, count in self._crowd.closed.items()},
            families.HELD_BYTES.name: {function: self._crowd.waiting.size},
            families.CPU_SECONDS.name: {(): round(usage.cpu_seconds(), 3)},
            families.MEMORY_BYTES.name: {} if memory is None else {(): memory},
            families.START_TIME.name: {(): round(clock.wall() - usage.age(), 3)},
        }


class Watched:
    """A `send` that remembers the answer's status; 0 before there is an answer."""

    __slots__ = ("_send", "status")

    def __init__(self, send: web.Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: web.Scope) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
