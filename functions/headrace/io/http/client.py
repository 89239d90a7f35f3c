"""POST one event to one address, and give back what came of it as a value.

Exact deadline, bounded answers, no redirects, no proxies, no cookies, no decompression: what a subscriber says is
judged by `headrace.core.delivery`, not here. Never raises for anything that the other side does.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import lru_cache
from time import monotonic

from headrace.core.errors import InvalidEvent, InvalidSpec
from headrace.core.http import Headers, HttpAnswer
from headrace.core.subscriber import Destination
from headrace.io.http.address import Address, parse
from headrace.io.http.connection import Broken
from headrace.io.http.lookups import Ask, ask_system
from headrace.io.http.pool import Origin, Pool
from headrace.io.http.request import HeaderNames, RequestHead

# Destinations that stay prepared; they come from Subscriptions, a few for each.
REMEMBERED = 1024
LONGEST_ERROR = 300
# Each costs a file descriptor on both sides; a process may usually have 1024.
MOST_IDLE = 512


class HttpClient:
    """A pooled HTTP/1.1 client; made inside the loop that uses it."""

    def __init__(self, *, most_idle: int = MOST_IDLE, ask: Ask = ask_system) -> None:
        """Connects to nothing yet.

        Args:
            most_idle: connections to all servers together that are kept without a request on them.
            ask: looks names up; called on threads, for many names at once.
        """
        self._pool = Pool(most_idle, ask)
        self._names = HeaderNames()
        self._origin = lru_cache(REMEMBERED)(self._make_origin)
        self._route = lru_cache(REMEMBERED)(self._make_route)

    async def post(
        self,
        destination: Destination,
        headers: Headers,
        body: bytes,
        timeout: timedelta,
        limit: int,
        *,
        reply: bool = True,
    ) -> HttpAnswer:
        """One POST; how many at once is the caller's affair.

        Args:
            headers: sent in their order; Host and what frames the body are ours, and dropped.
            timeout: for everything: name look-up, connection, sending, the whole answer.
            limit: bytes of the answer's body to read. Of what is no event, the first `ERROR_BYTES` are kept.
            reply: is an event in the answer wanted? If not, it is kept as any other body.
        """
        now = monotonic()
        seconds = timeout.total_seconds()
        deadline = now + seconds
        try:
            origin, request = self._route(destination)
            head = request.render(headers, len(body))
            connection = origin.take(now)
            while True:
                fresh = connection is None
                if connection is None:
                    connection = await origin.connect(deadline)
                answer = connection.exchange(head, body, limit, deadline, reply=reply)
                try:
                    return await answer
                except (asyncio.CancelledError, GeneratorExit):
                    connection.abandon(answer)
                    raise
                except Broken as error:
                    # A kept-alive connection that the server was just closing: nothing was answered, and no attempt
                    # of the budget may be spent on it.
                    if fresh or not error.silent:
                        raise
                    connection = None
                finally:
                    # A failed one holds its traceback, and so this frame with the event in it: a cycle that only the
                    # rarest of the collector's passes would find.
                    del answer
        except TimeoutError:
            return HttpAnswer(None, error=f"no answer within {seconds:g} s")
        except (Broken, InvalidSpec, InvalidEvent) as error:
            return HttpAnswer(None, error=str(error)[:LONGEST_ERROR])

    async def close(self) -> None:
        """Close every connection; posts that wait for an answer end with an error."""
        await self._pool.close()

    def _make_route(self, destination: Destination) -> tuple[Origin, RequestHead]:
        address = parse(destination.uri)
        ca_certs = destination.ca_certs if address.tls else None
        return self._origin(_server(address), ca_certs), RequestHead(address, self._names)

    def _make_origin(self, server: Address, ca_certs: str | None) -> Origin:
        return Origin(self._pool, server, ca_certs or None)


def _server(address: Address) -> Address:
    """The address without what is asked for there: what connections have in common."""
    return Address(address.tls, address.host, address.port, address.host_header, b"")
