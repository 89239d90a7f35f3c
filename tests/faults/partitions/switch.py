"""The switch to which every host of `tests.faults.partitions.network` has one cable, and which may fail per direction.

`python switch.py SEED FD=ADDRESS …`: each descriptor is a TUN device, whose other end is a host's network card. A
packet goes to the cable of its destination, unless an order says otherwise of its two ends: lost always or by chance,
or late by some time, without overtaking the one before. A kernel without `netem` has nothing that delays packets; so
this does it all, in one way everywhere.
Orders come as lines of JSON, and each is answered with the count of packets that were lost or late so far.
"""

from __future__ import annotations

import heapq
import json
import os
import random
import select
import socket
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

ONE_PACKET = 65_536
# So many of one cable before the others have their turn.
TURN = 64
# Where an IPv4 packet has its two ends.
ENDS, DESTINATION = slice(12, 20), slice(16, 20)


@dataclass
class Way:
    """What becomes of packets from one host to another.

    Attributes:
        loss: of so many, 1.0 being all.
        delay: seconds, on average; `jitter`: more or less than that, at most.
    """

    loss: float = 0.0
    delay: float = 0.0
    jitter: float = 0.0
    due: float = field(default=0.0, init=False)


class Switch:
    def __init__(self, cables: dict[bytes, int], seed: int) -> None:
        self._cables = cables
        self._rng = random.Random(seed)
        self._ways: dict[bytes, Way] = {}
        self._late: list[tuple[float, int, int, bytes]] = []
        self._serial = count()
        self._struck = 0
        self._poll = select.epoll()
        for cable in cables.values():
            os.set_blocking(cable, False)
            self._poll.register(cable, select.EPOLLIN)

    def run(self) -> None:
        """Serve until nobody gives orders any more."""
        self._poll.register(sys.stdin.fileno(), select.EPOLLIN)
        while True:
            wait = max(0.0, self._late[0][0] - time.monotonic()) if self._late else -1
            for ready, _ in self._poll.poll(wait):
                if ready != sys.stdin.fileno():
                    self._pass_on(ready)
                elif not self._obey():
                    return
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, cable, packet = heapq.heappop(self._late)
                self._write(cable, packet)

    def _obey(self) -> bool:
        line = sys.stdin.buffer.raw.readline()  # type: ignore[attr-defined]  # a buffer would hold what poll waits for
        if line:
            order: dict[str, Any] = json.loads(line)
            ends = socket.inet_aton(order.pop("source")) + socket.inet_aton(order.pop("destination"))
            if order:
                self._ways[ends] = Way(**order)
            else:
                self._ways.pop(ends, None)
            print(self._struck, flush=True)
        return bool(line)

    def _pass_on(self, cable: int) -> None:
        for _ in range(TURN):
            try:
                packet = os.read(cable, ONE_PACKET)
            except BlockingIOError:
                return
            way = self._ways.get(packet[ENDS])
            to = self._cables.get(packet[DESTINATION])
            if to is None:
                # IPv6 looks for routers, and others for groups.
                continue
            if way is None:
                self._write(to, packet)
            else:
                self._struck += 1
                self._strike(way, to, packet)

    def _strike(self, way: Way, cable: int, packet: bytes) -> None:
        if self._rng.random() < way.loss:
            return
        way.due = max(way.due, time.monotonic() + way.delay + self._rng.uniform(-way.jitter, way.jitter))
        heapq.heappush(self._late, (way.due, next(self._serial), cable, packet))

    @staticmethod
    def _write(cable: int, packet: bytes) -> None:
        # A card whose queue is full loses packets, as any does, and one that is being taken down.
        with suppress(OSError):
            os.write(cable, packet)


def main() -> None:
    cables = {}
    for word in sys.argv[2:]:
        descriptor, address = word.split("=")
        cables[socket.inet_aton(address)] = int(descriptor)
    Switch(cables, int(sys.argv[1])).run()


if __name__ == "__main__":
    main()
