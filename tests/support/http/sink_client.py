"""The POST of an event over aiohttp, which `headrace.io.http` is held against: in behaviour and in CPU.

Exact deadline, bounded answers, no redirects, no proxies, no cookies, no decompression.
"""

from __future__ import annotations

import asyncio
import hashlib
import ssl
from collections import OrderedDict
from datetime import timedelta

import aiohttp
import yarl

from headrace.core.delivery.subscriber import Destination
from headrace.core.http import Headers, HttpAnswer
from headrace.io.process import tls

# As our client: below the 2 s after which gunicorn closes an idle connection.
KEEP_ALIVE_SECONDS = 1.5
# A reply event travels in the answer's headers.
LONGEST_HEADER = 64 * 1024
TLS_CONTEXTS = 64
RESOLVED_SECONDS = 10


class SinkClient:
    """A pooled HTTP/1.1 client; made inside the loop that uses it."""

    def __init__(self) -> None:
        self._contexts: OrderedDict[str, ssl.SSLContext] = OrderedDict()
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS, ttl_dns_cache=RESOLVED_SECONDS
            ),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            skip_auto_headers=("Accept", "Accept-Encoding", "Content-Type"),
            headers={"User-Agent": "headrace"},
            auto_decompress=False,
            trust_env=False,
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
        )

    async def post(
        self, destination: Destination, headers: Headers, body: bytes, timeout: timedelta, limit: int
    ) -> HttpAnswer:
        """One POST.

        Args:
            timeout: for everything: name look-up, connection, sending, the whole answer.
            limit: bytes of the answer's body to read.
        """
        try:
            async with asyncio.timeout(timeout.total_seconds()):
                return await self._post(destination, headers, body, limit)
        except TimeoutError:
            return HttpAnswer(None, error=f"no answer within {timeout.total_seconds():g} s")
        except (aiohttp.ClientError, OSError, ValueError, EOFError) as error:
            return HttpAnswer(None, error=_words(error))

    async def close(self) -> None:
        await self._session.close()

    async def _post(self, destination: Destination, headers: Headers, body: bytes, limit: int) -> HttpAnswer:
        async with self._session.post(
            yarl.URL(destination.uri, encoded=True),
            data=body,
            headers=[(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers],
            allow_redirects=False,
            ssl=self._context(destination),
        ) as answer:
            content, truncated = await _read(answer, limit)
            if truncated:
                # The rest is not worth reading, and may have no end.
                answer.close()
            lowered = tuple((name.lower(), value) for name, value in answer.raw_headers)
            return HttpAnswer(answer.status, lowered, content, truncated)

    def _context(self, destination: Destination) -> ssl.SSLContext | bool:
        if not destination.ca_certs:
            return True
        key = hashlib.sha256(destination.ca_certs.encode()).hexdigest()
        context = self._contexts.get(key)
        if context is None:
            context = tls.of_system()
            context.load_verify_locations(cadata=destination.ca_certs)
            self._contexts[key] = context
            if len(self._contexts) > TLS_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(key)
        return context


async def _read(answer: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    pieces: list[bytes] = []
    size = 0
    async for piece in answer.content.iter_any():
        pieces.append(piece[: limit - size])
        size += len(piece)
        if size > limit:
            return b"".join(pieces), True
    return b"".join(pieces), False


def _words(error: Exception) -> str:
    text = str(error) or type(error).__name__
    return f"{type(error).__name__}: {text}"[:300]
