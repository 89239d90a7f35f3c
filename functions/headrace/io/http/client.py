"""The POST of one event to one address; its outcome is a value.

The client has an exact deadline, bounded answers, no redirects, no proxies, no cookies, no decompression.
`headrace.core.delivery.delivery` judges the answer. Nothing that the other side does raises an error.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache

from headrace.core.delivery.subscriber import Destination
from headrace.core.errors import InvalidEvent, InvalidSpec
from headrace.core.http import Headers, HttpAnswer
from headrace.io.http.address import Address, parse
from headrace.io.http.dial import Dial, dial
from headrace.io.http.pool import Origin, Pool
from headrace.io.http.posting import OnTimed, Sender, Terms, failed, post
from headrace.io.http.request import HeaderNames, RequestHead
from headrace.io.http.resolver import Ask, ask_system
from headrace.io.process import clock

# Destinations that stay prepared; they come from Subscriptions, a few for each.
REMEMBERED = 1024
# Each costs a file descriptor on both sides; a process usually has 1024 of them.
MOST_IDLE = 512


class HttpClient:
    """A pooled HTTP/1.1 client; made inside the loop that uses it."""

    def __init__(self, *, most_idle: int = MOST_IDLE, ask: Ask = ask_system, dial: Dial = dial) -> None:
        """Args:
        most_idle: connections, of all servers together, that are kept without a request on them.
        ask: looks names up; called on threads, for many names at once.
        dial: connects to one of a name's addresses.
        """
        self._pool = Pool(most_idle, ask, dial)
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
        """One POST; the caller bounds how many there are at once.

        Args:
            headers: sent in their order; Host and the framing of the body are ours, and such headers are dropped.
            timeout: for everything: name look-up, connection, sending, the whole answer.
            limit: bytes of the answer's body to read. Of a body that is no event, the first `ERROR_BYTES` are kept.
            reply: is an event in the answer wanted? If not, it is kept as any other body.
        """
        now = clock.monotonic()
        seconds = timeout.total_seconds()
        try:
            origin, request = self._route(destination)
            head = request.render(headers, len(body))
        except (InvalidSpec, InvalidEvent) as error:
            return failed(error, seconds)
        return await post(Terms(origin, seconds, limit, reply), head, body, now + seconds, origin.take(now))

    def sender(
        self,
        destination: Destination,
        headers: Headers,
        timeout: timedelta,
        limit: int,
        *,
        reply: bool = True,
        timed: OnTimed = lambda _answer, _seconds: None,
    ) -> Sender:
        """A sender of many POSTs to one destination; the arguments are those of `post`.

        Args:
            headers: common to all, after each one's own.
            timed: called at the end of each POST.

        Raises:
            InvalidSpec: the destination is no address.
            InvalidEvent: a header can't be sent.
        """
        origin, request = self._route(destination)
        return Sender(Terms(origin, timeout.total_seconds(), limit, reply), request.ready(headers), timed)

    def trust(self, authorities: str) -> None:
        """Trust these, too (PEM), in each connection that is opened from now on."""
        self._pool.trust = authorities

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
    """The address without its target: connections are shared by server."""
    return Address(address.tls, address.host, address.port, address.host_header, b"")
