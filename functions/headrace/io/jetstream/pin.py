"""The pin of the one lease that a by-key consumer serves: a pull claims it, requests keep it, the end gives it up.

The server pins the first puller of the group that gets a message, names the pin in every message, and serves no other
puller until it has not heard of the pin for `PIN_TIMEOUT`, or the pin is given up (NATS 2.11, priority group
`pinned_client`). ADR 015.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress

from headrace.core.delivery.order_spec import GROUP
from headrace.core.errors import HeadraceError
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client

HEADER = "nats-pin-id"
# Only a pull counts as a sign of life, and a lease with slow subscribers may not pull for a minute. A fifth of the
# timeout.
RENEW_SECONDS = 1.0


class Pin:
    """The pin of one lease; it has no id before the first message."""

    def __init__(self, client: Client, api: JetStreamApi, stream: str, consumer: str) -> None:
        self._client = client
        self._api = api
        self._place = f"{stream}.{consumer}"
        self._id = ""
        self._renewing: asyncio.Task[None] | None = None

    @property
    def pull_fields(self) -> bytes:
        """The fields of a pull request that carry the group and the pin."""
        return b',"group":"%s"' % GROUP.encode() + (b',"id":"%s"' % self._id.encode() if self._id else b"")

    def seen(self, headers: Mapping[str, str], inbox: Callable[[], str]) -> None:
        """Take the pin's id from the headers of a message.

        Args:
            inbox: the subject for the server's complaints about a renewal that is sent now.
        """
        if not self._id and (id := headers.get(HEADER, "")).isalnum():
            self._id = id
            self._renewing = asyncio.create_task(self._renew(inbox), name="pin")

    def lost(self) -> None:
        """Another lease has the pin."""
        self._id = ""
        if self._renewing is not None:
            self._renewing.cancel()

    async def give_up(self) -> None:
        """Let the next lease in at once; otherwise it would come in after the timeout."""
        id = self._id
        self.lost()
        if not id:
            return
        with suppress(HeadraceError):
            info = await self._api.call(f"CONSUMER.INFO.{self._place}", timeout=1.0)
            # A process that was frozen may have lost the pin unawares, and must not throw out its new owner.
            if any(group.get("pinned_client_id") == id for group in info.get("priority_groups") or ()):
                await self._api.call(f"CONSUMER.UNPIN.{self._place}", {"group": GROUP}, timeout=1.0)
                # NATS 2.11 serves the waiting pulls only when another pull comes.
                await self._ask(id, "")

    async def _renew(self, inbox: Callable[[], str]) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            with suppress(HeadraceError):
                await self._ask(self._id, inbox())

    async def _ask(self, id: str, inbox: str) -> None:
        """Pull for a message of one byte. No message is that short: the pull is a sign of life and brings nothing."""
        request = b'{"batch":1,"max_bytes":1,"expires":1000000,"group":"%s","id":"%s"}' % (GROUP.encode(), id.encode())
        await self._client.publish(f"$JS.API.CONSUMER.MSG.NEXT.{self._place}", request, reply=inbox)
