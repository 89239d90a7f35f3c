"""Where a client dials: addresses, what servers tell of each other, and pauses."""

from __future__ import annotations

import random
from itertools import islice

import pytest

from headrace.core.nats.nats_wire import Server, ServerPool, pauses, read_servers


def pool(urls: str) -> ServerPool:
    return ServerPool(read_servers(urls, origin="NATS_URL"), random.shuffle)


def configured(url: str) -> Server:
    [server] = pool(url).round()
    return server


@pytest.mark.parametrize(
    ("url", "address", "tls", "user", "password"),
    [
        ("nats://127.0.0.1:4222", "127.0.0.1:4222", False, None, None),
        ("tls://nats.example", "nats.example:4222", True, None, None),
        ("nats.example:4333", "nats.example:4333", False, None, None),
        ("nats://[::1]:4222/", "[::1]:4222", False, None, None),
        ("nats://me:p%40ss@h", "h:4222", False, "me", "p@ss"),
        ("t0ken@h:1", "h:1", False, "t0ken", None),
    ],
)
def test_an_address_is_read_from_its_url(url, address, tls, user, password):
    server = configured(url)
    assert (server.address, server.tls, server.user, server.password) == (address, tls, user, password)
    assert "p@ss" not in repr(server)


def test_discovered_servers_are_tried_with_the_identity_and_the_name_of_their_teller():
    servers = pool("tls://me:secret@nats.example")
    [teller] = servers.round()
    servers.learn(["10.0.0.2:4222", "two.nats.example:4222"], teller)
    others = sorted(servers.others(teller), key=lambda server: server.host)
    assert others == [
        Server("10.0.0.2", 4222, True, "me", "secret", "nats.example"),
        Server("two.nats.example", 4222, True, "me", "secret", "two.nats.example"),
    ]


@pytest.mark.parametrize(
    ("urls", "elsewhere"),
    [
        ("10.0.0.1:4222,10.0.0.2:4222", ["10.0.0.2"]),
        pytest.param("nats.shop.svc:4222", ["nats.shop.svc"], id="several may be behind a name"),
        pytest.param("10.0.0.1:4222", [], id="behind an address there is one"),
    ],
)
def test_from_a_server_that_is_to_be_left_one_goes_to_the_others_or_to_its_name(urls, elsewhere):
    servers = pool(urls)
    [left] = [server for server in servers.round() if server.address == urls.partition(",")[0]]
    assert [server.host for server in servers.elsewhere(left)] == elsewhere


def test_a_server_that_is_not_told_of_any_more_is_forgotten_unless_it_is_configured():
    servers = pool("one:4222")
    [one] = servers.round()
    servers.learn(["one:4222", "two:4222", "three:4222"], one)
    assert sorted(server.host for server in servers.round()) == ["one", "three", "two"]
    servers.learn(["two:4222"], one)
    assert sorted(server.host for server in servers.round()) == ["one", "two"]


@pytest.mark.parametrize("told", ["", ":", "host:99999", "host:port", "[::1", "a" * 300 + ":x"])
def test_an_address_that_makes_no_sense_is_not_learnt(told):
    servers = pool("one")
    [one] = servers.round()
    servers.learn([told], one)
    assert servers.round() == [one]


def test_the_server_that_was_just_lost_is_tried_last():
    servers = pool("one,two,three")
    for lost in servers.round():
        assert servers.round(lost)[-1] == lost


def test_pauses_grow_from_50_milliseconds_to_2_seconds_with_jitter():
    longest = [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 2.0, 2.0]
    waits = list(islice(pauses(random.random), len(longest)))
    assert all(most / 2 <= wait <= most for wait, most in zip(waits, longest, strict=True))
    assert waits != list(islice(pauses(random.random), len(longest)))
