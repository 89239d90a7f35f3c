"""Where a consumer would begin, and a consumer that is put back there.

The server resets it, so that it is never away: to make it again would lose its place to whatever dies in between.
Called by `headrace.io.jetstream.admin`; `headrace.core.channel.position` says where.
"""

from __future__ import annotations

import secrets
from contextlib import suppress

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace.io.jetstream.api import JetStreamApi

# A consumer that nobody could delete goes by itself.
IDLE_NANOSECONDS = 5_000_000_000


async def reset(api: JetStreamApi, stream: str, consumer: str, sequence: int) -> None:
    """Let it go on at a sequence.

    Raises:
        ApiError: the server will not: the consumer may begin with new events only, or behind that place.
        Refused: it does not answer to this, as no server before 2.14.
    """
    try:
        await api.call(f"CONSUMER.RESET.{stream}.{consumer}", {"seq": sequence})
    except Unavailable as error:
        raise Refused(f"NATS does not reset consumers here: {error}", status=503) from error


async def first_since(api: JetStreamApi, stream: str, time: str) -> int:
    """The first sequence that was stored at a time, in ISO 8601, or later.

    A passing consumer is asked where it begins, since `reconcile` may not read events.

    Raises:
        Refused: the stream takes no such consumer.
    """
    name = f"since-{secrets.token_hex(8)}"
    config = {
        "name": name,
        "ack_policy": "none",
        "deliver_policy": "by_start_time",
        "opt_start_time": time,
        "inactive_threshold": IDLE_NANOSECONDS,
        "mem_storage": True,
        "num_replicas": 1,
    }
    body = {"stream_name": stream, "config": config, "action": "create"}
    try:
        made = await api.call(f"CONSUMER.CREATE.{stream}.{name}", body)
    except ApiError as error:
        raise Refused(str(error), status=409) from error
    with suppress(ApiError):
        await api.call(f"CONSUMER.DELETE.{stream}.{name}")
    return int(made["delivered"]["stream_seq"]) + 1
