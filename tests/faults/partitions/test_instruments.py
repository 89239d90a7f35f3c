"""The faults of machines strike: clocks are off, packets are lost in one direction or late, and a disk stands still."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.partitions import clocks, disks, network
from tests.faults.partitions.disks import Disk
from tests.faults.partitions.network import BENCH, Network

TELL = "import time, sys\nfor _ in sys.stdin: print(time.time(), time.monotonic(), flush=True)"
# One datagram a line, to where it says; what comes in is printed.
HEAR = """
import socket, sys
plug = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
plug.bind((sys.argv[1], 7000))
print("bound", flush=True)
while True:
    data, sender = plug.recvfrom(100)
    plug.sendto(data, sender)
"""


def needs(why_not: Callable[[], str]) -> None:
    if why := why_not():
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"NOT PLAYED, so nothing is known: {why}")


def test_the_wall_clock_of_a_running_process_is_off_and_right_again_and_its_monotonic_clock_is_not() -> None:
    needs(clocks.why_not)
    with subprocess.Popen([sys.executable, "-c", TELL], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as it:
        assert it.stdin is not None
        assert it.stdout is not None
        try:
            for seconds in (0, 600, -600, 0):
                clocks.set_off(it.pid, seconds)
                it.stdin.write("\n")
                it.stdin.flush()
                wall, monotonic = map(float, it.stdout.readline().split())
                assert wall - time.time() == pytest.approx(seconds, abs=5)
                assert monotonic - time.monotonic() == pytest.approx(0, abs=5)
        finally:
            it.kill()


@contextmanager
def echo(net: Network) -> Iterator[Callable[[], float | None]]:
    """A host that sends back what it hears; gives the seconds of one way and back, None if nothing came back."""
    site = net.site("far")
    command = [*site.within, sys.executable, "-c", HEAR, site.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as far:
        assert far.stdout is not None
        assert far.stdout.readline() == "bound\n"
        try:
            yield lambda: _there_and_back(net.address(BENCH), site.address)
        finally:
            far.kill()


def _there_and_back(here: str, there: str) -> float | None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plug:
        plug.bind((here, 0))
        plug.settimeout(1.0)
        began = time.monotonic()
        plug.sendto(b"?", (there, 7000))
        try:
            plug.recv(100)
        except TimeoutError:
            return None
        return time.monotonic() - began


def test_packets_are_lost_in_one_direction_or_late_until_the_links_are_mended() -> None:
    needs(network.why_not)
    net = Network(["far", "other"], seed=1)
    try:
        net.start()
        with echo(net) as there_and_back:
            assert there_and_back() is not None
            net.lose("other", "far")
            assert there_and_back() is not None
            assert net.struck == 0
            for ends in (("far", BENCH), (BENCH, "far")):
                net.lose(*ends)
                assert there_and_back() is None
                net.mend()
                assert there_and_back() is not None
            net.slow("far", BENCH, delay=0.4, jitter=0.0, loss=0.0)
            slow = there_and_back()
            assert slow is not None
            assert slow >= 0.4
            net.mend()
            assert net.struck >= 4
    finally:
        net.stop()
    spaces = subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout
    assert net.site("far").within[1].rpartition("/")[2] not in spaces


def test_whoever_writes_to_a_frozen_disk_waits_until_it_is_thawed(tmp_path: Path) -> None:
    needs(disks.why_not)
    disk = Disk(tmp_path / "disk")
    disk.mount()
    try:
        disk.freeze()
        writer = threading.Thread(target=(tmp_path / "disk" / "file").write_text, args=("written",))
        writer.start()
        writer.join(0.3)
        assert writer.is_alive()
        disk.thaw()
        writer.join(30)
        assert (tmp_path / "disk" / "file").read_text() == "written"
    finally:
        disk.unmount()
