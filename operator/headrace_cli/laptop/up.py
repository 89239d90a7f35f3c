"""`headrace up`: the whole of Headrace on a laptop, with files for the API server and processes for Knative Services.

The order of things is here: what starts after what, what stops before what. Each thing itself is elsewhere.
`receive` is always on; `reconcile` and `forward` run while they are called, and for an idle window after that.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import sys
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from headrace.core.channel.hook import HookRequest, HookResponse
from headrace.core.delivery.lease import Lease, LeaseAnswer
from headrace.core.errors import InvalidSpec, Unavailable
from headrace.core.installation.function_settings import ForwardSettings, ReceiveSettings
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.nats.engine import Engine
from headrace.io.process import environment, log
from headrace_cli.access import announcement
from headrace_cli.access.bulletin import BulletinWriter
from headrace_cli.laptop import full_disk, metrics_page, ready_line, store
from headrace_cli.laptop.channels import Channel, Channels, Parent, tell_of_strays
from headrace_cli.laptop.child import Child, Children, answers_200, demand_free, free_port
from headrace_cli.laptop.local_process import AlwaysOn, OnDemand
from headrace_cli.laptop.nats_server import NatsServer
from headrace_cli.laptop.options import Listen, UpOptions
from headrace_cli.laptop.status_file import StatusFile
from headrace_cli.manifests import manifests
from headrace_operator.channels.hook_client import HookClient
from headrace_operator.scaling.lease_client import LeaseClient, Meanwhile
from headrace_operator.scaling.scaler import Scaler

# What a function may still have to do when it is asked to stop.
FINISHES = {
    "receive": "requests that are not answered yet",
    "reconcile": "calls that are not answered yet",
    "forward": "deliveries that subscribers have not answered yet",
}
# Longer than any start; what is not ready by then waits for something that does not come by itself.
READY_SECONDS = 20.0
REACH_SECONDS = 10.0
LOOPBACK = "127.0.0.1"
KILLED = 130
# One Ctrl-C reaches us twice under `uv run`: from the terminal, and passed on by uv.
RELAYED_SECONDS = 0.3

_log = log.get("up")


def run(options: UpOptions) -> int:
    """Serve until SIGINT or SIGTERM; the exit status.

    Raises:
        Misconfigured, InvalidSpec: options or manifests are wrong; nothing was started, or nothing is left
        of it. Unavailable: something did not come up.
    """
    log.configure(options.log_level, plain=_log_format() == "plain")
    if options.listen.port == 0:
        options = replace(options, listen=Listen(options.listen.host, free_port(options.listen.host)))
    found = manifests.numbered(manifests.read(options.files, options.listen.url), None, int(time.time() * 1000))
    demand_free(options.listen.host, options.listen.port, "--listen")
    if options.metrics is not None:
        demand_free(options.metrics.host, options.metrics.port, "--metrics")
    for settings in (ReceiveSettings, ForwardSettings, ReconcileSettings):
        environment.read(settings)
    environment.read(NatsSettings, options.variables(os.environ))
    _log.info("headrace up", pid=os.getpid(), channels=len(found.channels))
    return asyncio.run(_supervised(options, found))


async def _supervised(options: UpOptions, found: manifests.Manifests) -> int:
    """Serve, and translate signals: the first ends it in order, a second one at once."""
    children = Children()
    laptop = Laptop(options, children)
    serving = asyncio.create_task(laptop.serve(found), name="serve")
    signals: list[str] = []
    loop = asyncio.get_running_loop()
    last = 0.0

    def on_signal(name: str) -> None:
        nonlocal last
        last, before = loop.time(), last
        if signals and last - before < RELAYED_SECONDS:
            return
        signals.append(name)
        if len(signals) > 1:
            _log.warning("killing what is left")
            children.kill()
            return
        _log.info("stopping: deliveries in progress are finished, once more ends them", signal=name)
        serving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number.name)
    loop.add_signal_handler(signal.SIGHUP, laptop.reload)
    try:
        await serving
    except asyncio.CancelledError:
        if not signals:
            raise
    finally:
        children.kill()
    return KILLED if len(signals) > 1 else 0


class Laptop:
    """Everything that one `headrace up` runs."""

    def __init__(self, options: UpOptions, children: Children) -> None:
        self._options = options
        self._children = children
        self._token = secrets.token_urlsafe(32)
        self._manifests: manifests.Manifests | None = None
        self._reload_wanted = False
        self._environment: dict[str, str] = {}
        self._nats_url = options.nats or ""
        self._status = StatusFile(options.status_file, self._state)
        idle, touch = options.idle_seconds, self._status.touch
        self._receive = AlwaysOn(self._start_receive, touch)
        self._reconcile = OnDemand(lambda why: self._start("reconcile", why), idle, touch)
        self._forward = OnDemand(lambda why: self._start("forward", why), idle, touch)
        self._hooks = HookClient(self._token)
        self._leases = LeaseClient(self._token)
        self._channels = Channels(self._sync, self._finalize)
        self._channels.on_told.append(lambda: self._bulletin.write(each.told for each in self._channels))
        self._bulletin = BulletinWriter(None)
        self._scaler: Scaler | None = None
        self._ports = metrics_page.Ports(wanted=options.metrics is not None)

    async def serve(self, found: manifests.Manifests) -> None:
        """Start everything, say `ready`, and run until cancelled; then stop everything in the reverse order."""
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._hooks)
            await stack.enter_async_context(self._leases)
            self._status.write()
            stack.callback(self._status.write)
            self._environment = await self._nats(stack)
            self._bulletin = stack.enter_context(announcement.announce(self._nats_url, self._options.listen.url))
            client = Engine(environment.read(NatsSettings, self._environment), name="headrace-up")
            stack.push_async_callback(client.close)
            stack.push_async_callback(self._reconcile.close, "headrace up ends")
            stack.push_async_callback(self._receive.close, "headrace up ends")
            stack.push_async_callback(self._forward.close, "headrace up ends")
            scaler = self._scaler = self._make_scaler(client)
            if (at := self._options.metrics) is not None:
                await metrics_page.serve(
                    stack, at, self._ports, client, scaler, self._hooks, lambda: self._channels.streams
                )
            stack.push_async_callback(self._channels.close)
            self._apply(found)
            if self._reload_wanted:
                self.reload()
            await self._receive.open()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(scaler.run(), name="scaler")
                tasks.create_task(self._status.run(), name="status-file")
                await self._channels.settled(READY_SECONDS)
                await tell_of_strays(JetStreamApi(client), self._channels.streams)
                await ready_line.say(self._channels, self._options.listen.url)

    def reload(self) -> None:
        """Read the files again; when they are wrong, all stays as it is."""
        if self._manifests is None:
            # Still starting, with what has been read a moment ago.
            self._reload_wanted = True
            return
        try:
            read = manifests.read(self._options.files, self._options.listen.url)
        except InvalidSpec as error:
            _log.error("the files are wrong, nothing was changed", error=str(error))
            self._bulletin.files = str(error)
            self._channels.tell()
            return
        _log.info("files read again", channels=len(read.channels))
        self._apply(manifests.numbered(read, self._manifests, int(time.time() * 1000)))

    def _apply(self, found: manifests.Manifests) -> None:
        for sentence in found.ignored:
            _log.warning(sentence)
        self._manifests, self._bulletin.files = found, ""
        self._channels.apply(found)
        self._serve_streams()

    async def _nats(self, stack: AsyncExitStack) -> dict[str, str]:
        """A server, ours or the one named; the environment of the functions."""
        ours = {
            "HEADRACE_TOKEN": self._token,
            "HEADRACE_ADDRESS": self._options.listen.url,
            "LOG_LEVEL": self._options.log_level,
            "LOG_FORMAT": _log_format(),
        }
        inherited = {name: value for name, value in os.environ.items() if name != "HEADRACE_TOKEN_FILE"}
        if self._options.nats is not None:
            ours["NATS_URL"] = self._options.nats
            await self._reach({**inherited, **ours})
            return {**inherited, **ours}
        inherited = self._options.variables(inherited)
        data = stack.enter_context(store.opened(self._options.data))
        server = NatsServer(self._children, data, inherited, self._options.nats_port)
        self._nats_url = server.url
        keeper = AlwaysOn(server.start, self._status.touch)
        stack.push_async_callback(keeper.close, "headrace up ends")
        await keeper.open()
        await stack.enter_async_context(full_disk.watched(server.log, keeper.restart))
        return {**inherited, **ours, "NATS_URL": server.url}

    async def _reach(self, variables: dict[str, str]) -> None:
        """Raises Unavailable when the server that was named is not there: the functions would wait for it for ever."""
        client = Engine(environment.read(NatsSettings, variables), name="headrace-up")
        try:
            await client.ready(REACH_SECONDS)
        except Unavailable as error:
            raise Unavailable(
                f"--nats {self._options.nats}: {error}; if there is a warning above, it says why"
            ) from None
        finally:
            await client.close()

    def _make_scaler(self, client: Client) -> Scaler:
        settings = environment.read(ForwardSettings, self._environment)
        scaler = Scaler(client, JetStreamApi(client), self._lease, max_in_flight=settings.max_in_flight)
        scaler.on_change.append(self._status.touch)
        scaler.on_missing.append(self._channels.repair)
        scaler.on_trouble.append(self._channels.look_again)
        self._channels.on_synced.append(self._on_synced)
        return scaler

    async def _start_receive(self, why: str) -> Child:
        return await self._start("receive", why, self._options.listen)

    async def _start(self, target: str, why: str, at: Listen | None = None) -> Child:
        at = at or Listen(LOOPBACK, free_port())
        variables = {"FUNCTION_TARGET": target, "HOST": at.host, "PORT": str(at.port), **self._ports.variables(target)}
        child = await self._children.start(
            target,
            [sys.executable, "-m", "headrace.host"],
            {"RECEIVE_WORKERS": "1", **self._environment, **variables},  # unless told: a laptop has more to do
            at.url,
            lambda: answers_200(at.local, at.port, "/health/readiness"),
            why=why,
        )
        child.finishes = FINISHES[target]
        return child

    async def _lease(self, lease: Lease, meanwhile: Meanwhile) -> LeaseAnswer:
        async with self._forward.use(f"lease on {lease.stream}/{lease.consumer}") as url:

            def let_go() -> None:
                self._forward.let_go(url)
                meanwhile.ending()

            return await self._leases.open(url, lease, meanwhile._replace(ending=let_go))

    async def _sync(self, parent: Parent) -> HookResponse:
        async with self._reconcile.use(f"sync of {parent['metadata']['name']}") as url:
            return await self._hooks.call(url, HookRequest(dict(parent)))

    async def _finalize(self, parent: Parent) -> HookResponse:
        async with self._reconcile.use(f"finalize of {parent['metadata']['name']}") as url:
            return await self._hooks.call(url, HookRequest(dict(parent), finalizing=True))

    def _on_synced(self, channel: Channel) -> None:
        self._serve_streams()
        if self._scaler is not None and channel.stream:
            self._scaler.look_soon(channel.stream)

    def _serve_streams(self) -> None:
        if self._scaler is not None:
            self._scaler.serve(self._channels.streams)
        self._status.touch()

    def _state(self) -> dict[str, Any]:
        """What the status file says."""
        return {
            "nats": re.sub(r"//[^/@,]*@", "//", self._nats_url),
            "listen": self._options.listen.url,
            "receive": {"running": self._receive.running, "starts": self._receive.starts},
            "reconcile": self._reconcile.row,
            "forward": self._forward.row,
            "channels": {
                channel.name: {"ready": channel.ready, "stream": channel.stream, "status": channel.status}
                for channel in self._channels
            },
            "leases": self._scaler.stats() if self._scaler is not None else {},
        }


def _log_format() -> str:
    """What the environment says; else for people on a terminal, and for programs elsewhere."""
    return environment.variable("LOG_FORMAT") or ("plain" if sys.stderr.isatty() else "json")
