"""One cluster as a value: its name, where its files are, its addresses; and the names that follow from these.

Several may run on one machine, each under a name of its own. The value does no work; every other module here takes one.
"""

from __future__ import annotations

import ipaddress
import json
import re
from dataclasses import dataclass
from pathlib import Path

from infra.cache import CACHE

FOLDER = CACHE / "clusters"
DEFAULT = "main"
NODE = "node1"
API_PORT = 6443
# The link to the node is called hr-<name>, and Linux allows 15 characters.
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,10}[a-z0-9])?")


class Problem(Exception):
    """The cluster can't be had; says why, and what to do where something can be done."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """All of one network of 65,536 addresses: the lower half Services, then pods, at the end the way to the node."""

    network: ipaddress.IPv4Network

    @property
    def services(self) -> ipaddress.IPv4Network:
        return next(self.network.subnets(new_prefix=17))

    @property
    def pods(self) -> ipaddress.IPv4Network:
        return list(self.network.subnets(new_prefix=18))[2]

    @property
    def link(self) -> ipaddress.IPv4Network:
        return list(self.network.subnets(new_prefix=30))[-1]

    @property
    def host(self) -> str:
        """This machine's, as the node and its pods see it."""
        return str(self.link[1])

    @property
    def node(self) -> str:
        return str(self.link[2])

    @property
    def api(self) -> str:
        """The Service `kubernetes`."""
        return str(self.services[1])


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that is to be, or is there."""

    name: str
    addresses: Addresses

    @property
    def folder(self) -> Path:
        """Whatever it writes. Gone after `down`, but for the logs."""
        return folder(self.name)

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def certificates(self) -> Path:
        return self.folder / "pki"

    @property
    def configuration(self) -> Path:
        return self.folder / "etc"

    @property
    def data(self) -> Path:
        """Of etcd, containerd, kubelet and the volumes."""
        return self.folder / "data"

    @property
    def volumes(self) -> Path:
        return self.data / "volumes"

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def containerd(self) -> Path:
        """Socket of containerd, which can be reached from outside the node, too."""
        return self.folder / "containerd.sock"

    @property
    def api(self) -> str:
        return f"https://{self.addresses.node}:{API_PORT}"

    @property
    def interface(self) -> str:
        """This machine's end of the link to the node."""
        return interface(self.name)

    def save(self) -> None:
        (self.folder / "cluster.json").write_text(json.dumps({"network": str(self.addresses.network)}) + "\n")


def of(name: str, network: str) -> Cluster:
    """Raises:
    Problem: the name can't be one, or the network is not of the size that is needed.
    """
    checked(name)
    try:
        wanted = ipaddress.IPv4Network(network)
    except ValueError as problem:
        raise Problem(f"--network {network}: {problem}; write it as 10.97.0.0/16") from problem
    if wanted.prefixlen != 16:
        raise Problem(f"--network {network}: a cluster has 65,536 addresses; write it as 10.97.0.0/16")
    return Cluster(name, Addresses(wanted))


def saved(name: str) -> Cluster | None:
    """The cluster of that name, if one was ever started and not taken down since."""
    try:
        text = (folder(checked(name)) / "cluster.json").read_text()
    except FileNotFoundError:
        return None
    return of(name, json.loads(text)["network"])


def folder(name: str) -> Path:
    return FOLDER / name


def interface(name: str) -> str:
    return f"hr-{name}"


def checked(name: str) -> str:
    """The name itself.

    Raises:
        Problem: it can't be one.
    """
    if _NAME.fullmatch(name) is None:
        raise Problem(f"--name {name}: at most 12 lower-case letters, digits and dashes, no dash at either end")
    return name
