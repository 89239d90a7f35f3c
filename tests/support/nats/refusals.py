"""Whether a NATS client knows that the server has turned it away."""

from __future__ import annotations

from headrace.core.errors import NotLetIn, Unavailable
from headrace.io.nats.client import Client

REFUSED_SECONDS = 0.7


async def refused(client: Client) -> bool:
    """Is that what it says now of why it is not connected?"""
    try:
        await client.ready(REFUSED_SECONDS)
    except NotLetIn:
        return True
    except Unavailable:
        return False
    return False
