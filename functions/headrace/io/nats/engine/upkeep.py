"""Keeps one link alive for ever: dials, dials again, leaves a server that shuts down or knows nobody, follows settings.

It logs when the connection is lost and when it is restored, and no single attempt. It does not know what is sent; it
tells its owner, the engine, when links come and go.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

from headrace.core.errors import HeadraceError, Misconfigured, NotLetIn, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Info, Server, ServerError, ServerPool, pauses, read_servers
from headrace.io.nats.access import Entry, NatsAccess
from headrace.io.nats.contract import Closed
from headrace.io.nats.engine.dial import dial
from headrace.io.nats.engine.link import IdentityRefused, Link, Watcher
from headrace.io.nats.engine.routes import Routes
from headrace.io.process import log

# Half for the frames on their way, half for the goodbye.
RETIRE_SECONDS = 1.0
# A connection that lived shorter counts as one more failed attempt: the pauses go on growing.
SHORT_LIFE_SECONDS = 1.0
# How often a server may be left because it answers nothing: the others may not do better, as when all disks are slow.
LEAVE_SECONDS = 10.0
# The interval of looks at the mounts while a connection lives; Kubernetes itself takes a minute to mount an edit.
LOOK_SECONDS = 2.0

_log = log.get("nats")


@dataclass(frozen=True, slots=True)
class LinkOwner:
    """The callbacks of an upkeep; they run inside the loop's callbacks.

    Attributes:
        on_link: a new link, before any other part sends on it; and the one that it takes over from, if that lives.
        on_lost: the link is gone.
        on_moved: another link has taken over; it returns a coroutine, and the old link is closed after that has ended.
        on_error: the server refused one operation.
    """

    on_link: Callable[[Link, Link | None], None]
    on_lost: Callable[[], None]
    on_moved: Callable[[], Coroutine[Any, Any, None]]
    on_error: Callable[[ServerError], None]


class Upkeep:
    """The one link of an engine.

    Attributes:
        link: the one to use now; None while there is none.
        max_payload: of the last server.
        settings_problem: why the mounted settings are not in force; empty when they are.
        inbox_prefix: the prefix of inboxes that our present user may use; it changes with the link.
    """

    def __init__(self, settings: NatsSettings, name: str, routes: Routes, owner: LinkOwner) -> None:
        self.link: Link | None = None
        self.max_payload = nats_wire.DEFAULT_MAX_PAYLOAD
        self.settings_problem = ""
        self.inbox_prefix = settings.inbox_prefix
        self._access = NatsAccess(settings)
        self._entry: Entry | None = None
        self._name = name
        self._routes = routes
        self._owner = owner
        self._watcher = Watcher(self._on_info, owner.on_error, self._on_broken)
        self._url = settings.url
        self._servers = _pool(settings.url)
        self._server: Server | None = None
        self._running: asyncio.Task[None] | None = None
        self._retiring: set[asyncio.Task[None]] = set()
        self._up = asyncio.Event()
        # The link broke, or its server is to be left: the task must look.
        self._changed = asyncio.Event()
        self._left: Link | None = None
        self._stays_until = 0.0
        self._closed = False
        # The kinds of trouble that were logged since the last connection, each once.
        self._told: set[str] = set()
        # The refusal of the last server that answered, or the fault of the settings; empty without such a trouble.
        self._not_let_in = ""

    def open(self) -> None:
        """Begin, if that has not happened yet.

        Raises:
            Closed: the upkeep was closed.
        """
        if self._closed:
            raise Closed
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run(), name="nats-engine")

    async def ready(self, timeout: float) -> Link:
        """The link; wait for one for `timeout` seconds at most.

        Raises:
            NotLetIn: there is none, since we have no credentials that a server takes.
            Unavailable: there is none yet.
            Closed: there will be none.
        """
        try:
            async with asyncio.timeout(timeout):
                while self.link is None:
                    self.open()
                    await self._up.wait()
                return self.link
        except TimeoutError:
            raise self.absence(timeout) from None

    def leave(self) -> None:
        """Nobody answers on this link, though it lives: its server may be cut from its cluster. Try another soon."""
        now = asyncio.get_running_loop().time()
        if self.link is not None and now >= self._stays_until:
            self._stays_until = now + LEAVE_SECONDS
            self._left = self.link
            self._changed.set()

    def absence(self, timeout: float) -> Unavailable:
        """Why there was no link for so many seconds."""
        if self._not_let_in:
            return NotLetIn(f"NATS does not let us in: {self._not_let_in}")
        return Unavailable(f"NATS is not reachable within {timeout:.1f} s")

    async def close(self) -> None:
        """Send the rest of the buffer and hang up, for good."""
        self._closed = True
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait([self._running])
        link, self.link = self.link, None
        self._up.set()
        if link is not None:
            self._retire(link)
        if self._retiring:
            await asyncio.wait(self._retiring)

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        waits = pauses(random.random)
        while True:
            await self._connect(waits)
            began = loop.time()
            while self.link is not None:
                await self._wait_for_change()
                self._changed.clear()
                await self._leave_lame_duck()
                await self._leave_silent()
                await self._follow_settings()
            if loop.time() - began > SHORT_LIFE_SECONDS:
                waits = pauses(random.random)
            await asyncio.sleep(next(waits))

    async def _connect(self, waits: Iterator[float]) -> None:
        """Try the servers, round after round, until one accepts us."""
        for pause in waits:
            entry = self._look()
            if entry is not None and await self._try(self._servers.round(self._server), entry):
                return
            await asyncio.sleep(pause)

    async def _wait_for_change(self) -> None:
        """Wait until the link changes, or until it is time to look at the mounts, which give no sign."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS if self._access.mounted else None):
                await self._changed.wait()

    def _look(self) -> Entry | None:
        """The entry in force, and its servers taken over; None when no entry was ever good."""
        try:
            reading = self._access.now()
        except Misconfigured as error:
            self._not_let_in = self.settings_problem = str(error)
            self._log_failure(None, error)
            return None
        entry, self.settings_problem = reading.value, reading.problem
        if entry.settings.url != self._url:
            self._servers, self._url = _pool(entry.settings.url), entry.settings.url
        return entry

    async def _follow_settings(self) -> None:
        """Move to a link with the mounted settings; while no server accepts them, keep the old link."""
        if self.link is None or not self._access.mounted:
            return
        entry = self._look()
        if entry is not None and self._entry is not None and entry.print != self._entry.print:
            await self._try(self._servers.round(self._server), entry)

    async def _leave_lame_duck(self) -> None:
        """Move to another server, if this one asks for it; while no other accepts us, stay until it hangs up."""
        lame, waits = self.link, pauses(random.random)
        while lame is not None and self.link is lame and lame.info.lame_duck and self._server is not None:
            entry = self._look()
            if entry is None or not await self._try(self._servers.others(self._server), entry):
                await asyncio.sleep(next(waits))

    async def _leave_silent(self) -> None:
        """Try once to move to another server, from one that answers nothing."""
        left, self._left = self._left, None
        if left is None or self.link is not left or self._server is None:
            return
        if (entry := self._look()) is not None:
            await self._try(self._servers.elsewhere(self._server), entry)

    async def _try(self, servers: list[Server], entry: Entry) -> bool:
        for server in servers:
            try:
                link = await dial(server, entry, self._name, self._routes, self._watcher)
            except HeadraceError as error:
                self._log_failure(server, error)
            else:
                # The link may have broken since its last PONG.
                if not link.broken:
                    self._adopt(link, server, entry)
                    return True
        return False

    def _adopt(self, link: Link, server: Server, entry: Entry) -> None:
        old, self.link, self._server = self.link, link, server
        edited = self._entry is not None and self._entry.print != entry.print
        self._entry, self._not_let_in = entry, ""
        self.inbox_prefix = entry.settings.inbox_prefix
        self._owner.on_link(link, old)
        self._on_info(link, link.info)
        self._up.set()
        if old is not None:
            asked = "asked for" if old.info.lame_duck else "answered nothing"
            why = "as what is mounted has changed" if edited else f"as the former {asked}"
            _log.info(f"moved to another NATS connection, {why}", server=server.address)
            self._retire(old, self._owner.on_moved())
        elif self._told:
            _log.info("connection to NATS restored", server=server.address)
        else:
            _log.debug("connected to NATS", server=server.address)
        self._told.clear()

    def _retire(self, link: Link, needed: Coroutine[Any, Any, None] | None = None) -> None:
        task = asyncio.create_task(_hang_up(link, needed), name="nats-retire")
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def _on_info(self, link: Link, info: Info) -> None:
        if link is not self.link or self._server is None:
            return
        self.max_payload = info.max_payload
        self._servers.learn(info.connect_urls, self._server)
        if info.lame_duck:
            self._changed.set()

    def _on_broken(self, link: Link, why: HeadraceError) -> None:
        if link is not self.link:
            return
        self.link = None
        self._up.clear()
        self._changed.set()
        self._told.add("lost")
        _log.warning("connection to NATS lost", server=self._server and self._server.address, error=str(why))
        self._owner.on_lost()

    def _log_failure(self, server: Server | None, error: HeadraceError) -> None:
        address = server and server.address
        ours = isinstance(error, IdentityRefused | Misconfigured)
        if self.link is None:
            self._not_let_in = str(error) if ours else ""
        if ours and "refused" not in self._told:
            # Logged also after "lost": waiting alone will not cure it.
            self._told |= {"refused", "lost"}
            _log.warning("cannot log in to NATS, still trying", server=address, error=str(error))
        elif self.link is None and "lost" not in self._told:
            self._told.add("lost")
            _log.warning("cannot connect to NATS, still trying", server=address, error=str(error))
        else:
            _log.debug("cannot connect to NATS", server=address, error=str(error))


def _pool(urls: str) -> ServerPool:
    return ServerPool(read_servers(urls, origin="NATS_URL"), random.shuffle)


async def _hang_up(link: Link, needed: Coroutine[Any, Any, None] | None) -> None:
    """Wait until the link is not needed, let the server read our frames and send us its own, then close."""
    if needed is not None:
        need = asyncio.create_task(needed, name="nats-linger")
        await asyncio.wait([need, link.gone], return_when=asyncio.FIRST_COMPLETED)
        need.cancel()
        await asyncio.wait([need])
    with contextlib.suppress(HeadraceError, TimeoutError):
        async with asyncio.timeout(RETIRE_SECONDS / 2):
            await link.round_trip()
    await link.close(RETIRE_SECONDS / 2)
