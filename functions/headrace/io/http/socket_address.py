"""Where a socket connects to; IP literals are such addresses already, and nobody is asked for them.

Pure, but for the index of a network interface that a literal may name.
"""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

# An interface's index has 32 bits; no machine has numbered so many.
_DIGITS = 10


class SocketAddress(NamedTuple):
    family: int
    address: tuple[Any, ...]
    """What `socket.connect` takes for the family: the numeric host comes first, then the port."""

    def at(self, port: int) -> SocketAddress:
        return SocketAddress(self.family, (self.address[0], port, *self.address[2:]))


def literal(host: str, port: int) -> SocketAddress | None:
    """The address that an IP literal is; None for a name.

    Raises:
        OSError, ValueError: the literal's zone, as in `fe80::1%eth0`, is no network interface of this machine.
    """
    if ":" in host:
        return _ipv6(host, port)
    try:
        # Also the short forms, such as 127.1, which the system's resolver takes for addresses, too.
        packed = socket.inet_aton(host)
    except OSError:
        return None
    return SocketAddress(socket.AF_INET, (socket.inet_ntoa(packed), port))


def _ipv6(host: str, port: int) -> SocketAddress | None:
    numeric, _, zone = host.partition("%")
    try:
        socket.inet_pton(socket.AF_INET6, numeric)
    except OSError:
        return None
    return SocketAddress(socket.AF_INET6, (numeric, port, 0, _index(zone) if zone else 0))


def _index(zone: str) -> int:
    if zone.isascii() and zone.isdigit() and len(zone) < _DIGITS:
        return int(zone)
    return socket.if_nametoindex(zone)
