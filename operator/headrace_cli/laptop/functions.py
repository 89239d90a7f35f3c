"""The functions of one `headrace up` as processes: `receive` all the time, `reconcile` and `forward` while called.

They stand in for Knative Services: a call starts the process that it needs, and that process ends when nobody has
called it for a while. This module knows how a function is started and called, and never when.
`headrace_cli.laptop.up` makes it.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace_cli.laptop.child import LOOPBACK, ChildProcess, ChildProcesses, answers_200, free_port
from headrace_cli.laptop.local_process import AlwaysOn, OnDemand
from headrace_cli.laptop.options import Listen
from headrace_operator.channels.hook_client import HookClient
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile

# The work that a function may still have to end when it is asked to stop.
FINISHES = {
    "receive": "requests that are not answered yet",
    "reconcile": "calls that are not answered yet",
    "forward": "deliveries that subscribers have not answered yet",
}


class LocalFunctions:
    """All three functions; made inside the loop that uses them.

    Attributes:
        environment: the variables of each process that is started.
        metrics_ports: the metrics ports of the functions that were started, by their names.
        hooks: calls `reconcile`.
    """

    def __init__(
        self,
        children: ChildProcesses,
        listen: Listen,
        token: str,
        *,
        idle_seconds: float,
        metrics: bool,
        on_change: Callable[[], None],
    ) -> None:
        """Args:
        listen: the address of `receive`; the others are on any free port of loopback.
        metrics: do the functions serve metrics?
        """
        self.environment: Mapping[str, str] = {}
        self.metrics_ports: dict[str, int] = {}
        self.hooks = HookClient(token)
        self.receive = AlwaysOn(lambda why: self._start("receive", why, listen), on_change)
        self._reconcile = OnDemand(lambda why: self._start("reconcile", why), idle_seconds, on_change)
        self._forward = OnDemand(lambda why: self._start("forward", why), idle_seconds, on_change)
        self._leases = LeaseClient(token)
        self._children = children
        self._metrics = metrics

    @asynccontextmanager
    async def keep(self) -> AsyncIterator[None]:
        """Keep the functions for as long as the block lasts; then they finish their work and end."""
        async with self.hooks, self._leases:
            try:
                yield
            finally:
                for each in (self._forward, self.receive, self._reconcile):
                    await each.close("headrace up ends")

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        """The state of each function as JSON values, by its name."""
        receive = {"running": self.receive.running, "starts": self.receive.starts}
        return {"receive": receive, "reconcile": self._reconcile.row, "forward": self._forward.row}

    async def call(self, request: HookRequest, related: bytes) -> HookResponse:
        """Call `reconcile`. Raises as `HookClient.call`; Unavailable also when it can't be started."""
        verb = "finalize" if request.finalizing else "sync"
        async with self._reconcile.use(f"{verb} of {request.parent['metadata']['name']}") as url:
            return await self.hooks.call(url, request, related)

    async def open_lease(self, _url: str, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        """Call the local `forward`, the only one. Raises as `LeaseClient.open`; Unavailable also if it can't start."""
        async with self._forward.use(f"lease on {lease.stream}/{lease.consumer}") as url:

            def let_go() -> None:
                self._forward.let_go(url)
                meanwhile.ending()

            return await self._leases.open(url, lease, meanwhile._replace(ending=let_go))

    async def _start(self, target: str, why: str, at: Listen | None = None) -> ChildProcess:
        at = at or Listen(LOOPBACK, free_port())
        variables = {**self.environment, "METRICS_PORT": ""}
        variables |= {"FUNCTION_TARGET": target, "HOST": at.host, "PORT": str(at.port)}
        if self._metrics:
            # Three on one host can't have the same port.
            port = self.metrics_ports[target] = free_port()
            variables |= {"METRICS_PORT": str(port), "METRICS_HOST": LOOPBACK}
        child = await self._children.start(
            target,
            [sys.executable, "-m", "headrace.host"],
            variables,
            at.url,
            lambda: answers_200(at.local, at.port, "/health/readiness"),
            why=why,
        )
        child.finishes = FINISHES[target]
        return child
