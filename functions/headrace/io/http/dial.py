"""A connected socket from socket addresses: the first address that accepts wins.

Source: RFC 8305 (Happy Eyeballs), in a simple form.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

from headrace.io.http.socket_address import SocketAddress

# RFC 8305, section 8: how long one address may be silent before the next is tried beside it.
STAGGER_SECONDS = 0.25
# A connection that is neither established nor refused yet.
_UNDER_WAY = (errno.EINPROGRESS, errno.EINTR)

Dial: TypeAlias = Callable[[Sequence[SocketAddress]], Awaitable[socket.socket]]
"""It makes a connected socket, as `dial` does."""


class Unreachable(Exception):
    """No address accepted the connection; the text says why each of them failed."""


async def dial(addresses: Sequence[SocketAddress]) -> socket.socket:
    """A connected socket, not blocking. All other sockets are closed; when the caller is cancelled, every one is.

    Raises:
        Unreachable: every address failed.
    """
    if len(addresses) == 1:
        return await _connected(addresses[0])
    left = deque(addresses)
    trying: set[asyncio.Task[socket.socket]] = set()
    failures: list[str] = []
    try:
        while left or trying:
            if left:
                trying.add(asyncio.create_task(_connected(left.popleft())))
            wait = STAGGER_SECONDS if left else None
            done, _ = await asyncio.wait(trying, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                trying.discard(task)
                failure = task.exception()
                if failure is None:
                    return task.result()
                failures.append(str(failure))
    finally:
        for task in trying:
            task.add_done_callback(_discard)
            task.cancel()
    raise Unreachable("; ".join(dict.fromkeys(failures)))


async def _connected(address: SocketAddress) -> socket.socket:
    try:
        connection = socket.socket(address.family, socket.SOCK_STREAM)
    except OSError as error:
        raise Unreachable(f"{address.address[0]}: {error.strerror or error}") from error
    try:
        connection.setblocking(False)
        code = connection.connect_ex(address.address)
        if code in _UNDER_WAY:
            await _decided(connection)
            code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    except OSError as error:
        connection.close()
        raise Unreachable(f"{address.address[0]}: {error.strerror or error}") from error
    except asyncio.CancelledError:
        connection.close()
        raise
    if code:
        connection.close()
        raise Unreachable(f"{address.address[0]}: {os.strerror(code)}")
    return connection


async def _decided(connection: socket.socket) -> None:
    """Wait until the connection is established, or has failed."""
    # Not `sock_connect`: uvloop looks even a numeric address up, on threads that look-ups of names may hold.
    loop = asyncio.get_running_loop()
    decided: asyncio.Future[None] = loop.create_future()
    loop.add_writer(connection, _tell, decided)
    try:
        await decided
    finally:
        loop.remove_writer(connection)


def _tell(decided: asyncio.Future[None]) -> None:
    # The event loop calls as long as the socket is writable.
    if not decided.done():
        decided.set_result(None)


def _discard(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()
