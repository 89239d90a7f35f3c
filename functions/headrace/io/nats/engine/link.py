"""One connection: frames in, bursts out, pings; it breaks once and is then of no use.

It knows neither its address nor the purpose of a subscription. `dial` makes it, the engine owns it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.nats.nats_wire import PING, PONG, Decoder, ErrorCost, Frame, Info, ProtocolError, ServerError, Signal
from headrace.core.quoting import quoted
from headrace.io.nats.contract import Broken
from headrace.io.nats.engine.routes import ForSubscribers, Routes

# A dead peer is noticed within 7 s: a ping every 3 s, and two pings without a sign of life for 2 s each.
PING_SECONDS = 3.0
ANSWER_SECONDS = 2.0
MISSED_PINGS = 2
# A burst goes out at the end of the loop's turn, or when it has this size, so that the transport sees it in time.
BURST_BYTES = 256 * 1024
# After so long without a frame the next one goes out at once: no other comes with it, and a turn of the loop for it
# alone would take longer than to write it. The loop's clock has ticks of 1 ms.
QUIET_SECONDS = 0.0015
# Bytes that the transport may hold before publishers wait.
HIGH_WATER_BYTES = 1024 * 1024
# An aborted transport is closed in a few turns of the loop.
ABORT_SECONDS = 0.5


class IdentityRefused(HeadraceError):
    """The server refuses our identity: wrong, missing or expired credentials."""


@dataclass(frozen=True, slots=True)
class Watcher:
    """The callbacks of a link; they run inside the loop's callbacks.

    Attributes:
        on_info: the server has sent a new INFO.
        on_error: one operation failed, the link goes on.
        on_broken: the link is gone; called once.
    """

    on_info: Callable[[Link, Info], None]
    on_error: Callable[[ServerError], None]
    on_broken: Callable[[Link, HeadraceError], None]


class Link(asyncio.Protocol):
    """A connection to one server.

    Attributes:
        info: the server's latest INFO.
        encrypted: TLS is on.
        paused: the socket takes no more for now; await `writable` before `send`.
        burst_began: when the latest burst of frames began, on the loop's clock.
        loop: the loop in which the link lives.
        gone: done once the socket is closed.
    """

    def __init__(self, routes: Routes, watcher: Watcher) -> None:
        self.info = Info()
        self.encrypted = False
        self.paused = False
        self.burst_began = 0.0
        self.loop = asyncio.get_running_loop()
        self._routes = routes
        self._watcher = watcher
        self._decoder = Decoder()
        self._transport: asyncio.Transport | None = None
        self._burst: list[bytes] = []
        self._burst_bytes = 0
        self._greeting: asyncio.Future[Info] = self.loop.create_future()
        # One for each PING on its way; None for a PING of the heartbeat.
        self._pongs: deque[asyncio.Future[None] | None] = deque()
        self._writers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._owes_pong = False
        self._heard = False
        self._missed = 0
        self._broken: HeadraceError | None = None
        self.gone: asyncio.Future[None] = self.loop.create_future()

    @property
    def broken(self) -> bool:
        return self._broken is not None

    def send(self, frame: bytes) -> None:
        """Send with the burst of this turn; a broken link drops the frame."""
        self.send_pieces((frame,), len(frame))

    def send_pieces(self, pieces: tuple[bytes, ...], size: int) -> None:
        """`send` for the pieces of a frame.

        Args:
            size: bytes of all pieces, or of those that may be large.
        """
        if not self._burst:
            before, self.burst_began = self.burst_began, self.loop.time()
            if self.burst_began - before > QUIET_SECONDS:
                if self._transport is not None and self._broken is None:
                    self._transport.write(b"".join(pieces))
                return
            self.loop.call_soon(self._write)
        self._burst += pieces
        self._burst_bytes += size
        if self._burst_bytes > BURST_BYTES:
            self._write()

    async def writable(self) -> None:
        """Wait until the socket takes more.

        Raises:
            Unavailable: the link broke first.
        """
        while self.paused and self._broken is None:
            writer: asyncio.Future[None] = self.loop.create_future()
            self._writers.append(writer)
            await writer
        if self._broken is not None:
            raise Unavailable(f"the connection to NATS broke: {self._broken}")

    async def greeting(self) -> Info:
        """The server's first INFO. Raises the error that broke the link before."""
        return await self._greeting

    async def round_trip(self) -> None:
        """Wait until the server has read all earlier frames. Raises the error that broke the link before."""
        if self._broken is not None:
            raise self._broken
        pong: asyncio.Future[None] = self.loop.create_future()
        self._pongs.append(pong)
        self.send(PING)
        await pong

    async def secure(self, context: ssl.SSLContext, name: str) -> None:
        """Go on encrypted, with a server whose certificate has this name.

        Raises:
            OSError: the handshake failed, or the server is not one that we trust.
            ProtocolError: bytes in the clear came after the greeting: a stranger in between wrote them.
        """
        assert self._transport is not None
        if self._decoder.held:
            raise ProtocolError("more than INFO came before the TLS handshake")
        transport = await self.loop.start_tls(self._transport, self, context, server_hostname=name)
        if transport is None:
            raise ConnectionError("the connection broke during the TLS handshake")
        self._take(transport)
        self.encrypted = True

    def begin_pings(self) -> None:
        self._timer = self.loop.call_later(PING_SECONDS, self._ping)

    async def close(self, timeout: float) -> None:
        """Send the buffer, and close; cut off after `timeout` seconds."""
        self._write()
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self.gone], timeout=timeout)
            self.break_off(Broken("closed by us"))
            await asyncio.wait([self.gone], timeout=ABORT_SECONDS)

    def break_off(self, why: HeadraceError) -> None:
        """End the link, from any cause: waiting callers get the error, and the buffer is thrown away."""
        if self._broken is not None:
            return
        self._broken = why
        self._burst.clear()
        self._burst_bytes = 0
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        for waiting in (self._greeting, *self._pongs):
            if waiting is not None and not waiting.done():
                waiting.set_exception(why)
                # Without a waiter, asyncio would log an exception that was never retrieved.
                waiting.exception()
        self._resume_writers()
        self._watcher.on_broken(self, why)

    # The methods that asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.encrypted = transport.get_extra_info("sslcontext") is not None
        self._take(transport)  # type: ignore[arg-type]  # uvloop's transports derive from no asyncio class

    def connection_lost(self, exc: Exception | None) -> None:
        self.break_off(Broken(repr(exc) if exc else "the server closed the connection"))
        if not self.gone.done():
            self.gone.set_result(None)

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self._owes_pong:
            self._owes_pong = False
            self.send(PONG)
        self._resume_writers()

    def data_received(self, data: bytes) -> None:
        self._heard = True
        if self._broken is not None:
            return
        hand_on, loop = self._routes.hand_on, self.loop
        try:
            for frame in self._decoder.feed_runs(data):
                if isinstance(frame, ForSubscribers):
                    hand_on(frame, loop)
                else:
                    self._control(frame)
        except ProtocolError as error:
            self.break_off(error)

    def _take(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    def _write(self) -> None:
        burst = b"".join(self._burst)
        self._burst.clear()
        self._burst_bytes = 0
        if burst and self._transport is not None and self._broken is None:
            self._transport.write(burst)

    def _resume_writers(self) -> None:
        writers, self._writers = self._writers, []
        for writer in writers:
            if not writer.done():
                writer.set_result(None)

    def _control(self, frame: Frame) -> None:
        match frame:
            case Signal.PING if self.paused:
                # One PONG for all, later: a server that sends PINGs and reads nothing must not cost memory.
                self._owes_pong = True
            case Signal.PING:
                self.send(PONG)
            case Signal.PONG:
                pong = self._pongs.popleft() if self._pongs else None
                if pong is not None and not pong.done():
                    pong.set_result(None)
            case Info():
                self.info = frame
                if self._greeting.done():
                    self._watcher.on_info(self, frame)
                else:
                    self._greeting.set_result(frame)
            case ServerError(words):
                self._refused(frame, words)

    def _refused(self, error: ServerError, words: str) -> None:
        match error.severity:
            case ErrorCost.OPERATION:
                self._watcher.on_error(error)
            case ErrorCost.IDENTITY:
                self.break_off(IdentityRefused(words))
            case ErrorCost.CONNECTION:
                self.break_off(Broken(f"the server said {quoted(words)}"))

    def _ping(self) -> None:
        self._heard = False
        self._pongs.append(None)
        self.send(PING)
        self._timer = self.loop.call_later(ANSWER_SECONDS, self._check)

    def _check(self) -> None:
        # Any byte is a sign of life: a PONG may wait behind megabytes of messages.
        self._missed = 0 if self._heard else self._missed + 1
        if self._missed >= MISSED_PINGS:
            self.break_off(Broken(f"the server is silent for {ANSWER_SECONDS * MISSED_PINGS:.0f} s"))
        elif self._missed:
            self._ping()
        else:
            self._timer = self.loop.call_later(PING_SECONDS - ANSWER_SECONDS, self._ping)
