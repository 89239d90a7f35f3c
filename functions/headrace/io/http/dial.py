"""From socket addresses to a connected socket: the first that takes us.

Source: RFC 8305 (Happy Eyeballs), in a simple form.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Sequence

from headrace.io.http.resolver import SocketAddress

# RFC 8305, section 8: how long one address may be silent before the next is tried beside it.
STAGGER_SECONDS = 0.25


class Unreachable(Exception):
    """No address took the connection; the text tells what each of them said."""


async def dial(addresses: Sequence[SocketAddress]) -> socket.socket:
    """A connected socket, not blocking. All others are closed, and all of them when the caller is cancelled.

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
        raise Unreachable(f"{address.address[0]}: {_words(error)}") from error
    try:
        connection.setblocking(False)
        await asyncio.get_running_loop().sock_connect(connection, address.address)
    except OSError as error:
        connection.close()
        raise Unreachable(f"{address.address[0]}: {_words(error)}") from error
    except asyncio.CancelledError:
        connection.close()
        raise
    return connection


def _discard(task: asyncio.Task[socket.socket]) -> None:
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _words(error: OSError) -> str:
    # The event loops put their own words in place of the system's.
    return os.strerror(error.errno) if error.errno else str(error)
