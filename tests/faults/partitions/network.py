"""Hosts of their own for the processes of a cell: a network name space each, and cables to a switch that can fail.

The bench itself stays where it is, and has a cable too. Whatever runs in a name space, all of it is unmodified: between
two hosts there is nothing but IP. Root on Linux is needed, `ip`, `nsenter` and /dev/net/tun; `why_not` says what lacks.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from itertools import count
from pathlib import Path

from tests.support.programs.process import Site

BENCH = "bench"
SWITCH = Path(__file__).with_name("switch.py")
_TUN = Path("/dev/net/tun")
# TUNSETIFF, with IFF_TUN and IFF_NO_PI: packets without a head of the kernel's own.
_SET_INTERFACE, _PLAIN_PACKETS = 0x400454CA, 0x0001 | 0x1000
# Of a card; less than what the switch reads at once, and more than most events.
_MTU = 16_000

_numbers = count(1)


def why_not() -> str:
    """Why there can be no such network here; nothing where it can be."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "network name spaces need root on Linux"
    missing = [name for name in ("ip", "nsenter") if shutil.which(name) is None]
    if missing:
        return f"{' and '.join(missing)} can't be found (Debian: iproute2, util-linux)"
    if not _TUN.exists():
        return f"there is no {_TUN}"
    tried = subprocess.run(["unshare", "-n", "true"], capture_output=True, text=True, check=False)
    return f"no network name space may be made: {tried.stderr.strip()}" if tried.returncode else ""


class Network:
    """Cables and name spaces of one cell; blocking methods, all quick.

    Attributes:
        struck: packets that a fault has met so far: none means that it was no fault at all.
    """

    def __init__(self, hosts: Iterable[str], seed: int) -> None:
        self._hosts = [BENCH, *hosts]
        self._seed = seed
        # Of this process, and of this network of its: others may run beside.
        self._mark = f"{os.getpid() % 2**15:x}-{(number := next(_numbers)):x}"
        self._prefix = f"10.{64 + os.getpid() % 128}.{number % 256}"
        self._switch: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self.struck = 0

    def site(self, host: str) -> Site:
        """Where a process of this host is started."""
        within = () if host == BENCH else ("nsenter", f"--net=/run/netns/{self._space(host)}")
        return Site(self.address(host), within)

    def address(self, host: str) -> str:
        return f"{self._prefix}.{self._hosts.index(host) + 1}"

    def start(self) -> None:
        cables: list[int] = []
        try:
            for number, host in enumerate(self._hosts):
                cables.append(self._plug_in(host, f"hr{self._mark}-{number}"))
            words = [f"{cable}={self.address(host)}" for cable, host in zip(cables, self._hosts, strict=True)]
            self._switch = subprocess.Popen(
                [sys.executable, "-I", SWITCH, str(self._seed), *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=cables,
            )
        finally:
            # A device is gone with its last descriptor, and that is the switch's.
            for cable in cables:
                os.close(cable)

    def stop(self) -> None:
        """Nothing of it is left, whatever has been made of it."""
        if self._switch is not None:
            self._switch.kill()
            self._switch.communicate()
        for host in self._hosts[1:]:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", self._space(host))

    def lose(self, source: str, destination: str, share: float = 1.0) -> None:
        """From now on packets of this direction are lost: all, or so many by chance."""
        self._order(source, destination, loss=share)

    def slow(self, one: str, other: str, delay: float, jitter: float, loss: float) -> None:
        """Both directions are late, by half of these seconds each, and some packets are lost."""
        for ends in ((one, other), (other, one)):
            self._order(*ends, loss=loss, delay=delay / 2, jitter=jitter / 2)

    def cut(self, some: Iterable[str], others: Iterable[str]) -> None:
        """Nobody of the one side hears anybody of the other."""
        others = list(others)
        for one in some:
            for other in others:
                self.lose(one, other)
                self.lose(other, one)

    def mend(self) -> None:
        """All packets arrive again."""
        for one in self._hosts:
            for other in self._hosts:
                if one != other:
                    self._order(one, other)

    def _space(self, host: str) -> str:
        return f"headrace-{self._mark}-{host}"

    def _plug_in(self, host: str, device: str) -> int:
        """Make the host's card; gives the cable's other end."""
        cable = os.open(_TUN, os.O_RDWR)
        try:
            fcntl.ioctl(cable, _SET_INTERFACE, struct.pack("16sH22x", device.encode(), _PLAIN_PACKETS))
            at: tuple[str, ...] = ()
            if host != BENCH:
                _ip("netns", "add", self._space(host))
                _ip("link", "set", device, "netns", self._space(host))
                at = ("-netns", self._space(host))
                _ip(*at, "link", "set", "lo", "up")
            _ip(*at, "address", "add", f"{self.address(host)}/24", "dev", device)
            _ip(*at, "link", "set", device, "mtu", str(_MTU), "txqueuelen", "10000", "up")
        except BaseException:
            os.close(cable)
            raise
        return cable

    def _order(self, source: str, destination: str, **way: float) -> None:
        assert self._switch is not None, "the network was not started"
        assert self._switch.stdin is not None
        assert self._switch.stdout is not None
        ends = {"source": self.address(source), "destination": self.address(destination)}
        with self._lock:
            self._switch.stdin.write(json.dumps({**ends, **way}) + "\n")
            self._switch.stdin.flush()
            self.struck = int(self._switch.stdout.readline())


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
