"""The way between this machine and the node, which has a network of its own: a link, and routes to Services and pods.

Nothing else of this machine's network is touched: no bridge, no rule, no setting; the kernel removes the link together
with the node.
"""

from __future__ import annotations

import ipaddress
import json
import subprocess
import time
from collections.abc import Iterator

from infra.cluster import machine
from infra.cluster.commands import run
from infra.cluster.instance import Addresses, Cluster, Problem, interface, of

_FIRST, _LAST = 97, 126
_GONE_SECONDS = 20.0


def choose(name: str, wanted: str | None) -> Cluster:
    """The cluster of that name on a network that overlaps with nothing that this machine can reach.

    Args:
        wanted: the network; None for the first of 10.97.0.0/16 to 10.126.0.0/16 that is free.

    Raises:
        Problem: what is wanted is taken, or all are.
    """
    taken = list(_taken())
    for network in [wanted] if wanted else [f"10.{number}.0.0/16" for number in range(_FIRST, _LAST + 1)]:
        cluster = of(name, network)
        overlaps = [each for each in taken if each.overlaps(cluster.addresses.network)]
        if not overlaps:
            return cluster
        if wanted:
            raise Problem(f"--network {wanted} overlaps with {overlaps[0]}, to which this machine has a route already")
    raise Problem(f"10.{_FIRST}.0.0/16 to 10.{_LAST}.0.0/16 are all taken on this machine: name another with --network")


def connect(cluster: Cluster, pid: int) -> None:
    """Lead this machine to the node, whose network is that of a process."""
    ip, addresses, link = machine.program("ip"), cluster.addresses, cluster.interface
    run(cluster, [ip, "link", "add", link, "type", "veth", "peer", "name", "node", "netns", str(pid)])
    run(cluster, [ip, "address", "add", f"{addresses.host}/{addresses.link.prefixlen}", "dev", link])
    run(cluster, [ip, "link", "set", link, "up"])
    for target in (addresses.services, addresses.pods):
        run(cluster, [ip, "route", "add", str(target), "via", addresses.node, "dev", link])


def disconnect(name: str) -> None:
    """Remove the link, and with it the routes.

    Raises:
        Problem: it does not go away.
    """
    ip, link, deadline = machine.program("ip"), interface(name), time.monotonic() + _GONE_SECONDS
    while subprocess.run([ip, "link", "show", link], capture_output=True).returncode == 0:
        # The kernel may be at it as well, since the node's end has gone.
        subprocess.run([ip, "link", "delete", link], capture_output=True)
        if time.monotonic() > deadline:
            raise Problem(f"the network interface {link} does not go away")
        time.sleep(0.05)


def receive_link(addresses: Addresses) -> None:
    """In the node: wait for its end of the link, and use it as the way to everywhere."""
    ip, deadline = machine.program("ip"), time.monotonic() + _GONE_SECONDS
    while subprocess.run([ip, "link", "show", "node"], capture_output=True).returncode != 0:
        if time.monotonic() > deadline:
            raise Problem("nobody led the way to this node: whoever started it is gone")
        time.sleep(0.02)
    for words in (
        f"address add {addresses.node}/{addresses.link.prefixlen} dev node",
        "link set lo up",
        "link set node up",
        f"route add default via {addresses.host}",
    ):
        subprocess.run([ip, *words.split()], check=True)


def _taken() -> Iterator[ipaddress.IPv4Network]:
    """Networks that this machine has a route to, but for everywhere."""
    ip = machine.program("ip")
    said = subprocess.run(
        [ip, "-json", "-4", "route", "show", "table", "all"], capture_output=True, text=True, check=True
    )
    for route in json.loads(said.stdout):
        if route["dst"] not in ("default", "0.0.0.0/0"):
            yield ipaddress.IPv4Network(route["dst"], strict=False)
