"""The cluster's DNS: `python -m infra.cluster.dns --help`. It stands in for CoreDNS.

CoreDNS can't be had as a Go module. This program answers for `<service>.<namespace>.svc.cluster.local` and the pods of
Services without an address, over UDP and TCP. All other names do not exist: a cluster here has no way out.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import cast

import aiohttp

from headrace.io.process.tls import of_system
from infra.cluster.dns import watch, wire
from infra.cluster.dns.wire import Code
from infra.cluster.dns.zone import Zone

_PORT = 53
_SERVICES, _SLICES = "/api/v1/services", "/apis/discovery.k8s.io/v1/endpointslices"
# Of one event: EndpointSlices hold up to 1,000 addresses.
_LONGEST_LINE = 4 * 1024 * 1024
_IDLE_SECONDS = 10


def answer(zone: Zone, data: bytes, *, over_udp: bool) -> bytes:
    """The answer to these bytes.

    Raises:
        wire.Malformed: nothing.
    """
    asked = wire.question(data)
    if not wire.is_query(asked):
        return wire.answer(asked, Code.NOT_IMPLEMENTED)
    records = zone.find(asked.name, asked.kind)
    if records is None:
        return wire.answer(asked, Code.NO_SUCH_NAME)
    return wire.answer(asked, Code.FINE, records, over_udp=over_udp)


class _OverUdp(asyncio.DatagramProtocol):
    def __init__(self, zone: Zone) -> None:
        self._zone = zone

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        try:
            self._transport.sendto(answer(self._zone, data, over_udp=True), address)
        except wire.Malformed as problem:
            print(f"{address[0]}: {problem}", flush=True)


async def _over_tcp(zone: Zone, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            async with asyncio.timeout(_IDLE_SECONDS):
                length = int.from_bytes(await reader.readexactly(2), "big")
                said = answer(zone, await reader.readexactly(length), over_udp=False)
            writer.write(len(said).to_bytes(2, "big") + said)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError, wire.Malformed):
        pass
    finally:
        writer.close()


async def serve(arguments: argparse.Namespace) -> None:
    """Until it is ended."""
    zone = Zone()
    trust = of_system(arguments.ca.read_text())
    trust.load_cert_chain(arguments.certificate, arguments.key)
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(arguments.api, connector=connector, read_bufsize=_LONGEST_LINE) as session:
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: _OverUdp(zone), (arguments.listen, _PORT))
        await asyncio.start_server(lambda reader, writer: _over_tcp(zone, reader, writer), arguments.listen, _PORT)
        async with asyncio.TaskGroup() as both:
            both.create_task(watch.keep(session, _SERVICES, zone.services))
            both.create_task(watch.keep(session, _SLICES, zone.slices))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m infra.cluster.dns", description=__doc__)
    parser.add_argument("--listen", required=True, help="the address, on port 53")
    parser.add_argument("--api", required=True, help="URL of the API server")
    parser.add_argument("--ca", required=True, type=Path, help="that its certificate is of")
    parser.add_argument("--certificate", required=True, type=Path, help="of this client")
    parser.add_argument("--key", required=True, type=Path, help="of that certificate")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
