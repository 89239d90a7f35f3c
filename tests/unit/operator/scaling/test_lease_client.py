"""A lease's connection notices that its `forward` is gone, though nothing is sent on it."""

from __future__ import annotations

import socket

from headrace_operator.scaling.lease_client import kept_alive


def test_the_kernel_asks_after_seconds_of_silence_whether_the_connection_lives() -> None:
    [address, *_] = socket.getaddrinfo("127.0.0.1", 80, type=socket.SOCK_STREAM)
    with kept_alive(address) as plug:
        assert plug.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, pause, count = (
            plug.getsockopt(socket.IPPROTO_TCP, name)
            for name in (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        )
    assert idle + pause * count <= 30
