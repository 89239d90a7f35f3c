"""Opens one lease: a POST to `forward` that lasts as long as the lease does.

It turns what HTTP says into a `LeaseAnswer` or one of our errors, and decides nothing. A cancelled call closes its
connection, and `forward` then gives back the events that it holds.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Self

import aiohttp

from headrace.core.delivery import bearer, lease
from headrace.core.delivery.lease import ENDING, PROGRESS_SECONDS, Lease, LeaseAnswer
from headrace.core.delivery.subscriber import LONGEST_TIMEOUT
from headrace.core.errors import HeadraceError, InvalidSpec, Refused, Unavailable
from headrace.io.http import bounded_body
from headrace.io.process import tls

CONNECT_SECONDS = 10.0
# A lease may be silent for as long as its slowest subscriber, and a node that died or was cut off says nothing either.
# So the kernel asks whether `forward` still knows of the connection: after 10 s of silence, and for 15 s.
KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
LINES = "application/x-ndjson"
# Before the lease begins there may be a cold start and a queue; its last delivery may take the longest timeout.
START_SLACK = 60.0
# An answer holds numbers by outcome, but the program that answers is the namespace owner's choice.
LONGEST_ANSWER = 64 * 1024
# Before its answer a lease sends a line of 300 bytes every two seconds, for as long as the longest timeout.
LONGEST_NEWS = 1024 * 1024


class Meanwhile(NamedTuple):
    """Listeners to the news that a lease sends before its answer.

    Attributes:
        ending: called when forward was told to end and the lease only waits for its subscribers.
        counted: called now and then, and at the answer, with the events per outcome since the lease began.
        pending: called now and then with the number of messages that no lease has pulled.
    """

    ending: Callable[[], None] = lambda: None
    counted: Callable[[Mapping[str, int]], None] = lambda _: None
    pending: Callable[[int], None] = lambda _: None


_NOTHING = Meanwhile()


class LeaseClient:
    """Opens leases; made inside the loop that uses it, closed by its owner."""

    def __init__(self, token: str | Callable[[str], str]) -> None:
        """Args:
        token: the shared token, or a function that gives the token to show at a URL.
        """
        self._token = token if callable(token) else lambda _: token
        self._trust = tls.SystemTrust()
        # Each lease has a fresh connection: it lasts seconds, and a kept connection may lead to a forward that is being
        # scaled away.
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, socket_factory=kept_alive),
            headers=bounded_body.AS_SENT,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: object) -> None:
        await self._session.close()

    async def open(self, url: str, wanted: Lease, meanwhile: Meanwhile = _NOTHING) -> LeaseAnswer:
        """Hold one lease until it ends.

        Raises:
            Unavailable: forward can't be reached, broke off, or has no NATS.
            Refused: forward will not: 401 token, 404 no such consumer, 409 not ours or not deliverable.
        """
        timeout = aiohttp.ClientTimeout(
            total=wanted.seconds + LONGEST_TIMEOUT.total_seconds() + START_SLACK,
            sock_connect=CONNECT_SECONDS,
        )
        headers = {"Authorization": f"Bearer {self._token(url)}"}
        asked = replace(wanted, progress_seconds=wanted.progress_seconds or PROGRESS_SECONDS).to_json()
        try:
            async with self._session.post(
                url, json=asked, headers=headers, ssl=self._trust.at(url), timeout=timeout, allow_redirects=False
            ) as answer:
                if answer.headers.get(ENDING[0]) == ENDING[1]:
                    meanwhile.ending()
                text = bearer.hidden(await _body(answer, meanwhile), wanted.tokens).decode(errors="replace")
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unavailable(f"forward at {url}: {error or type(error).__name__}") from error
        if answer.status == 200:
            found = parsed(text, url)
            meanwhile.counted(found.counts)
            return found
        raise refusal("forward", url, answer.status, text, answer.headers)


def kept_alive(address: tuple[Any, ...]) -> socket.socket:
    """A socket for this address, as `getaddrinfo` gives it, that notices when its peer is gone."""
    family, kind, protocol = address[:3]
    plug = socket.socket(family, kind, protocol)
    plug.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        # Other systems than Linux may call them otherwise, and then probe as they are used to.
        if hasattr(socket, name):
            plug.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return plug


async def _body(answer: aiohttp.ClientResponse, meanwhile: Meanwhile) -> bytes:
    """The last line of the answer; the lines before it go to the listeners as they arrive."""
    if answer.content_type != LINES:
        return await bounded_body.body_of(answer, LONGEST_ANSWER)
    last = b""
    async for line in bounded_body.lines_of(answer, LONGEST_ANSWER, LONGEST_NEWS):
        news = lease.read_news(line)
        if news is None:
            last = line
            continue
        if news.ending:
            meanwhile.ending()
        if news.counts is not None:
            meanwhile.counted(news.counts)
        if news.pending is not None:
            meanwhile.pending(news.pending)
    return last


def parsed(text: str, url: str) -> LeaseAnswer:
    """Read the answer's JSON.

    Raises:
        Unavailable, Refused: the lease has failed after the head of its answer was sent.
        Unavailable: another program than forward has answered.
    """
    try:
        body = json.loads(text)
        failure = lease.read_failure(body)
        if failure is None:
            return lease.read_answer(body)
    except (ValueError, RecursionError, InvalidSpec) as error:
        raise Unavailable(f"{url} answered 200, but not as forward does: {text[:100]!r}") from error
    waits = {} if failure.retry_after is None else {"Retry-After": str(failure.retry_after)}
    raise refusal("forward", url, failure.status, text, waits)


def refusal(who: str, url: str, status: int, text: str, headers: Mapping[str, str]) -> HeadraceError:
    """The error for an answer that is not 200: 4xx is refused, any other status may be better later."""
    words = f"{who} at {url} answered {status}: {_detail(text)}"
    if 400 <= status < 500 and status not in (408, 429):
        return Refused(words, status=status)
    try:
        return Unavailable(words, retry_after=min(60.0, max(0.1, float(headers.get("Retry-After", "1")))))
    except ValueError:
        return Unavailable(words)


def _detail(text: str) -> str:
    try:
        problem: Any = json.loads(text)
        return str(problem["detail"])
    except (ValueError, KeyError, TypeError):
        return text[:200]
