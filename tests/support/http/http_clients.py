"""The HTTP clients of `forward`, with little to say per POST."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from headrace.core.delivery.subscriber import Destination
from headrace.core.http import Headers, HttpAnswer
from headrace.io.http import HttpClient
from tests.support.http.sink_client import SinkClient

MIB = 1024 * 1024


class Client:
    """A client whose POSTs have defaults."""

    def __init__(self, client: HttpClient | SinkClient) -> None:
        self._client = client

    async def post(
        self,
        uri: str,
        headers: Headers = (),
        body: bytes = b"{}",
        *,
        seconds: float = 60.0,
        limit: int = MIB,
        ca_certs: str | None = None,
        reply: bool = True,
    ) -> HttpAnswer:
        destination = Destination(uri, ca_certs)
        if isinstance(self._client, HttpClient):
            return await self._client.post(destination, headers, body, timedelta(seconds=seconds), limit, reply=reply)
        return await self._client.post(destination, headers, body, timedelta(seconds=seconds), limit)

    def trust(self, authorities: str) -> None:
        assert isinstance(self._client, HttpClient), "only ours has them"
        self._client.trust(authorities)

    async def close(self) -> None:
        await self._client.close()


@asynccontextmanager
async def opened(kind: Callable[..., HttpClient | SinkClient] = HttpClient, **options: Any) -> AsyncIterator[Client]:
    client = Client(kind(**options))
    try:
        yield client
    finally:
        await client.close()
