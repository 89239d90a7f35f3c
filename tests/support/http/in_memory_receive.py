"""`receive` without a socket and without NATS: bytes in, answers and stored messages out.

The server, the story and the short way are the real ones; a list stands in for the stream. The caller decides in which
pieces the bytes come; no socket grants that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from headrace.core.errors import HeadraceError
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.event_kinds import EventKinds
from headrace.core.event.nats_codec import Encoded
from headrace.core.http import Response
from headrace.core.installation.function_settings import ReceiveSettings
from headrace.core.nats import nats_wire
from headrace.core.nats.jetstream import PubAck
from headrace.core.waiting import Waiting
from headrace.io import web
from headrace.receive.doors import Doors
from headrace.receive.gate import Gate
from headrace.receive.route import ALLOW, Router
from headrace.receive.short_way import Intake
from headrace.receive.story import Outcome, ReceiveEffects, receive
from headrace.server.protocol import BoundedProtocol
from headrace.server.states import ConnectionState
from tests.support.http.in_memory_http import Transport

MOST_WAITING = 1024 * 1024
LARGEST = 2 * 1024


@dataclass
class Said:
    """What came of a connection.

    Attributes:
        stored: subject, header lines in any order, and data of each message.
        by_short_way: how many of them came that way.
        kept: the short way has waited for a body at some time. An answer that needs no body then comes later than by
            ASGI, or not before the end; and garbage that comes together with that body gets none of its own.
        held: bytes that are still counted when it is over.
    """

    written: bytes = b""
    stored: list[tuple[str, frozenset[tuple[str, str]], bytes]] = field(default_factory=list)
    by_short_way: int = 0
    kept: bool = False
    held: int = 0


class _Receive:
    """The ASGI application, with a short way or without."""

    def __init__(self, said: Said, claims: Claims, *, short_way: bool) -> None:
        self._said = said
        self._waiting = Waiting(MOST_WAITING)
        self._effects = ReceiveEffects(
            router=Router(ReceiveSettings()),
            publish=self._publish,
            publish_now=self._publish_now,
            publish_seconds=1.0,
            stored=lambda *_: None,
            monotonic=lambda: 0.0,
            wake=lambda _: None,
            max_event_bytes=lambda: LARGEST,
            refuse=lambda _, error, answer: answer(web.with_headers(web.response_of(error), ALLOW)),
            traced=None,
            claims=claims,
            kinds=EventKinds(),
            gate=Gate(),
            doors=Doors(),
        )
        self._intake = Intake(self._effects, self._waiting, self._effects.doors.plain) if short_way else None

    @property
    def held(self) -> int:
        return self._waiting.size

    def short_way(self, *, secure: bool) -> Intake | None:
        del secure
        return self._intake

    async def __call__(self, scope: Any, receive_: Any, send: Any) -> None:
        request = web.request_of(scope)

        async def body(limit: int) -> bytes:
            return await web.read_body(receive_, request, limit)

        async def answer(response: Response) -> None:
            await web.send_response(send, response, ALLOW)

        try:
            await receive(request, body, self._effects, answer)
        except web.ClientGone:
            pass
        except HeadraceError as error:
            await answer(web.response_of(error))

    async def _publish(self, message: Encoded, _seconds: float) -> PubAck:
        return self._store(message)

    def _publish_now(self, message: Encoded, _seconds: float, published: Callable[[Outcome], None]) -> bool:
        if message.size > LARGEST:
            return False
        self._said.by_short_way += 1
        asyncio.get_running_loop().call_soon(published, self._store(message))
        return True

    def _store(self, message: Encoded) -> PubAck:
        lines = frozenset(nats_wire.pairs(message.block))
        stored = self._said.stored
        known = any(("Nats-Msg-Id", line[1]) in one[1] for one in stored for line in lines if line[0] == "Nats-Msg-Id")
        if not known:
            stored.append((message.subject, lines, message.data))
        return PubAck("KN_S", len(stored), duplicate=known)


async def both_ways(pieces: tuple[bytes, ...], claims: Claims) -> tuple[Said, Said]:
    """The same conversation with the short way and without, which must not be told apart."""
    short = await converse(pieces, claims, short_way=True)
    long = await converse(pieces, claims, short_way=False)
    mine, theirs = (said.written.replace(b"connection: close\r\n", b"") for said in (short, long))
    same = theirs.startswith(mine) if short.kept else short.written == long.written
    assert same, "another answer"
    assert short.stored == long.stored, "another message"
    assert (short.held, long.held, long.by_short_way) == (0, 0, 0), "bytes are counted that nobody holds"
    return short, long


async def converse(pieces: tuple[bytes, ...], claims: Claims, *, short_way: bool) -> Said:
    """Feed a new connection with these pieces, let each take effect, and end it."""
    said, transport, state = Said(), Transport(), ServerState()
    application = _Receive(said, claims, short_way=short_way)
    _CONFIG.loaded_app = application
    serving = BoundedProtocol(_CONFIG, state, {}, asyncio.get_running_loop())
    serving.connection_made(transport)
    for piece in pieces:
        if transport.closed:
            break
        serving.data_received(piece)
        await _settled(state)
        said.kept = said.kept or serving._state is ConnectionState.KEPT
    transport.closed = True
    serving.connection_lost(None)
    await _settled(state)
    assert not state.tasks, "a request is still served after its connection was lost"
    said.written, said.held = bytes(transport.written), application.held
    return said


async def _settled(state: ServerState) -> None:
    """Let every request go as far as it can."""
    before = -1
    while before != state.total_requests:
        before = state.total_requests
        for _ in range(6):
            await asyncio.sleep(0)


async def _nothing(scope: Any, receive_: Any, send: Any) -> None:
    """In the place of the application of each connection."""


_CONFIG = uvicorn.Config(
    _nothing, log_config=None, access_log=False, ws="none", lifespan="off", http=BoundedProtocol, log_level="critical"
)
_CONFIG.load()
