"""The place of the one lease that a by-key consumer serves: claimed by pulling, kept by asking, given up at the end.

The server pins the first puller of the group that gets a message, names the pin in every message, and serves nobody
else until the pin has not been heard of for `PIN_TIMEOUT` or is given up (NATS 2.11, priority group `pinned_client`).
ADR 015.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

from headrace.core.delivery.order_spec import GROUP
from headrace.core.errors import HeadraceError
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client

HEADER = "nats-pin-id"
# Only pulls are heard, and a lease whose subscribers are slow may not pull for a minute. A fifth of the timeout.
RENEW_SECONDS = 1.0


class Pin:
    """The pin of one lease; without an id until the first message has come."""

    def __init__(self, client: Client, api: JetStreamApi, stream: str, consumer: str) -> None:
        self._client = client
        self._api = api
        self._place = f"{stream}.{consumer}"
        self._id = ""
        self._renewing: asyncio.Task[None] | None = None

    @property
    def pull_fields(self) -> bytes:
        """What a pull has to say beside what it asks for."""
        return b',"group":"%s"' % GROUP.encode() + (b',"id":"%s"' % self._id.encode() if self._id else b"")

    def seen(self, headers: Mapping[str, str], inbox: str) -> None:
        """A message came: it names the pin.

        Args:
            inbox: where the server may complain of a renewal.
        """
        if not self._id and (id := headers.get(HEADER, "")).isalnum():
            self._id = id
            self._renewing = asyncio.create_task(self._renew(inbox), name="pin")

    def lost(self) -> None:
        """Another has it."""
        self._id = ""
        if self._renewing is not None:
            self._renewing.cancel()

    async def give_up(self) -> None:
        """Let the next lease in at once; without it, it would come in after the timeout."""
        id = self._id
        self.lost()
        if not id:
            return
        with suppress(HeadraceError):
            info = await self._api.call(f"CONSUMER.INFO.{self._place}", timeout=1.0)
            # Frozen for a while, we may have lost it unawares, and must not throw out who has it now.
            if any(group.get("pinned_client_id") == id for group in info.get("priority_groups") or ()):
                await self._api.call(f"CONSUMER.UNPIN.{self._place}", {"group": GROUP}, timeout=1.0)
                # NATS 2.11 looks at those who wait only when somebody asks.
                await self._ask(id, "")

    async def _renew(self, inbox: str) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(HeadraceError):
                await self._ask(self._id, inbox)

    async def _ask(self, id: str, inbox: str) -> None:
        """A pull for a message of one byte, which no message is: it is heard, and brings nothing."""
        request = b'{"batch":1,"max_bytes":1,"expires":1000000,"group":"%s","id":"%s"}' % (GROUP.encode(), id.encode())
        await self._client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._place}", request, reply=inbox)
