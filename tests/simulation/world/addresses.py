"""The addresses that `forward` POSTs to: subscribers, reply addresses, dead letter sinks; each does as scripted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.simulation.ledger import Ledger, Post
from tests.simulation.plan import DEAD_LETTER, REPLY, SUBSCRIBER, Deed, Plan, Step
from tests.simulation.world import content
from tests.simulation.world.requests import Reader, Whole, render

PORT = 80
HOSTS = {SUBSCRIBER: "subscriber", REPLY: "reply", DEAD_LETTER: "sink"}
TRICKLED = 8


class Addresses:
    """All addresses of a history, and the POSTs that they have had."""

    def __init__(self, plan: Plan, ledger: Ledger, host_at: Callable[[str], Any]) -> None:
        self._plan = plan
        self._ledger = ledger
        self._host_at = host_at
        self._counts: Counter[tuple[str, str, str]] = Counter()

    async def serve(self) -> None:
        await asyncio.get_running_loop().create_server(lambda: _Connection(self), "0.0.0.0", PORT)

    def arrived(self, request: Whole, peer: str) -> tuple[Post, Step]:
        """Note a POST; gives what to do with it, too."""
        channel, subscription, role = request.line.split(" ")[1].strip("/").split("/")
        name = f"{channel}/{subscription}"
        id = request.headers.get("ce-id", "")
        event = id.removeprefix(content.REPLY) if role == REPLY else id
        planned = self._plan.event(event)
        n = self._counts[event, name, role] = self._counts[event, name, role] + 1
        expected = content.reply(event)[1] if role == REPLY else content.body(event, planned.size if planned else 0)
        code = request.headers.get("ce-knativeerrorcode")
        post = Post(
            event,
            name,
            role,
            n,
            asyncio.get_running_loop().time(),
            self._host_at(peer).name,
            size=len(request.body),
            intact=planned is not None and request.body == expected,
            failed_at=request.headers.get("ce-knativeerrordest", "").rpartition("/")[2],
            failed_with=int(code) if code else None,
        )
        self._ledger.posts.append(post)
        return post, planned.script(name, role).step(n) if planned is not None else Step()


class _Connection(asyncio.Protocol):
    """One connection of a `forward`."""

    def __init__(self, addresses: Addresses) -> None:
        self._addresses = addresses
        self._loop = asyncio.get_running_loop()
        self._reader = Reader()
        self._open: Post | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def connection_lost(self, _exc: Exception | None) -> None:
        if self._open is not None:
            self._open.ended = self._loop.time()
            self._open = None

    def data_received(self, data: bytes) -> None:
        for request in self._reader.feed(data):
            self._open, step = self._addresses.arrived(request, self._transport.get_extra_info("peername")[0])
            self._do(self._open, step)

    def _do(self, post: Post, step: Step) -> None:
        match step.deed:
            case Deed.RESET:
                self._transport.abort()
            case Deed.TAKE_RESET:
                post.taken = True
                self._loop.call_later(step.seconds, self._break_off, post)
            case Deed.HANG | Deed.TAKE_HANG:
                post.taken = step.takes
            case Deed.TRICKLE:
                post.taken = step.takes
                self._trickle(post, step)
            case Deed.ANSWER | Deed.REPLY:
                # Taken before the answer goes out, as by a program that stores first.
                post.taken = step.takes
                self._loop.call_later(step.seconds, self._say, post, step.status, _answer(step, post.event))

    def _break_off(self, post: Post) -> None:
        if self._open is post:
            self._transport.abort()

    def _say(self, post: Post, status: int, answer: bytes) -> None:
        if self._open is not post or self._transport.is_closing():
            return
        self._open = None
        post.status, post.ended = status, self._loop.time()
        self._transport.write(answer)

    def _trickle(self, post: Post, step: Step) -> None:
        answer = _answer(step, post.event)
        size = len(answer) // TRICKLED + 1
        pieces = [answer[start : start + size] for start in range(0, len(answer), size)]
        for number, piece in enumerate(pieces[:-1]):
            self._loop.call_later(step.seconds * number / len(pieces), self._drip, post, piece)
        self._loop.call_later(step.seconds, self._say, post, step.status, pieces[-1])

    def _drip(self, post: Post, piece: bytes) -> None:
        if self._open is post and not self._transport.is_closing():
            self._transport.write(piece)


def _answer(step: Step, event: str) -> bytes:
    headers, body = content.reply(event) if step.deed is Deed.REPLY else ({}, b"")
    if step.retry_after is not None:
        headers["retry-after"] = str(step.retry_after)
    if step.status == 204:
        return b"HTTP/1.1 204 No Content\r\n\r\n"
    return render(f"HTTP/1.1 {step.status} Said", headers, body)
