"""All present messages of a subject filter in a stream, read once through a consumer that leaves no trace.

It serves parked events and stage records: a request for each of thousands of small messages would take seconds.
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
# So long the consumer outlives a reader that died (FORGOTTEN), or one that may not delete it (LEFT).
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
    """Every message that matches `subjects`, in the order of the stream; messages stored meanwhile are left out.

    A caller that stops early closes it (`contextlib.aclosing`).

    Args:
        start: where to begin, in the keys of a consumer's configuration; None: at the beginning.
        headers_only: bring no data; a header tells its size.
        leave: let the consumer expire after `LEFT`: the right to delete one is the right to delete any.

    Raises:
        Unavailable: NATS went away before the end.
        ApiError: the stream does not exist, or the server refuses.
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
                # Counted messages have been deleted since.
                return
            if arrived not in (PullEnd.FILLED, PullEnd.LIMITED):
                raise Unavailable(f"stream {stream} could not be read to its end")
    finally:
        await inbox.close()
        if not leave:
            with suppress(HeadraceError):
                await api.call(f"CONSUMER.DELETE.{stream}.{made['name']}", timeout=1.0)
