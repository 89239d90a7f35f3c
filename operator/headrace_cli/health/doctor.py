"""Finds out why events don't arrive: it asks NATS, the receiver of a `headrace up`, and the channel objects at hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace_cli.access.place import Place
from headrace_cli.access.session import session
from headrace_cli.catalog.names import ChannelScope, NamespacedName
from headrace_cli.health import facts
from headrace_cli.health.finding import Finding, problem
from headrace_cli.health.findings import by_severity, findings
from headrace_cli.health.object_rules import of_objects

CONNECT_SECONDS = 2.0
NOT_ENABLED_FOR_ACCOUNT = 10039

Bodies = Sequence[Mapping[str, Any]]


def in_scope(objects: Iterable[Mapping[str, Any]], scope: ChannelScope) -> Bodies:
    return [
        body
        for body in objects
        if scope.covers(NamespacedName(str(body["metadata"].get("namespace")), str(body["metadata"]["name"])))
    ]


async def examine_up(place: Place, scope: ChannelScope) -> list[Finding]:
    """Every finding about the streams in NATS, and about the channels of a `headrace up` there."""
    bulletin = place.bulletin
    found = await examine(place, scope, in_scope(bulletin.objects, scope))
    if bulletin.files:
        do = "mend the file, and send SIGHUP to headrace up again; what it served before goes on"
        found.append(problem("files-refused", bulletin.files, do, where=place.source))
    return found


def examine_objects(bodies: Bodies) -> list[Finding]:
    """Every finding from the conditions of channel objects, for when NATS is not asked."""
    return by_severity(of_objects(bodies, nats_asked=False))


async def examine(at: Place, scope: ChannelScope, bodies: Bodies) -> list[Finding]:
    """Every finding about the streams in NATS, and about the objects of the same channels.

    Raises:
        Refused: 404, there is no such channel, neither in NATS nor among the objects.
    """
    from_objects = [*of_objects(bodies, nats_asked=True)]
    found = [*await _receiver(at)]
    try:
        async with session(at) as connected:
            known = findings(facts.beside_objects(await facts.gather(connected, scope), bodies))
    except Unavailable as error:
        return [*found, _unreachable(at, error), *from_objects]
    except Refused as error:
        if scope.channel is not None and error.status == 404:
            if not bodies:
                raise
            # The channel is asked for, and could not be made.
            return by_severity(from_objects)
        off = isinstance(error, ApiError) and error.err_code == NOT_ENABLED_FOR_ACCOUNT
        return [*found, _unreachable(at, error) if off else _forbidden(error), *from_objects]
    if bodies:
        # The finding from the objects says why there is none.
        known = [each for each in known if each.code != "no-channel"]
    return [*found, *by_severity([*from_objects, *known])]


async def _receiver(at: Place) -> list[Finding]:
    """Does the receiver of a `headrace up` take connections?"""
    if at.receive is None:
        return []
    parts = urlsplit(at.receive)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port)
    except (OSError, TimeoutError) as error:
        what = f"nobody takes events at {at.receive}: {error or 'no answer'}"
        do = "look at the log of headrace up for why receive does not start"
        return [problem("receiver-away", what, do, where=at.receive)]
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return []


def _unreachable(at: Place, error: HeadraceError) -> Finding:
    text = str(error)
    if isinstance(error, ApiError) or "JetStream does not answer" in text or "did not answer" in text:
        return problem(
            "jetstream-off",
            f"the server is there, JetStream is not: {text}",
            "enable JetStream in the server and for this account; one that switched itself off has no disk space left, "
            "or could not read its store: its log says so",
            where="NATS",
        )
    return problem(
        "nats-unreachable",
        text,
        "from outside a cluster: kubectl -n nats port-forward svc/nats 4222, and --nats nats://127.0.0.1:4222; the "
        "credentials are in a Secret (NATS_CREDS_FILE, NATS_USER and NATS_PASSWORD, or NATS_TOKEN); inside, is the "
        f"address right that comes from {at.source}, and are the server's pods Ready?",
        where="NATS",
    )


def _forbidden(error: Refused) -> Finding:
    do = "use credentials that may publish to $JS.API.> and subscribe to _INBOX.>"
    return problem("forbidden", f"JetStream's API refuses: {error}", do, where="NATS")
