"""The addresses that a socket connects to, and their order. An IP literal needs no look-up."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple


class SocketAddress(NamedTuple):
    family: int
    address: tuple[Any, ...]
    """The argument of `socket.connect` for the family: the numeric host comes first, then the port."""

    def at(self, port: int) -> SocketAddress:
        return SocketAddress(self.family, (self.address[0], port, *self.address[2:]))


def literal(host: str, port: int) -> SocketAddress | None:
    """The address of an IP literal, short forms such as 127.1 included; None for a name.

    Raises:
        OSError, ValueError: the literal's zone, as in `fe80::1%eth0`, is no network interface of this machine.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, ValueError):
        if ":" in host:
            raise
        return None
    return SocketAddress(found[0][0], found[0][4])


def in_turn(addresses: Sequence[SocketAddress], turn: int) -> list[SocketAddress]:
    """The addresses in the order to try them at the `turn`-th connection (from 0).

    The families take turns, so that an unreachable family costs one failure; inside each, connections are spread.
    """
    families: dict[int, list[SocketAddress]] = {}
    for address in addresses:
        families.setdefault(address.family, []).append(address)
    rotated = [members[turn % len(members) :] + members[: turn % len(members)] for members in families.values()]
    return [address for address in chain.from_iterable(zip_longest(*rotated)) if address is not None]
