"""LISTEN_ADDRESS, as kn func sets it."""

from __future__ import annotations

import pytest

from headrace.core.errors import Misconfigured
from headrace.host.entry import addresses


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("127.0.0.1:8080", [("127.0.0.1", 8080)], id="one address"),
        pytest.param("[::1]:80, 10.0.0.1:81", [("::1", 80), ("10.0.0.1", 81)], id="a list, blanks and all"),
        pytest.param("[::]:8080", [("::", 8080), ("0.0.0.0", 8080)], id="every address means IPv4, too"),
        pytest.param("[::]:80,0.0.0.0:80", [("::", 80), ("0.0.0.0", 80)], id="both, said by hand"),
        pytest.param("localhost:0", [("localhost", 0)], id="a name and any port"),
    ],
)
def test_listen_address_is_read(text, found):
    assert addresses(text, ipv6=True) == found


def test_addresses_of_ipv6_are_left_out_where_there_is_none():
    assert addresses("[::]:8080,[::1]:81", ipv6=False) == [("0.0.0.0", 8080)]


@pytest.mark.parametrize(
    "text", ["", "8080", ":8080", "[]:8080", "::1:8080", "127.0.0.1:http", "0.0.0.0:70000", "unix:///run/x", "a:1,"]
)
def test_an_address_that_is_none_is_quoted(text):
    with pytest.raises(Misconfigured) as caught:
        addresses(text, ipv6=True)
    assert caught.value.field == "LISTEN_ADDRESS"
    assert "give host:port, as in 0.0.0.0:8080 or [::]:8080" in str(caught.value)


def test_a_machine_without_ipv6_needs_an_address_that_it_can_use():
    with pytest.raises(Misconfigured, match="'\\[::1\\]:8080', but there is no IPv6 here"):
        addresses("[::1]:8080", ipv6=False)
