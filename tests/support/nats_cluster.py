"""Three nats-servers that make one cluster, on loopback ports of their own."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark_jetstream.client import Access, Connection, JetStream
from tests.support.nats_server import START_SECONDS, NatsServer, free_port

SIZE = 3


class NatsCluster:
    """Attributes:
    servers: all of them; each can be killed and started again.
    """

    def __init__(self, directory: Path) -> None:
        ports = [free_port() for _ in range(SIZE)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.servers = [
            NatsServer(
                directory / str(n),
                config=f'server_name: n{n}\ncluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}',
            )
            for n, port in enumerate(ports)
        ]

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    def start(self) -> None:
        """Returns when JetStream has a leader."""
        for server in self.servers:
            server.start()
        with Connection(Access(self.url, timeout=START_SECONDS)) as connection:
            JetStream(connection).call("INFO")

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def server_at(self, address: str) -> NatsServer:
        """The one that listens there."""
        [found] = [server for server in self.servers if server.url.endswith(address)]
        return found

    def wait_for_leader(self, jetstream: JetStream, stream: str) -> str:
        """The name of the server that leads a stream, once there is one."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            leader = jetstream.call(f"STREAM.INFO.{stream}").get("cluster", {}).get("leader")
            if leader:
                return str(leader)
        raise AssertionError(f"stream {stream} got no leader")
