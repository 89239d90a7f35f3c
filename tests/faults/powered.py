"""A nats-server whose disk can lose its power, and with it all that was not synced."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from pathlib import Path

from tests.faults.processes import Cluster, own_port
from tests.support.disk.lossy_disk import LossyDisk
from tests.support.disk.lossy_tree import Kept
from tests.support.nats.nats_server import NatsServer
from tests.support.programs.process import LOOPBACK, Site


class PoweredServer(NatsServer):
    """Attributes:
    disk: it has power from the first start until `kill`, which here is the end of both.
    """

    def __init__(
        self, directory: Path, *, config: str = "", port: int | None = None, site: Site = LOOPBACK, sync: str = ""
    ) -> None:
        """Args:
        sync: JetStream's sync_interval; the server's own, if not given.
        """
        store = f"sync_interval: {sync}" if sync else ""
        super().__init__(directory, config=config, port=port or own_port(), store=store, site=site)
        self.disk: LossyDisk | None = None

    def start(self, *, config: str | None = None) -> NatsServer:
        if self.disk is None:
            self.disk = LossyDisk(self._config.parent).start()
            self.data = self.disk.root / "jetstream"
        return super().start(config=config)

    def sync(self) -> None:
        """What it holds by now is old, and on the disk."""
        assert self.disk is not None, "it was never started"
        self.disk.sync()

    def lose_power(self, chance: random.Random, kept: Kept) -> None:
        """At once, with what has not been synced; `start` brings the server back."""
        assert self.disk is not None, "it was never started"
        super().kill()
        self.disk.cut(chance.getrandbits(32), kept)

    def kill(self) -> None:
        super().kill()
        if self.disk is not None:
            self.disk.stop()
            self.disk = None


def alone(sync: str = "") -> Callable[[Path], NatsServer]:
    return lambda directory: PoweredServer(directory / "nats", sync=sync)


def three(sync: str = "") -> Callable[[Path], Cluster]:
    return lambda directory: Cluster(directory, node=functools.partial(PoweredServer, sync=sync))
