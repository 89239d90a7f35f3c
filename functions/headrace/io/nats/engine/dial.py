"""From an address to a link that the server has accepted: TCP, INFO, TLS, CONNECT, the first PONG."""

from __future__ import annotations

import asyncio

from headrace.core.errors import HeadraceError, Misconfigured, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Server
from headrace.io.nats.access import Entry
from headrace.io.nats.contract import Broken
from headrace.io.nats.engine.link import Link, Watcher
from headrace.io.nats.engine.routes import Routes

# For the whole, name resolution included. A live server answers in milliseconds.
CONNECT_SECONDS = 2.0


async def dial(server: Server, entry: Entry, name: str, routes: Routes, watcher: Watcher) -> Link:
    """A link to this server, its pings running.

    Raises:
        Unavailable: nothing answers there, or not as a NATS server does.
        IdentityRefused: the server refuses our identity.
        Misconfigured: our credentials or certificates can't be used.
    """
    link = Link(routes, watcher)
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await _connect(link, server, entry)
            await _introduce(link, server, entry, name)
    except TimeoutError:
        link.break_off(Broken("dialling took too long"))
        raise Unavailable(f"{server.address} does not answer within {CONNECT_SECONDS:.0f} s") from None
    # ValueError: the resolver's error for an impossible name. Broken: the server hung up.
    except (OSError, ValueError, Broken, nats_wire.ProtocolError) as error:
        link.break_off(Broken("dialling failed"))
        raise Unavailable(f"{server.address}: {error}") from error
    except (HeadraceError, asyncio.CancelledError):
        link.break_off(Broken("dialling was given up"))
        raise
    # The errors of event loops for a transport that has just gone; the caller needs the next try.
    except Exception as error:
        link.break_off(Broken("dialling failed"))
        raise Unavailable(f"{server.address}: {error!r}") from error
    link.begin_pings()
    return link


async def _connect(link: Link, server: Server, entry: Entry) -> None:
    loop = asyncio.get_running_loop()
    first = entry.context() if entry.settings.tls_first else None
    name = server.tls_name or server.host
    hostname = name if first else None
    await loop.create_connection(lambda: link, server.host, server.port, ssl=first, server_hostname=hostname)
    info = await link.greeting()
    if first is None and (info.tls_required or entry.wants_tls(server)):
        # The handshake would fail anyway, without saying why.
        if not (info.tls_required or info.tls_available):
            raise Misconfigured("TLS is asked for, but the server offers none", field="NATS_URL")
        await link.secure(entry.context(), name)


async def _introduce(link: Link, server: Server, entry: Entry, name: str) -> None:
    fields = {"name": name, "tls_required": link.encrypted}
    link.send(nats_wire.connect({**fields, **entry.identity(server, link.info.nonce)}))
    await link.round_trip()
