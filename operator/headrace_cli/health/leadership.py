"""Lets a stream or a consumer choose another leader among its replicas."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import NamedTuple

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel
from headrace_cli.catalog.subscriptions import CatalogSubscription

# Elections take a second or two.
LOOKS, LOOK_SECONDS = 50, 0.2
NOT_CLUSTERED = 10010


class LeaderChange(NamedTuple):
    """What is led, in words; the server that led it, empty for none; and the server that leads it now."""

    of: str
    before: str
    leader: str


async def step_down(session: Session, channel: CatalogChannel, one: CatalogSubscription | None) -> LeaderChange:
    """Ask the leader of a channel's stream to step down, or that of a Subscription's consumer.

    Raises:
        Refused: 400, the server is no cluster. Unavailable: no server leads within ten seconds.
    """
    if one is None:
        kind, path, of = "STREAM", channel.stream, f"stream {channel.stream}"
    else:
        kind, path, of = "CONSUMER", f"{channel.stream}.{one.consumer}", f"the consumer of {one.ref}"
    before = await _leader(session, kind, path)
    try:
        await session.api.call(f"{kind}.LEADER.STEPDOWN.{path}")
    except ApiError as error:
        if error.err_code != NOT_CLUSTERED:
            raise
        problem = f"this NATS is a single server: there is no other that could lead {of}"
        raise Refused(problem, status=error.code) from None
    # The old leader may lead again; without a leader the election goes on.
    for _ in range(LOOKS):
        if leader := await _leader(session, kind, path):
            return LeaderChange(of, before, leader)
        await asyncio.sleep(LOOK_SECONDS)
    raise Unavailable(f"{of} has no leader yet: which servers are away? `kn jetstream doctor` may know")


async def _leader(session: Session, kind: str, path: str) -> str:
    with suppress(Unavailable):
        info = await session.api.call(f"{kind}.INFO.{path}", timeout=1.0)
        return str((info.get("cluster") or {}).get("leader", ""))
    return ""
