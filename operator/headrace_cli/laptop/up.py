"""`headrace up`: the whole of Headrace on a laptop, with files for the API server and processes for Knative Services.

This module has the order of things: what starts after what, and what stops before what. Each thing itself has a module
of its own in this room.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

from headrace.core.errors import InvalidSpec, Unavailable
from headrace.core.installation.function_settings import ForwardSettings, ReceiveSettings
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.installation.operator_settings import WORKERS
from headrace.core.installation.reconcile_settings import ReconcileSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.io.process import environment, log
from headrace_cli.access import announcement
from headrace_cli.access.bulletin import BulletinWriter
from headrace_cli.laptop import file_channels, full_disk, metrics_page, store, strays
from headrace_cli.laptop.child import ChildProcesses, demand_free, free_port
from headrace_cli.laptop.file_channels import FileChannels
from headrace_cli.laptop.file_world import FileWorld
from headrace_cli.laptop.functions import LocalFunctions
from headrace_cli.laptop.local_process import AlwaysOn
from headrace_cli.laptop.nats_server import NatsServer
from headrace_cli.laptop.options import Listen, UpOptions
from headrace_cli.laptop.readiness import AllReady
from headrace_cli.laptop.status_file import StatusFile
from headrace_operator.channels.channel_work import ChannelWork
from headrace_operator.channels.one_channel import OneChannel
from headrace_operator.scaling.channel_scaler import ChannelScaler

# Longer than any start: a channel that is not ready by then waits for help.
READY_SECONDS = 20.0
REACH_SECONDS = 10.0
KILLED = 130
# Under `uv run` one Ctrl-C reaches us twice: from the terminal, and passed on by uv.
RELAYED_SECONDS = 0.3

_log = log.get("up")


def run(options: UpOptions) -> int:
    """Serve until SIGINT or SIGTERM; gives the exit status.

    Raises:
        Misconfigured, InvalidSpec: options or manifests are wrong; no process was started, or none is left.
            Unavailable: a process did not come up.
    """
    log.configure(options.log_level, plain=_log_format() == "plain")
    if options.listen.port == 0:
        options = replace(options, listen=Listen(options.listen.host, free_port(options.listen.host)))
    found = file_channels.load(options.files, options.listen.url)
    demand_free(options.listen.host, options.listen.port, "--listen")
    if options.metrics is not None:
        demand_free(options.metrics.host, options.metrics.port, "--metrics")
    for settings in (ReceiveSettings, ForwardSettings, ReconcileSettings):
        environment.fill(settings)
    environment.fill(NatsSettings, options.variables(os.environ))
    _log.info("headrace up", pid=os.getpid(), channels=len(found.channels))
    return asyncio.run(_supervised(options, found))


async def _supervised(options: UpOptions, found: FileChannels) -> int:
    """Serve, and translate signals: the first one ends all in order, a second one at once."""
    children = ChildProcesses()
    laptop = Laptop(options, children, found)
    serving = asyncio.create_task(laptop.serve(), name="serve")
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
    """The parts that one `headrace up` runs; made inside its loop."""

    def __init__(self, options: UpOptions, children: ChildProcesses, found: FileChannels) -> None:
        self._options = options
        self._children = children
        self._nats_url = options.nats or ""
        self._token = secrets.token_urlsafe(32)
        self._status = StatusFile(options.status_file, self._state)
        self._bulletin = BulletinWriter(None)
        self._functions = LocalFunctions(
            children,
            options.listen,
            self._token,
            idle_seconds=options.idle_seconds,
            metrics=options.metrics is not None,
            on_change=self._status.touch,
        )
        self._world = FileWorld()
        self._apply(found)
        self._work: ChannelWork | None = None
        self._readiness = AllReady(self._world.channels)
        self._readiness.on_news += [self._status.touch, self._write_bulletin]

    async def serve(self) -> None:
        """Start everything, say `ready`, and run until cancelled; then stop everything in the reverse order."""
        options = self._options
        async with AsyncExitStack() as stack:
            self._status.write()
            stack.callback(self._status.write)
            self._functions.environment = await self._nats(stack)
            self._bulletin = stack.enter_context(announcement.announce(self._nats_url, options.listen.url))
            self._write_bulletin()
            client = Client(environment.fill(NatsSettings, self._functions.environment), name="headrace-up")
            stack.push_async_callback(client.close)
            await stack.enter_async_context(self._functions.keep())
            work = self._work = self._make_work(client)
            if options.metrics is not None:
                ports, calls = self._functions.metrics_ports, self._functions.hooks.calls
                await metrics_page.serve(stack, options.metrics, ports, client, work.served, calls)
            try:
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(work.run(), name="work")
                    tasks.create_task(self._status.run(), name="status-file")
                    await self._functions.receive.open()
                    await self._readiness.settled(READY_SECONDS)
                    await strays.tell(JetStreamApi(client), work.served.streams)
                    await self._readiness.say(options.listen.url)
            except BaseExceptionGroup as group:
                # One failure ends all, and its message is for people.
                raise group.exceptions[0] from None

    def reload(self) -> None:
        """Read the files again; when they are wrong, all stays as it is."""
        try:
            read = file_channels.load(self._options.files, self._options.listen.url)
        except InvalidSpec as error:
            _log.error("the files are wrong, nothing was changed", error=str(error))
            self._bulletin.files = str(error)
        else:
            _log.info("files read again", channels=len(read.channels))
            self._bulletin.files = ""
            self._apply(read)
            if self._work is not None:
                self._work.add_all()
        self._write_bulletin()

    def _apply(self, found: FileChannels) -> None:
        for sentence in found.ignored:
            _log.warning(sentence)
        self._world.apply(found.channels)

    async def _nats(self, stack: AsyncExitStack) -> dict[str, str]:
        """Start our server or reach the named one; gives the environment of the functions."""
        # All files here have one owner, who has NATS as well.
        ours = {
            "HEADRACE_NAMES": os.environ.get("HEADRACE_NAMES", "any"),
            "HEADRACE_TOKEN": self._token,
            "HEADRACE_ADDRESS": self._options.listen.url,
            "LOG_LEVEL": self._options.log_level,
            "LOG_FORMAT": _log_format(),
        }
        inherited = self._options.variables(os.environ)
        inherited.setdefault("RECEIVE_HOSTS", f"localhost,{self._options.listen.host}")
        inherited.pop("HEADRACE_TOKEN_FILE", None)
        if self._options.nats is not None:
            await self._reach({**inherited, **ours})
            return {**inherited, **ours}
        data = stack.enter_context(store.open_store(self._options.data))
        server = NatsServer(self._children, data, inherited, self._options.nats_port)
        self._nats_url = server.url
        keeper = AlwaysOn(server.start, self._status.touch)
        stack.push_async_callback(keeper.close, "headrace up ends")
        await keeper.open()
        watching = asyncio.create_task(full_disk.watch(server.log, keeper.restart), name="full-disk")
        stack.callback(watching.cancel)
        return {**inherited, **ours, "NATS_URL": server.url}

    async def _reach(self, variables: dict[str, str]) -> None:
        """Raises Unavailable when the named server does not answer: the functions would wait for it for ever."""
        client = Client(environment.fill(NatsSettings, variables), name="headrace-up")
        try:
            await client.ready(REACH_SECONDS)
        except Unavailable as error:
            raise Unavailable(
                f"--nats {self._options.nats}: {error}; if there is a warning above, it says why"
            ) from None
        finally:
            await client.close()

    def _make_work(self, client: Client) -> ChannelWork:
        max_in_flight = environment.fill(ForwardSettings, self._functions.environment).max_in_flight
        served = ChannelScaler(client, self._functions.open_lease, max_in_flight=max_in_flight)
        served.scaler.on_change.append(self._status.touch)
        work = ChannelWork(self._world, OneChannel(self._world, self._functions.call), served, workers=WORKERS)
        work.on_end.append(self._readiness.note_end)
        return work

    def _write_bulletin(self) -> None:
        self._bulletin.write({**each.channel, "error": each.error} for each in self._readiness)

    def _state(self) -> dict[str, Any]:
        """The content of the status file."""
        return {
            "nats": announcement.without_credentials(self._nats_url),
            "listen": self._options.listen.url,
            **self._functions.rows,
            "channels": {
                each.name: {"ready": each.ready, "stream": each.status.get("stream"), "status": each.status}
                for each in self._readiness
            },
            "leases": {} if self._work is None else self._work.served.scaler.stats(),
        }


def _log_format() -> str:
    """The log format of the environment; else one for people on a terminal, and for programs elsewhere."""
    return environment.variable("LOG_FORMAT") or ("plain" if sys.stderr.isatty() else "json")
