"""The fallback client: nats-py behind our port, for whoever sets `NATS_CLIENT=nats-py`.

Never gives up: a server that is away is retried for ever, and a client that nats-py closed for good (any -ERR but a
few does that) is replaced; so is one whose credentials are not those any more that count (`headrace.io.nats.access`).
Several times the CPU of the engine.
"""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any

import nats.aio.client
import nats.errors
from nats.aio.msg import Msg

from headrace.core.errors import Misconfigured, NotLetIn, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival
from headrace.io.nats import nats_py_values as values
from headrace.io.nats.access import Access, Entry
from headrace.io.nats.client import Broken, Closed, Headers, OnAnswer, OnArrival, OnPulled
from headrace.io.nats.nats_py_values import PySubscribed
from headrace.io.process import log

WATCH_SECONDS = 0.5  # between two looks at whether nats-py still tries
EACH_SO_MANY = 4  # of them what is mounted is looked at, too

_log = log.get("nats")


class _Outdated(nats.errors.Error):
    """What is dialled with is not what counts any more."""


class NatsPy:
    """A `headrace.io.nats.client.Client` on nats-py."""

    def __init__(self, settings: NatsSettings, *, name: str = "headrace") -> None:
        self._access = Access(settings)
        self._inbox_prefix = settings.inbox_prefix
        self._entry: Entry | None = None
        self._not_let_in = ""
        self._watching: asyncio.Task[None] | None = None
        self._restoring: asyncio.Task[Any] | None = None  # nats-py's own, while a connection is lost
        self._name = name
        self._client: nats.aio.client.Client | None = None
        self._opening: asyncio.Task[None] | None = None
        self._closed = False
        self._up = asyncio.Event()
        self._subscriptions: dict[PySubscribed, str] = {}
        self._answers: dict[str, asyncio.Future[Arrival]] = {}
        self._prefix, self._serial = "", 0
        self.on_disconnect: list[Callable[[], None]] = []

    @property
    def connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def max_payload(self) -> int:
        return self._client.max_payload if self._client is not None else nats_wire.DEFAULT_MAX_PAYLOAD

    @property
    def settings_problem(self) -> str:
        try:
            return self._access.now().problem
        except Misconfigured as error:
            return str(error)

    def new_inbox(self) -> str:
        return f"{self._inbox_prefix}.{secrets.token_hex(11)}"

    async def ready(self, timeout: float) -> None:
        if self.connected:
            return
        try:
            async with asyncio.timeout(timeout):
                while not self.connected:
                    self._open()
                    self._up.clear()
                    await self._up.wait()
        except TimeoutError:
            if self._not_let_in:
                raise NotLetIn(f"NATS does not let us in: {self._not_let_in}") from None
            raise Unavailable(f"NATS is not reachable within {timeout:.1f} s") from None

    async def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: Headers | None = None
    ) -> None:
        client = self._connected()
        try:
            await client.publish(subject, data, reply=reply, headers=values.checked(headers, data, self.max_payload))
        except values.FOREIGN as error:
            raise Unavailable(f"nothing could be sent: {error!r}") from error

    def answer(self, reply: str | bytes, data: bytes) -> bool:  # noqa: ARG002  # the port's names
        return False  # nats-py sends in coroutines only.

    async def request(
        self, subject: str, data: bytes = b"", *, headers: Headers | None = None, timeout: float
    ) -> Arrival:
        deadline = asyncio.get_running_loop().time() + timeout
        await self.ready(timeout)
        self._serial += 1
        reply = f"{self._prefix}.{self._serial}"
        future: asyncio.Future[Arrival] = asyncio.get_running_loop().create_future()
        self._answers[reply] = future
        try:
            await self.publish(subject, data, reply=reply, headers=headers)
            async with asyncio.timeout_at(deadline):
                return await future
        except TimeoutError:
            raise Unavailable(f"no answer from {subject} within {timeout:.1f} s") from None
        finally:
            self._answers.pop(reply, None)
            # A failed one holds its traceback, and so this frame with the data in it: a cycle, rarely collected.
            del future

    def ask(self, subject: str, data: bytes, block: bytes, timeout: float, on_answer: OnAnswer) -> bool:  # noqa: ARG002  # the port's signature
        return False  # it can send from within a coroutine only

    async def subscribe(
        self,
        subject: str,
        on_arrival: OnArrival,
        on_pulled: OnPulled | None = None,  # noqa: ARG002  # it knows no runs
    ) -> PySubscribed:
        subscribed = PySubscribed(self._forget, on_arrival)
        self._subscriptions[subscribed] = subject
        if self.connected:
            await subscribed.on(self._connected(), subject)
        else:
            self._open()
        return subscribed

    def _forget(self, subscribed: PySubscribed) -> None:
        self._subscriptions.pop(subscribed, None)

    async def flush(self, timeout: float) -> None:
        try:
            await self._connected().flush(timeout=max(1, round(timeout)))
        except (*values.FOREIGN, TimeoutError) as error:
            raise Unavailable(f"NATS did not read what was sent: {error!r}") from error

    async def close(self) -> None:
        self._closed = True
        if tasks := [task for task in (self._opening, self._watching) if task is not None and not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=values.CONNECT_SECONDS)
        client = self._client
        if client is not None and not client.is_closed:
            try:
                await client.flush(timeout=1)
            except (*values.FOREIGN, TimeoutError):
                _log.debug("flush at close failed")
            await values.shut(client)

    def _connected(self) -> nats.aio.client.Client:
        if self._client is None or not self._client.is_connected:
            self._open()
            raise Unavailable("not connected to NATS")
        return self._client

    def _open(self) -> None:
        if self._closed:
            raise Closed
        if self._client is None or self._given_up:
            self._dial_again()

    def _dial_again(self) -> None:
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._dial(), name="nats-connect")

    async def _dial(self) -> None:
        """Try until a server takes us; nats-py's own first connect can't be told to wait with jitter."""
        warned = False
        while not self._closed:
            client = nats.aio.client.Client()
            try:
                entry = self._access.now().value
                if self.connected and not self._outdated():
                    return  # What was edited has been put back.
                await client.connect(
                    **values.options(entry),
                    name=self._name,
                    disconnected_cb=partial(self._on_disconnected, client),
                    reconnected_cb=self._on_reconnected,
                    error_cb=partial(self._on_error, client, entry),
                )
                if self._closed:
                    raise Closed  # 3.11's `wait_for`, which nats-py uses, may swallow a cancel
                await self._adopt(client, entry)
                return
            except asyncio.CancelledError:
                await values.shut(client)
                raise
            except Exception as error:  # noqa: BLE001  # nats-py's connect raises what it likes; who waits needs the next try
                self._note(error)
                if not warned and not isinstance(error, _Outdated | Closed):
                    _log.warning("cannot connect to NATS, still trying", error=str(error) or repr(error))
                    warned = True
                await values.shut(client)
                await asyncio.sleep(values.RECONNECT_SECONDS * (1 + random.random()))

    async def _adopt(self, client: nats.aio.client.Client, entry: Entry) -> None:
        old, self._client, self._entry, self._not_let_in = self._client, client, entry, ""
        self._restoring = None
        self._inbox_prefix = entry.settings.inbox_prefix
        self._prefix = self.new_inbox()
        try:
            # Without limits: an answer that nats-py drops as "slow consumer" would cost a whole time-out.
            await client.subscribe(f"{self._prefix}.*", cb=self._on_answer, pending_msgs_limit=0, pending_bytes_limit=0)
            for subscribed, subject in list(self._subscriptions.items()):
                await subscribed.on(client, subject)
            if not client.is_connected:
                raise nats.errors.ConnectionClosedError
            self._up.set()
        finally:
            if old is not None:
                moved = "moved to another NATS connection, as what is mounted has changed"
                _log.info(moved if old.is_connected else "connection to NATS restored")
                self._tell_broken()
                await values.shut(old)
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name="nats-watch")

    async def _watch(self) -> None:
        """nats-py's own reconnect dies of what it has not foreseen, and its client may close without a word."""
        looks = 0
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            looks += 1
            if self._given_up and (self._opening is None or self._opening.done()):
                self._tell_broken()
                self._dial_again()
            elif self._access.mounted and looks % EACH_SO_MANY == 0 and self._outdated():
                self._dial_again()

    @property
    def _given_up(self) -> bool:
        """Will nats-py not make the connection anew by itself?"""
        if self._client is None or self._client.is_connected:
            return False
        return self._client.is_closed or values.is_over(self._restoring)

    def _outdated(self) -> bool:
        """Do other settings or credentials count now than those of our connection?"""
        return self._entry is not None and self._access.now().value.print != self._entry.print

    async def _on_answer(self, message: Msg) -> None:
        future = self._answers.get(message.subject)
        if future is not None and not future.done():
            future.set_result(values.arrival(message))

    async def _on_disconnected(self, client: nats.aio.client.Client) -> None:
        if client is not self._client:
            return  # It is dialling, or another has followed it.
        self._restoring = asyncio.current_task()
        if not self._closed:
            _log.warning("connection to NATS lost")
        self._tell_broken()
        if not self._closed and (client.is_closed or self._outdated()):
            self._dial_again()

    def _tell_broken(self) -> None:
        for future in self._answers.values():
            if not future.done():
                future.set_exception(Broken("the connection broke"))
        for listener in list(self.on_disconnect):
            listener()

    async def _on_reconnected(self) -> None:
        self._not_let_in, self._restoring = "", None
        _log.info("connection to NATS restored")
        self._up.set()

    async def _on_error(self, client: nats.aio.client.Client, entry: Entry, error: Exception) -> None:
        _log.debug("nats client", error=repr(error))  # a line per attempt would be a storm while NATS is away
        if not client.is_connected:
            values.hang_up(client)
        if not self.connected:
            self._note(error)
        if self._closed or self._access.now().value.print == entry.print:
            return
        if client is self._client:
            self._dial_again()
        elif not client.is_connected and not client.is_closed:
            # It would go on for ever with what does not count any more. One that is being closed ends anyway.
            raise _Outdated("other credentials are there by now")

    def _note(self, error: Exception) -> None:
        if not isinstance(error, _Outdated) and (words := values.refusal(error)) is not None:
            self._not_let_in = words
