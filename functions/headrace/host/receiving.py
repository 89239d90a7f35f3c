"""`receive` wired to the world."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from headrace.core.errors import Unavailable
from headrace.core.http import Request, Response
from headrace.core.jetstream import PubAck
from headrace.core.nats_codec import Encoded
from headrace.core.settings import ReceiveSettings
from headrace.io import environment, web
from headrace.io.api import JetStreamApi
from headrace.io.client import Client
from headrace.io.jetstream import JetStream
from headrace.io.wake import WakeHints
from headrace.receive import ALLOW, Effects, receive


class Receiving:
    """The handler of `receive`."""

    @classmethod
    def configured(cls) -> Callable[[Client, JetStreamApi], Receiving]:
        """Read the settings now, so that a wrong one ends the process before it serves."""
        return partial(cls, environment.read(ReceiveSettings))

    def __init__(self, settings: ReceiveSettings, client: Client, api: JetStreamApi) -> None:
        self._settings = settings
        self._jetstream = JetStream(client, api)
        self._waiting = 0
        self._effects = Effects(
            publish=self._publish,
            wake=WakeHints(self._jetstream.hint, self._settings.wake_interval.total_seconds()),
            max_event_bytes=lambda: self._jetstream.max_event_bytes,
        )

    async def handle(self, request: Request, receive_: web.Receive, send: web.Send) -> None:
        await web.answer(self._receive(request, receive_), send, ALLOW)

    def drain(self) -> None:
        """Nothing to do: an answer comes only after JetStream's, so whatever is accepted is stored."""

    async def close(self) -> None:
        """Nothing of its own."""

    async def _receive(self, request: Request, receive_: web.Receive) -> Response:
        held = 0

        def charge(size: int) -> None:
            """Bytes count from the moment they are here, so that neither slow clients nor a slow NATS pile them up."""
            nonlocal held
            if self._waiting and self._waiting + size > self._settings.max_waiting_bytes:
                raise Unavailable("too many events are on their way already: try again later")
            held += size
            self._waiting += size

        async def body(limit: int) -> bytes:
            return await web.read_body(receive_, request, limit, charge)

        try:
            return await receive(request, body, self._effects)
        finally:
            self._waiting -= held

    async def _publish(self, message: Encoded) -> PubAck:
        return await self._jetstream.publish(message, self._settings.publish_timeout.total_seconds())
