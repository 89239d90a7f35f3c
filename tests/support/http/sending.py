"""One HTTP request with exactly the headers that a test gives, and its answer as a value."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
from multidict import CIMultiDict
from yarl import URL

AUTOMATIC = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")

BINARY = {
    "ce-specversion": "1.0",
    "ce-id": "1",
    "ce-source": "/shop",
    "ce-type": "order.created",
    "content-type": "application/json",
}


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        """What an answer that explains itself says (RFC 9457)."""
        assert self.headers["content-type"] == "application/problem+json", self
        assert self.json["status"] == self.status
        found: str = self.json["detail"]
        return found


Ask = Callable[..., Awaitable[Reply]]


async def send(
    url: str,
    body: bytes | AsyncIterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
) -> Reply:
    """One request on a connection of its own, to the URL as it is written.

    An asynchronous iterable is sent in chunks, without a length.
    """
    # aiohttp warns of large bytes, though it sends them all the same.
    data = io.BytesIO(body) if isinstance(body, bytes) and len(body) > 2**20 else body
    async with (
        aiohttp.ClientSession(skip_auto_headers=AUTOMATIC) as session,
        session.request(method, URL(url, encoded=True), data=data, headers=headers, allow_redirects=False) as answer,
    ):
        return Reply(answer.status, CIMultiDict(answer.headers), await answer.read())
