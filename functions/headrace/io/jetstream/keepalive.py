"""Keeps the server from redelivering a message while a subscriber works on it.

One sweep over all messages replaces a timer for each: ten thousand events in flight cost one task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from headrace.core.errors import Unavailable
from headrace.core.nats.jetstream import IN_PROGRESS, Message

# A quarter of the ack wait of 8 s (ADR 011): two sweeps may fail before the server redelivers.
SWEEP_SECONDS = 2.0


class KeepAlive:
    """Sends in-progress acks for every held message, every two seconds."""

    def __init__(self, settle: Callable[[Message, bytes], Awaitable[None]], interval: float = SWEEP_SECONDS) -> None:
        self._settle = settle
        self._interval = interval
        self._held: dict[str, Message] = {}
        self._sweeping: asyncio.Task[None] | None = None

    @property
    def held(self) -> int:
        return len(self._held)

    def hold(self, message: Message) -> None:
        self._held[message.reply] = message
        if self._sweeping is None or self._sweeping.done():
            self._sweeping = asyncio.create_task(self._sweep(), name="keep-alive")

    def holds_twin(self, message: Message) -> bool:
        """Is another delivery of this message held, forgotten by the server?

        It looks at all held messages, so ask it only about a message that comes again.
        """
        whose = message.stream, message.consumer, message.sequence
        return any((one.stream, one.consumer, one.sequence) == whose for one in self._held.values())

    def release(self, message: Message) -> None:
        self._held.pop(message.reply, None)

    async def _sweep(self) -> None:
        while self._held:
            await asyncio.sleep(self._interval)
            for message in list(self._held.values()):
                if message.reply not in self._held:
                    continue
                try:
                    await self._settle(message, IN_PROGRESS)
                except Unavailable:
                    # The server is away for all of them; the next sweep tries again.
                    break
                except Exception as error:  # noqa: BLE001  # the trouble of one must not redeliver all others
                    words = {"message": "a message could not be kept from being redelivered", "exception": error}
                    asyncio.get_running_loop().call_exception_handler(words)
