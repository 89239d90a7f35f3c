"""The JetStream API as requests and JSON.

The JSON is raw on purpose: nats-py's dataclasses drop every configuration key that they do not know, so a
read-modify-write through them loses the keys of newer servers. Every part that asks or administers JetStream uses it:
`headrace.io.jetstream.admin` for `reconcile`, `forward` to read its consumer, the scaler, the CLI.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from headrace.core.errors import Unavailable
from headrace.core.nats.api_error import CONSUMER_NOT_FOUND, MESSAGE_NOT_FOUND, STREAM_NOT_FOUND, ApiError
from headrace.io.nats.client import Client
from headrace.io.nats.contract import Broken

PREFIX = "$JS.API."


class JetStreamApi:
    """Calls `$JS.API.…` and returns the answer's JSON."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(
        self, subject: str, body: Mapping[str, Any] | None = None, *, timeout: float = 5.0
    ) -> dict[str, Any]:
        """One request, as `call("STREAM.INFO.ORDERS")`.

        Raises:
            ApiError: the server refused.
            Unavailable: no answer in `timeout` seconds, or JetStream is not there.
        """
        payload = json.dumps(body).encode() if body is not None else b""
        try:
            answer = await self._client.request(PREFIX + subject, payload, timeout=timeout)
        except Broken:
            raise Unavailable(f"the connection broke before JetStream answered {subject}") from None
        if answer.status == "503":
            raise Unavailable(f"JetStream does not answer {subject}: is it enabled on the server?")
        try:
            parsed = json.loads(answer.data)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            said = f"{answer.status} {answer.description}".strip() or answer.data[:100]
            raise Unavailable(f"{subject} was answered, but not as JetStream does: {said!r}")
        if "error" in parsed:
            raise ApiError(subject, parsed["error"])
        return parsed

    async def find(
        self, subject: str, body: Mapping[str, Any] | None = None, *, timeout: float = 5.0
    ) -> dict[str, Any] | None:
        """Like `call`, but None where the stream, consumer or message does not exist."""
        try:
            return await self.call(subject, body, timeout=timeout)
        except ApiError as error:
            if error.err_code in (STREAM_NOT_FOUND, CONSUMER_NOT_FOUND, MESSAGE_NOT_FOUND):
                return None
            raise

    async def consumers(self, stream: str, *, timeout: float = 5.0) -> AsyncIterator[dict[str, Any]]:
        """All consumers of a stream with their configuration and state; none where there is no such stream."""
        async for consumer in self._pages(f"CONSUMER.LIST.{stream}", "consumers", {}, timeout):
            yield consumer

    async def streams(
        self, subject: str | None = None, *, timeout: float = 5.0, whole: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        """All streams of the account, or those that capture `subject`.

        Args:
            whole: raise Unavailable where a server of the cluster is away, and with it what it knows of its streams.
        """
        body = {"subject": subject} if subject else {}
        async for stream in self._pages("STREAM.LIST", "streams", body, timeout, whole=whole):
            yield stream

    async def _pages(
        self, subject: str, key: str, body: Mapping[str, Any], timeout: float, *, whole: bool = False
    ) -> AsyncIterator[dict[str, Any]]:
        offset = 0
        while True:
            try:
                page = await self.call(subject, {**body, "offset": offset}, timeout=timeout)
            except ApiError as error:
                if error.err_code == STREAM_NOT_FOUND:
                    return
                raise
            items = page.get(key) or []
            if whole and (absent := {*(page.get("missing") or ())} - {item["config"]["name"] for item in items}):
                raise Unavailable(f"NATS does not know now of the streams {', '.join(sorted(absent))}")
            for item in items:
                yield item
            offset += len(items)
            if not items or offset >= page["total"]:
                return
