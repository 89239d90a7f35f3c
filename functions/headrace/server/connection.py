"""One connection to our server, whichever way its messages go: its state, its waits, the bytes it holds, and its end.

It stands on uvicorn's protocol, of whose own life there is left what begins a request by ASGI.
`headrace.server.protocol` reads the messages.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from headrace.server.crowd import Crowd, Ending
from headrace.server.flow import Flow
from headrace.server.front import Front, OnItsWay
from headrace.server.patience import Patience
from headrace.server.refusals import ANSWERS
from headrace.server.states import (
    ANSWERED,
    BODY,
    CUT,
    DUE,
    FREE,
    HEAD,
    HELD,
    KEPT,
    NEXT,
    PILED,
    ConnectionEvent,
    ConnectionState,
)

# Knative's own event receiver allows 10 s; a slow producer of a large event may take a little longer.
REQUEST_SECONDS = 20.0
LAST_SECONDS = 2.0
# OpenSSL keeps 17 KiB for an idle connection, and 16 KiB more for a record that has not ended.
TLS_WEIGHT = 3
# uvicorn's queue of pipelined requests: there are none.
_NO_PIPELINE: deque[Any] = deque()


class Stopped(Exception):
    """Stops the parser from inside its callbacks, which have no other way."""


class BoundedConnection(HttpToolsProtocol):
    """One connection, without the reading of its messages."""

    # Not in the instance's dictionary: with so many more names Python would make each a large one of its own.
    __slots__ = (
        "_at",
        "_crowd",
        "_ending",
        "_front",
        "_head_bytes",
        "_held",
        "_held_left",
        "_kept",
        "_left",
        "_on_its_way",
        "_patience",
        "_refused",
        "_state",
    )

    parser: Any
    flow: Flow

    def __init__(self, *arguments: Any, crowd: Crowd | None = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Many connections never need one.
        self.parser = None
        self.pipeline = _NO_PIPELINE
        self._crowd = Crowd() if crowd is None else crowd
        self._state: ConnectionState = FREE
        self._patience = Patience(self.loop, self._expire)
        self._front: Front | None = None
        self._on_its_way = OnItsWay()
        # The part of a message that the short way keeps. Not a list of pieces: a small piece takes thirty times the
        # memory of its bytes.
        self._kept = bytearray()
        # Bytes that have come and whose turn it is not yet, from this place on; and how many of them are counted.
        self._left = b""
        self._at = 0
        self._held_left = 0
        # The bytes of the current message that are counted here.
        self._held = 0
        # The bytes since a message began, or since the last piece of its body.
        self._head_bytes = 0
        self._refused = 0
        self._ending = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        super().connection_made(transport)
        self.flow = Flow(transport)
        if self._crowd.enter(self, self.loop, TLS_WEIGHT if self.secure else 1):
            self._patience.wait(REQUEST_SECONDS)
        else:
            self._happens(CUT)
            transport.abort()

    @property
    def secure(self) -> bool:
        """Does it come by TLS?"""
        return self.scheme == "https"

    def take_kept(self) -> None:
        """Give the parser what the short way keeps: nobody waits for the rest any more."""
        raise NotImplementedError

    def take_turn(self) -> None:
        """It is this connection's turn, and some of its bytes are left."""
        raise NotImplementedError

    def on_response_complete(self) -> None:
        self._let_go()
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            self._see_off()
            return
        if self.flow.read_paused:
            self.flow.resume_reading()
        self._answered()

    def _answered(self) -> None:
        """The answer that was due is given."""
        self._state = state = NEXT[self._state][ANSWERED]
        if state is FREE:
            self._patience.wait(self.timeout_keep_alive)
            if self.parser is not None:
                self.parser = None
                self._forget()
        elif state is HELD:
            self._forget()
            self._crowd.ask_turn(self.take_turn, self.loop)
        elif state is BODY:
            self._forget()

    def _forget(self) -> None:
        """Of a request that has its answer nothing is kept."""
        self._head_bytes = 0
        self.cycle = self._on_its_way  # type: ignore[assignment]  # stands in for it: see there
        self.scope = self.headers = None  # type: ignore[assignment]  # as before the first request
        self.url = b""

    def _await_rest(self) -> None:
        """Wait for the rest of a message."""
        self._patience.wait(REQUEST_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        if not self._patience.waits:
            self._patience.wait(LAST_SECONDS if self._ending else REQUEST_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._state not in (FREE, KEPT, HEAD, BODY) and not self.transport.is_closing():
            self._patience.stop()

    def shutdown(self) -> None:
        self._ending = True
        if self._state is HELD:
            # What is left may be the beginning of a large event: it has its turn first, which calls again.
            return
        # A client in the middle of sending gets the same last moment on either way.
        self.take_kept()
        super().shutdown()
        if self.transport.is_closing():
            self._see_off()
        elif self._state is BODY or self.flow.write_paused:
            self._patience.wait(LAST_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        self._crowd.leave(self)
        self._cut()
        self._patience.close()
        super().connection_lost(exc)

    # What the crowd asks.

    def idle_since(self) -> float | None:
        return self._patience.since if self._state is FREE else None

    def waited_since(self) -> float | None:
        return self._patience.since if self._patience.waits else None

    def spared_since(self) -> float | None:
        # A client that pipelines has sent ahead what may be lost. A front's event is sent again, whatever became of it;
        # what other functions have in hand, a lease say, is work that nobody else may end.
        spared = self._state in (PILED, HELD) or (self._state is DUE and self._front is not None)
        return self._patience.since if spared else None

    def holds_since(self) -> float | None:
        return self._patience.since if self._state in (KEPT, HEAD, BODY, PILED, HELD) else None

    def make_room(self) -> None:
        self._cut()
        self.transport.abort()

    def _drop_left(self) -> None:
        self._left, self._at = b"", 0
        if self._held_left:
            (self._front or self._crowd).let_go(self._held_left)
            self._held_left = 0

    def _hold_left(self) -> None:
        """Count what is left, or refuse it if there is no room for it."""
        more = len(self._left) - self._at - self._held_left
        if more <= 0:
            return
        if (self._front or self._crowd).hold(more, self._held + self._held_left):
            self._held_left += more
        else:
            self._refuse(503)

    def _happens(self, event: ConnectionEvent) -> None:
        self._state = NEXT[self._state][event]

    def _hold(self, size: int) -> None:
        """Count so many more waiting bytes of a message, or refuse it if there is no room for them."""
        if (self._front or self._crowd).hold(size, self._held):
            self._held += size
        else:
            self._refuse(503)

    def _count(self, size: int) -> None:
        """The same, from inside the parser."""
        if not self._crowd.hold(size, self._held):
            self._stop(503)
        self._held += size

    def _let_go(self) -> None:
        if self._held:
            (self._front or self._crowd).let_go(self._held)
            self._held = 0

    def _stop(self, status: int) -> None:
        self._refused = status
        raise Stopped

    def _expire(self) -> None:
        """End a wait that took too long. While an answer is due, the delay is ours, unless the client does not read."""
        state = self._state
        if self.transport.is_closing():
            self._crowd.closed[Ending.UNREAD] += 1
            self.transport.abort()
        elif state is FREE:
            self._close(Ending.SILENT if self.cycle is None else Ending.IDLE)
        elif state not in (KEPT, HEAD, BODY):
            if self.flow.write_paused:
                self._crowd.closed[Ending.UNREAD] += 1
                self.transport.abort()
        elif (self.flow.read_paused or self.flow.held) and not self._ending:
            # While we do not read, its rest can't come.
            self._await_rest()
        else:
            self._crowd.closed[Ending.LATE] += 1
            self._refuse(503 if self._ending else 408)

    def _close(self, ending: Ending) -> None:
        self._crowd.closed[ending] += 1
        self.transport.close()
        self._see_off()

    def _see_off(self) -> None:
        """A connection that is closed stays until its answers are read; but not for ever."""
        if self.transport.get_write_buffer_size():
            self._patience.wait(LAST_SECONDS if self._ending else REQUEST_SECONDS)

    def _cut(self) -> None:
        """Read nothing any more, and drop the incomplete message."""
        self._happens(CUT)
        self._patience.stop()
        self._kept.clear()
        self._drop_left()
        self._let_go()

    def _refuse(self, status: int) -> None:
        """Answer unless an answer has begun, and close: the next bytes can't be told apart from this message."""
        self._cut()
        waits = self.cycle is not None and not self.cycle.response_complete
        if waits and not self.cycle.more_body:
            # A whole request came before, and the client would take this as its answer. Its own answer will close.
            self.cycle.keep_alive = False
            self.flow.hold()
            return
        begun = waits and self.cycle.response_started
        if not begun and not self.transport.is_closing():
            if (tell := getattr(self.app, "refused", None)) is not None:
                # Our application counts it; the floors of the bench do not.
                tell(status)
            self.transport.write(ANSWERS[status])
        self.transport.close()
        self._see_off()
