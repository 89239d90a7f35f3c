"""Which hosts a stranger's page can't have, where it asks a loopback address."""

from __future__ import annotations

import pytest

from headrace.core.hosts import address, is_loopback, misleads

OURS = [
    "localhost",
    "LocalHost:9464",
    "127.0.0.1",
    "127.0.0.1:9464",
    "[::1]",
    "[::1]:9464",
    "[0:0:0:0:0:0:0:1]:9464",
    "[::ffff:127.0.0.1]",
    "10.0.0.7",
    "0.0.0.0:9464",
]
NOT_OURS = [
    "",
    "attacker.example",
    "attacker.example:9464",
    "localhost.",
    "localhost.attacker.example",
    "127.0.0.1.attacker.example",
    "localhost@attacker.example",
    "127.1",
    "0x7f.0.0.1",
    "2130706433",
    "[::1",
    "::1.attacker.example",
    "[attacker.example]",
]


@pytest.mark.parametrize("at", ["127.0.0.1", "127.0.0.2", "::1", "::ffff:127.0.0.1"])
def test_at_a_loopback_address_only_names_count_that_lead_to_no_stranger(at: str):
    assert [host for host in OURS if misleads(host, at)] == []
    assert [host for host in NOT_OURS if not misleads(host, at)] == []


@pytest.mark.parametrize("at", ["10.0.0.7", "::", "2001:db8::1", "", "a socket's path"])
def test_elsewhere_any_name_may_lead_here(at: str):
    assert [host for host in (*OURS, *NOT_OURS) if misleads(host, at)] == []


def test_an_ipv4_address_is_the_same_however_it_is_written():
    assert address("::ffff:10.0.0.7") == address("10.0.0.7")
    assert [is_loopback(one) for one in ("::1", "::ffff:127.0.0.1", "127.9.9.9")] == [True] * 3
    assert [is_loopback(one) for one in ("::", "::ffff:10.0.0.7", "localhost", "")] == [False] * 4
