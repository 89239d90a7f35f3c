"""Producers: they send at a steady rate, send again what they have no answer for, and write down what they are told."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable, Mapping

import aiohttp

from tests.faults.ledger import Sent

EVENT = {"ce-specversion": "1.0", "ce-source": "/bench", "ce-type": "bench.event", "content-type": "application/json"}
# Of one try; a producer of Knative's own waits longer, which would only make the cells longer.
TRY_SECONDS = 2.0
PAUSE_SECONDS = 0.1


def never_taken(status: int) -> bool:
    """Answers after which sending it again is of no use."""
    return 400 <= status < 500 or status == 507


class Producer:
    """Sends to one channel; use it as an asynchronous context manager."""

    def __init__(
        self,
        url: str,
        sent: Sent,
        *,
        try_seconds: float = TRY_SECONDS,
        patience: float = 30.0,
        final: Callable[[int], bool] = never_taken,
    ) -> None:
        """Args:
        patience: seconds after which an event without an answer is given up.
        final: is an event with this answer given up at once?
        """
        self._url = url
        self._sent = sent
        self._patience = patience
        self._final = final
        self._timeout = aiohttp.ClientTimeout(total=try_seconds)

    async def send(
        self,
        ids: Iterable[str],
        *,
        rate: float = 1_000.0,
        data: bytes = b'{"n": 1}',
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """So many events per second, at most 64 of them without an answer at once."""
        gate = asyncio.Semaphore(64)
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with (
            aiohttp.ClientSession(timeout=self._timeout, headers={**EVENT, **(headers or {})}) as session,
            asyncio.TaskGroup() as tasks,
        ):
            for number, id in enumerate(ids):
                await asyncio.sleep(max(0.0, began + number / rate - loop.time()))
                await gate.acquire()
                task = tasks.create_task(self._send(session, id, data))
                task.add_done_callback(lambda _: gate.release())

    async def _send(self, session: aiohttp.ClientSession, id: str, data: bytes) -> None:
        self._sent.sent.add(id)
        self._sent.unknown.add(id)
        loop = asyncio.get_running_loop()
        began = loop.time()
        headers = {"ce-id": id, "ce-sentat": f"{began:.6f}"}
        while loop.time() < began + self._patience:
            status = await self._try(session, headers, data)
            if status == 202:
                self._sent.accepted.add(id)
            elif status is not None and self._final(status):
                self._sent.refused[id] = status
            else:
                self._sent.retried += 1
                self._sent.after[str(status or "none")] += 1
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            self._sent.unknown.discard(id)
            return

    async def _try(self, session: aiohttp.ClientSession, headers: Mapping[str, str], data: bytes) -> int | None:
        try:
            # aiohttp warns of large bytes, though it sends them all the same.
            async with session.post(self._url, data=io.BytesIO(data), headers=headers) as answer:
                await answer.read()
                return answer.status
        except (aiohttp.ClientError, OSError, TimeoutError):
            return None
