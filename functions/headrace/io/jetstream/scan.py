"""All messages of a subject filter in a stream, as they are now, read once through a consumer that leaves no trace.

For parked events and stage records: thousands of small messages, for which one question each would take seconds.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from datetime import timedelta
from typing import Any

from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.nats.jetstream import Message
from headrace.core.nats.pull_status import PullEnd
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.jetstream.pull import PullInbox
from headrace.io.nats.client import Client

BATCH = 500
BATCH_BYTES = 16 * 1024 * 1024
PATIENCE = timedelta(seconds=2)
# A reader that died has left its consumer behind for so long; one that may not delete it, too.
FORGOTTEN = timedelta(seconds=60)
LEFT = timedelta(seconds=10)


async def scan(
    client: Client,
    api: JetStreamApi,
    stream: str,
    subjects: str,
    *,
    start: dict[str, Any] | None = None,
    headers_only: bool = False,
    leave: bool = False,
) -> AsyncGenerator[Message]:
    """Every message that matches `subjects`, in the order of the stream; what is stored meanwhile is left out.

    Whoever stops early closes it (`contextlib.aclosing`).

    Args:
        start: where to begin, as a consumer's configuration says it; at the beginning without.
        headers_only: bring no data, which a header tells the size of.
        leave: the consumer goes by itself, after `LEFT`: whoever may delete one may delete any.

    Raises:
        Unavailable: NATS went away before the end.
        ApiError: there is no such stream, or it refuses.
    """
    config = {
        "ack_policy": "none",
        "filter_subject": subjects,
        "deliver_policy": "all",
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": (LEFT if leave else FORGOTTEN) // timedelta(microseconds=1) * 1000,
        "headers_only": headers_only,
        **(start or {}),
    }
    made = await api.call(f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config})
    arrivals: asyncio.Queue[Message | PullEnd] = asyncio.Queue()
    inbox = PullInbox(client, stream, made["name"], arrivals.put_nowait, arrivals.put_nowait)
    try:
        await inbox.open()
        left = int(made["num_pending"])
        while left > 0:
            await inbox.pull(min(left, BATCH), PATIENCE, BATCH_BYTES)
            while not isinstance(arrived := await arrivals.get(), PullEnd):
                left -= 1
                yield arrived
            if arrived is PullEnd.EXPIRED:
                # What was counted has been deleted since.
                return
            if arrived not in (PullEnd.FILLED, PullEnd.LIMITED):
                raise Unavailable(f"stream {stream} could not be read to its end")
    finally:
        await inbox.close()
        if not leave:
            with suppress(HeadraceError):
                await api.call(f"CONSUMER.DELETE.{stream}.{made['name']}", timeout=1.0)
