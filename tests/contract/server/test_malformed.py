"""Requests that a proxy in front of us may read otherwise, at the port of each function: refused, then cut off."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.functions.functions import Function
from tests.support.http.malformed import requests
from tests.support.nats.nats_server import NatsServer

pytest_plugins = ["tests.support.functions.served"]

# What a server that read two requests would answer, too.
SMUGGLED = b"GET /health/liveness HTTP/1.1\r\nHost: h\r\n\r\n"


@pytest.fixture(scope="module", params=("receive", "forward", "reconcile"))
def function(request: pytest.FixtureRequest, shared_server: NatsServer, served_directory: Path) -> Iterator[Function]:
    with Function(request.param, shared_server.url, served_directory) as served:
        yield served


def says(function: Function, sent: bytes) -> bytes:
    """What comes back until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", function.port), 20) as plug:
        plug.sendall(sent)
        said = b""
        try:
            while piece := plug.recv(65536):
                said += piece
        except ConnectionResetError:
            pass  # closed before it had read everything
        return said


def test_what_can_be_read_in_two_ways_is_refused_and_closed(function: Function) -> None:
    said = {name: says(function, sent + SMUGGLED) for name, (sent, _) in requests().items()}
    statuses = {name: int(answer.split(b" ")[1]) for name, answer in said.items() if answer}
    assert statuses == {name: status for name, (_, status) in requests().items() if said[name]}
    assert {400, 501} <= set(statuses.values())
    assert all(answer.count(b"HTTP/1.1 ") == 1 for answer in said.values() if answer)
    for answer in filter(None, said.values()):
        head, _, body = answer.partition(b"\r\n\r\n")
        assert b"content-type: application/problem+json\r\n" in head
        assert json.loads(body)["status"] == int(answer.split(b" ")[1])
        assert json.loads(body)["detail"]
        assert len(answer) < 600
    # Of few the reset may have overtaken the answer.
    assert sum(map(bool, said.values())) > len(said) // 2


def test_a_flood_of_them_leaves_a_few_lines_in_the_log(function: Function) -> None:
    for _ in range(200):
        says(function, b"GET / HTTP/1.1\r\n\r\n")

    told = [line for line in function.log.splitlines() if "others could read these bytes" in line]
    assert 0 < len(told) <= 20
