"""The short way as the server sees it: the front that takes whole messages, and a stand-in for uvicorn's request.

`headrace.server.protocol` calls it; `headrace.receive.short_way` is the front.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, Protocol, TypeAlias

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from headrace.core.http import Headers, Response

Answer: TypeAlias = Callable[[Response], None]


class Front(Protocol):
    """It looks at messages before the parser does."""

    def take(self, data: bytes, answer: Answer) -> int | None:
        """Take bytes from the start of a message, if they are one whole message that needs no parser.

        Args:
            answer: called once and later, if the message was taken.

        Returns:
            How many bytes the message lacks: 0, it was taken. None: nothing has happened, and the parser must read it.
        """

    def hold(self, size: int, held: int) -> bool:
        """Count so many more bytes of a message that is on its way in; False: there is no room for them.

        Args:
            held: the bytes of the same message that are counted already.
        """

    def let_go(self, size: int) -> None:
        """These bytes are held no more, or are counted elsewhere from now on."""

    def when_full(self, ask: Callable[[], None]) -> None:
        """Have it called whenever there is no room for more bytes."""


class OnItsWay:
    """A stand-in for uvicorn's own state of the current request.

    With it uvicorn's drain at shutdown and its clean-up work as for its own requests. It also stands for a request that
    is answered while its body still comes: of that nothing else is kept.
    """

    __slots__ = ("disconnected", "keep_alive", "more_body", "response_complete", "response_started")

    # uvicorn sets it when the connection is lost; no coroutine waits for it.
    message_event: ClassVar = asyncio.Event()

    def __init__(self) -> None:
        self.response_started = False
        self.response_complete = True
        self.disconnected = False
        # The short way takes whole messages only.
        self.more_body = False
        self.keep_alive = True


def encode(response: Response, *, closing: bool) -> bytes:
    """An answer as uvicorn writes it."""
    return _head(response.status, response.headers, len(response.body), closing) + response.body


@lru_cache(64)
def _head(status: int, headers: Headers, length: int, closing: bool) -> bytes:
    lines = [b"%b: %b\r\n" % header for header in headers]
    lines.append(b"content-length: %d\r\n" % length)
    if closing:
        lines.append(b"connection: close\r\n")
    return b"".join((STATUS_LINE[status], *lines, b"\r\n"))
