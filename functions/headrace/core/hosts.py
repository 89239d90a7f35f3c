"""Hosts as requests and URLs write them, and which of them a stranger's page can't have. Pure.

A browser sends what a page of any name asks for to whatever address that name leads to, our own machine's as well (DNS
rebinding). An IP address leads nowhere else, and `localhost` does not by itself.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

LOCAL = "localhost"
MISLEADING = "this machine is not asked by that name: ask localhost, or an IP address\n"


def of_url(url: str) -> str:
    """The name or address in a URL, in lower case and without brackets; empty for none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def without_port(host: str) -> str:
    """The same of a Host."""
    return of_url(f"http://{host}")


def address(name: str) -> IPv4Address | IPv6Address | None:
    """The address that a name is, and an IPv4 address where it is written as one of IPv6; None for other names."""
    try:
        found = ip_address(name)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def is_loopback(name: str) -> bool:
    found = address(name)
    return found is not None and found.is_loopback


def misleads(host: str, came_in_at: str) -> bool:
    """Can a request with this Host be of a stranger's page, since it came in at a loopback address of ours?"""
    name = without_port(host)
    return is_loopback(came_in_at) and name != LOCAL and address(name) is None
