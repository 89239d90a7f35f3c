"""One connection for one command, and what the verbs ask of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from headrace.core.errors import Unavailable
from headrace.io.jetstream.admin import Admin
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.data_path import JetStream
from headrace.io.nats.client import Client
from headrace_cli.access.announcement import without_credentials
from headrace_cli.access.place import Place

CONNECT_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Session:
    """The connections of a command while it runs."""

    place: Place
    client: Client
    api: JetStreamApi
    jetstream: JetStream

    @property
    def admin(self) -> Admin:
        return Admin(self.api, self.jetstream)


@asynccontextmanager
async def session(place: Place) -> AsyncIterator[Session]:
    """A connected session.

    Raises:
        Unavailable: NATS does not answer; the message says at which address, and where that came from.
    """
    client = Client(place.nats, name="kn-jetstream")
    try:
        try:
            await client.ready(CONNECT_SECONDS)
        except Unavailable as error:
            url = without_credentials(place.nats.url)
            raise Unavailable(f"no NATS at {url}, which is from {place.source}: {error}") from None
        api = JetStreamApi(client)
        yield Session(place, client, api, JetStream(client, api))
    finally:
        await client.close()
