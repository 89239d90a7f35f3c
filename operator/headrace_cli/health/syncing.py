"""When nats-server writes down what it has acknowledged, as its monitoring port tells; no client is told."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import aiohttp

from headrace.core.errors import HeadraceError, Misconfigured
from headrace.core.event.uri import hidden
from headrace.core.quoting import quoted
from headrace.io.http.bounded_body import AS_SENT, body_of
from headrace.io.process import tls
from headrace_cli.health.finding import Finding, note
from headrace_cli.view import units

SECONDS = 5.0
MOST_BYTES = 2**20
_NO_MONITOR = (
    aiohttp.ClientError,
    HeadraceError,
    OSError,
    TimeoutError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    RecursionError,
)


async def findings(monitors: Iterable[str]) -> list[Finding]:
    """What is to be said of the servers with these monitoring ports.

    Raises:
        Misconfigured: one of them is no monitoring port of a nats-server with JetStream.
    """
    found = []
    async with aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=SECONDS), auto_decompress=False, headers=AS_SENT
    ) as session:
        for url in monitors:
            config = await _jetstream(session, url)
            if not config.get("sync_always"):
                found.append(_late(_shown(url), config.get("sync_interval")))
    return found


def _late(url: str, nanoseconds: object) -> Finding:
    often = "at times"
    if isinstance(nanoseconds, int) and 0 < nanoseconds < 10**18:
        often = f"every {units.span(nanoseconds / 1e9)}"
    return note(
        "synced-late",
        f"it writes down {often} what it has acknowledged: accepted events of that time are gone when its machine "
        "loses power",
        "set sync_interval: always in its jetstream block and restart it, if they must not be lost (docs/power.md has "
        "the price)",
        where=url,
    )


def _shown(url: str) -> str:
    return hidden(url) if "@" in url else url


async def _jetstream(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    try:
        where = f"{url.rstrip('/')}/varz"
        async with session.get(where, ssl=tls.SystemTrust().at(where), allow_redirects=False) as answer:
            config = json.loads(await body_of(answer, MOST_BYTES))["jetstream"]["config"]
            return dict(config.items())
    except _NO_MONITOR as error:
        why = f"no nats-server with JetStream tells of itself there ({type(error).__name__}: {hidden(str(error))})"
        wanted = "give the address of its monitoring port, as http://nats.example:8222"
        raise Misconfigured(f"--monitor is {quoted(_shown(url))}: {why}: {wanted}", field="--monitor") from error
