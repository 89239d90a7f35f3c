"""Three nats-servers that make one cluster, on loopback ports of their own."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.request import urlopen

from pyspark_jetstream.client import Access, BlockingApi, Connection
from tests.support.nats.nats_server import START_SECONDS, NatsServer, free_port

SIZE = 3


class NatsCluster:
    """Attributes:
    servers: all of them, named n0 and so on; each can be killed and started again.
    """

    def __init__(self, directory: Path, *, store: str = "") -> None:
        ports = [free_port() for _ in range(SIZE)]
        self._monitors = [free_port() for _ in range(SIZE)]
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        self.servers = [
            NatsServer(
                directory / str(n),
                config=f'server_name: n{n}\nhttp: "127.0.0.1:{self._monitors[n]}"\n'
                f'cluster {{ name: c, listen: "127.0.0.1:{port}", routes: [{routes}] }}',
                store=store,
            )
            for n, port in enumerate(ports)
        ]

    @property
    def url(self) -> str:
        return ",".join(server.url for server in self.servers)

    def start(self) -> None:
        """Start those that don't run; returns when JetStream has a leader."""
        for server in self.servers:
            if not server.is_running:
                server.start()
        with Connection(Access(self.url, timeout=START_SECONDS)) as connection:
            BlockingApi(connection).call("INFO")

    def kill(self) -> None:
        for server in self.servers:
            server.kill()

    def at(self, address: str) -> str:
        """The name of the server that listens there."""
        [found] = [n for n, server in enumerate(self.servers) if server.url.endswith(address)]
        return f"n{found}"

    def server(self, name: str) -> NatsServer:
        return self.servers[int(name.removeprefix("n"))]

    def other_than(self, *names: str) -> str:
        """The name of one that is none of these."""
        return next(f"n{n}" for n in range(SIZE) if f"n{n}" not in names)

    def meta_leader(self) -> str:
        """The name of the server that gives streams and consumers to servers, once there is one."""
        asked = next(port for port, server in zip(self._monitors, self.servers, strict=True) if server.is_running)
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            with urlopen(f"http://127.0.0.1:{asked}/jsz", timeout=START_SECONDS) as answer:  # our own
                leader = json.load(answer).get("meta_cluster", {}).get("leader")
            if leader:
                return str(leader)
            time.sleep(0.01)
        raise AssertionError("the cluster got no leader")

    def wait_for_leader(self, jetstream: BlockingApi, stream: str) -> str:
        """The name of the server that leads a stream, once there is one and all replicas have what it has."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            cluster = jetstream.call(f"STREAM.INFO.{stream}").get("cluster", {})
            if cluster.get("leader") and all(one.get("current") for one in cluster.get("replicas", ())):
                return str(cluster["leader"])
            time.sleep(0.05)
        raise AssertionError(f"stream {stream} has no leader, or replicas that lag")
