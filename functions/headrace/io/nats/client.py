"""One connection to NATS that never gives up: publishes, asks and subscribes on the one link that `upkeep` keeps alive.

It speaks core NATS only: `headrace.io.jetstream` speaks JetStream on top. Everything happens in the caller's coroutine
or in the reading of the socket. A broken link loses its buffer: a caller that waits for an answer gets Broken, and asks
again with the same `Nats-Msg-Id`.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.installation.nats_settings import NatsSettings
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import CRLF, Arrival, PullRun, Run, ServerError
from headrace.io.nats.contract import Broken, Headers, OnAnswer, OnArrival, OnPullRun
from headrace.io.nats.engine.answers import Answers
from headrace.io.nats.engine.link import Link
from headrace.io.nats.engine.routes import OnRun, Routes
from headrace.io.nats.engine.upkeep import LinkOwner, Upkeep
from headrace.io.process import log

# Refused operations that are logged, each once: a wrong configuration could refuse any number of subjects.
MOST_REFUSALS_LOGGED = 100
# How long a server that we leave may take for its last answers.
LINGER_SECONDS = 2.0

_log = log.get("nats")


class Client:
    """The client; it connects at the first use, in the loop that runs then.

    Attributes:
        on_disconnect: called, without arguments, whenever the connection breaks or is replaced: a caller that waits
            for more than one answer must ask again.
    """

    def __init__(self, settings: NatsSettings, *, name: str = "headrace") -> None:
        """Raises:
        Misconfigured: NATS_URL can't be used.
        """
        self.on_disconnect: list[Callable[[], None]] = []
        self._sids = itertools.count(1)
        self._subjects: dict[int, str] = {}
        # Subscriptions below an inbox of their own.
        self._inboxes: set[int] = set()
        self._routes = Routes()
        self._inbox_open: int | None = None
        self._refusals: set[str] = set()
        owner = LinkOwner(self._on_link, self._on_lost, self._on_moved, self._on_error)
        self._upkeep = Upkeep(settings, name, self._routes, owner)
        self._answers = Answers(self.new_inbox(), self._upkeep.leave)

    @property
    def connected(self) -> bool:
        return self._upkeep.link is not None

    @property
    def max_payload(self) -> int:
        """Bytes of headers and data that the server takes in one message; 1 MiB before it has said so."""
        return self._upkeep.max_payload

    @property
    def settings_problem(self) -> str:
        """Why the mounted settings are not in force, as of the last look; empty when they are."""
        return self._upkeep.settings_problem

    def new_inbox(self) -> str:
        """A new subject of our own for answers, on it or below it."""
        return f"{self._upkeep.inbox_prefix}.{secrets.token_hex(11)}"

    async def ready(self, timeout: float) -> None:
        """Wait for a connection, for `timeout` seconds at most.

        Raises:
            NotLetIn: there is none, since we have no credentials that a server takes.
            Unavailable: there is none yet; the attempts go on in the background.
            Closed: the client was closed.
        """
        await self._upkeep.ready(timeout)

    async def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: Headers | None = None
    ) -> None:
        """Send, together with the other frames of this turn of the loop; wait only while the socket takes no more.

        Raises:
            Unavailable: not connected, and nothing was sent.
            Refused: 413 more than max_payload; 400 an illegal subject or header. Nothing was sent.
        """
        link = self._linked()
        frame = nats_wire.publish(subject, data, reply, headers, self._upkeep.max_payload)
        if link.paused:
            await link.writable()
        link.send(frame)

    def answer(self, reply: str | bytes, data: bytes) -> bool:
        """Send a few bytes to the reply subject of an arrival at once; False when that would wait: call `publish`.

        Args:
            reply: exactly as it came.
        """
        link = self._upkeep.link
        if link is None or link.paused:
            return False
        link.send(nats_wire.answer(reply, data))
        return True

    async def request(
        self, subject: str, data: bytes = b"", *, headers: Headers | None = None, timeout: float
    ) -> Arrival:
        """Send, and wait for the first answer; `status` "503" says that nobody listens.

        Args:
            timeout: seconds in all, for a connection and for the answer.

        Raises:
            Unavailable: no connection or no answer in time; the request may still take effect.
            Broken: the connection broke before the answer; the request may have taken effect.
            Refused: as for `publish`; also 403, the server forbids the subject.
        """
        link = self._upkeep.link
        if link is None or link.paused:
            link, timeout = await self._writable(timeout)
        future: asyncio.Future[Arrival] = link.loop.create_future()
        serial, pieces = self._answers.serial, self._question(subject, headers, data)
        link.send_pieces(pieces, sum(map(len, pieces)))
        self._answers.expect(future, subject, link.burst_began + timeout)
        try:
            return await future
        except BaseException:
            self._answers.forget(serial)
            raise
        finally:
            # A failed future holds its traceback, and so this frame with the data: a cycle that is rarely collected.
            del future

    def ask(self, subject: str, data: bytes, block: bytes, timeout: float, on_answer: OnAnswer) -> bool:
        """Like `request`, but without a coroutine, and only if the request can be sent at once.

        Args:
            block: made by `nats_wire.header_block`, or empty.
            on_answer: called once, never from within this call, with the first answer or with the error that
                `request` would raise; it must be quick and must not raise.

        Returns:
            Was it sent? If not, nothing has happened: call `request`.
        """
        link, answers, size = self._upkeep.link, self._answers, len(block) + len(data)
        if link is None or link.paused:
            return False
        line = answers.lines.get(subject)
        if line is not None and block and size <= self._upkeep.max_payload:
            pieces: tuple[bytes, ...] = line % (answers.serial, len(block), size), block, data, CRLF
        else:
            try:
                pieces = self._question(subject, block, data)
            except Refused:
                return False
        link.send_pieces(pieces, size)
        answers.expect(on_answer, subject, link.burst_began + timeout)
        return True

    def note_answer(self, *, came: bool) -> None:
        """A question to another inbox of ours was answered, or its time is up: a server that answers none is left."""
        if came:
            self._answers.heard = True
        else:
            self._answers.missed(asyncio.get_running_loop().time())

    async def subscribe(
        self, subject: str, on_arrival: OnArrival, on_pull_run: OnPullRun | None = None
    ) -> NatsSubscription:
        """Call `on_arrival` for every arrival, over reconnects; a connection need not exist yet.

        Args:
            on_arrival: called from within the reading of the socket; it must be quick and must not raise.
            on_pull_run: called in its place, likewise, for messages that come as one run.

        Raises:
            Refused: 400, an illegal subject.
        """
        if self._upkeep.link is None:
            self._upkeep.open()
        return NatsSubscription(
            self, self._subscribe(subject, on_arrival, on_pull_run and _by_kind(on_arrival, on_pull_run))
        )

    async def subscribe_inbox(self, on_arrival: OnArrival, on_pull_run: OnPullRun) -> NatsSubscription:
        """`subscribe` to all that is below a new inbox of our own, which is a new one again after each move."""
        subscription = await self.subscribe(f"{self.new_inbox()}.*", on_arrival, on_pull_run)
        self._inboxes.add(subscription.sid)
        return subscription

    def subject(self, sid: int) -> str:
        """What a subscription listens to now; for `NatsSubscription` only."""
        return self._subjects[sid]

    def unsubscribe(self, sid: int) -> None:
        """End a subscription; for `NatsSubscription` only."""
        if self._routes.arrivals.pop(sid, None) is not None:
            self._routes.runs.pop(sid, None)
            self._inboxes.discard(sid)
            del self._subjects[sid]
            if self._upkeep.link is not None:
                self._upkeep.link.send(nats_wire.unsubscribe(sid))

    async def drain(self, sid: int, timeout: float) -> None:
        """End a subscription after all earlier messages have come; for `NatsSubscription` only."""
        link = self._upkeep.link
        if link is not None and sid in self._routes.arrivals:
            link.send(nats_wire.unsubscribe(sid))
            with contextlib.suppress(TimeoutError, HeadraceError):
                async with asyncio.timeout(timeout):
                    await link.round_trip()
        self.unsubscribe(sid)

    async def flush(self, timeout: float) -> None:
        """Wait until the server has read all earlier frames.

        Raises:
            Unavailable: not connected, or not in `timeout` seconds.
            Broken: the connection broke meanwhile.
        """
        link = self._linked()
        try:
            async with asyncio.timeout(timeout):
                await link.round_trip()
        except TimeoutError:
            raise Unavailable(f"NATS did not read what was sent within {timeout:.1f} s") from None
        except HeadraceError as error:
            raise Broken(f"the connection to NATS broke before all was read: {error}") from error

    async def close(self) -> None:
        """Send the rest of the buffer, and close; a second at most. The client can't be used again."""
        was_connected = self.connected
        await self._upkeep.close()
        self._answers.close()
        if was_connected:
            self._tell_listeners()

    def _linked(self) -> Link:
        link = self._upkeep.link
        if link is None:
            self._upkeep.open()
            raise Unavailable("not connected to NATS")
        return link

    async def _writable(self, timeout: float) -> tuple[Link, float]:
        """A link whose socket takes more, and the seconds that are left."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        try:
            async with asyncio.timeout_at(deadline):
                while (link := await self._upkeep.ready(timeout)).paused:
                    with contextlib.suppress(Unavailable):
                        await link.writable()
        except TimeoutError:
            if self._upkeep.link is None:
                raise self._upkeep.absence(timeout) from None
            raise Unavailable(f"NATS reads too slowly: nothing could be sent within {timeout:.1f} s") from None
        return link, deadline - loop.time()

    def _question(self, subject: str, headers: Headers | None, data: bytes) -> tuple[bytes, ...]:
        """The next question's frame, in pieces; Refused as `nats_wire.publish` raises it."""
        answers = self._answers
        if self._inbox_open is None:
            self._inbox_open = self._subscribe(answers.subject, answers.arrived, answers.arrived_together)
        return answers.question(subject, headers, data, self._upkeep.max_payload)

    def _subscribe(self, subject: str, on_arrival: OnArrival, on_run: OnRun | None = None) -> int:
        sid = next(self._sids)
        frame = nats_wire.subscribe(subject, sid)
        self._subjects[sid] = subject
        self._routes.arrivals[sid] = on_arrival
        if on_run is not None:
            self._routes.runs[sid] = on_run
        if self._upkeep.link is not None:
            self._upkeep.link.send(frame)
        return sid

    def _on_link(self, link: Link, old: Link | None) -> None:
        self._answers.heard = True
        if old is not None or not self._answers.stem.startswith(f"{self._upkeep.inbox_prefix}."):
            # Both links of a move live for a moment: what was asked over one must come over that one, and not over
            # both. Or we come as another user, with another prefix. What is on its way comes by the old numbers.
            self._answers.move(self.new_inbox())
            self._subjects |= {sid: f"{self.new_inbox()}.*" for sid in self._inboxes}
            if self._inbox_open is not None:
                self._subjects[self._inbox_open] = self._answers.subject
        for sid, subject in self._subjects.items():
            link.send(nats_wire.subscribe(subject, sid))
            if old is not None and sid != self._inbox_open:
                old.send(nats_wire.unsubscribe(sid))

    def _on_lost(self) -> None:
        self._answers.broke()
        self._tell_listeners()

    def _on_moved(self) -> Coroutine[Any, Any, None]:
        # The old server answers its requests for a moment; after that no server will.
        lingering = self._answers.linger(self._answers.open(), LINGER_SECONDS)
        self._tell_listeners()
        return lingering

    def _on_error(self, error: ServerError) -> None:
        if error.words not in self._refusals and len(self._refusals) < MOST_REFUSALS_LOGGED:
            self._refusals.add(error.words)
            _log.warning("NATS refused an operation", error=error.words)
        if error.refused_subject is not None:
            self._answers.refused(error.refused_subject)

    def _tell_listeners(self) -> None:
        for listener in list(self.on_disconnect):
            listener()


def _by_kind(on_arrival: OnArrival, on_pull_run: OnPullRun) -> OnRun:
    def on_run(run: Run) -> None:
        if isinstance(run, PullRun):
            on_pull_run(run)
        else:
            for arrival in run.arrivals():
                on_arrival(arrival)

    return on_run


class NatsSubscription:
    """A subscription to a subject, until it is closed.

    Attributes:
        sid: its number, over all connections.
    """

    def __init__(self, client: Client, sid: int) -> None:
        self._client = client
        self.sid = sid

    @property
    def inbox(self) -> str:
        """Of a `subscribe_inbox` that has not ended: the inbox to be named in a question that is sent now."""
        return self._client.subject(self.sid).removesuffix(".*")

    async def drain(self, timeout: float) -> None:
        """Tell the server to send no more, wait for the messages on their way, and close.

        It never raises: without a connection, or after `timeout` seconds, the subscription is gone as well.
        """
        await self._client.drain(self.sid, timeout)

    async def close(self) -> None:
        """End the subscription, with or without a connection."""
        self._client.unsubscribe(self.sid)
