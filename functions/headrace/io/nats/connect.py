"""Which client speaks to NATS: the engine, or nats-py where `NATS_CLIENT` says so."""

from __future__ import annotations

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from headrace.io.nats.engine import Engine


def client(settings: NatsSettings, *, name: str = "headrace") -> Client:
    """A client that opens its connection at the first use.

    Raises:
        Misconfigured: the settings can't be used.
    """
    if settings.client == "nats-py":
        # Imported on demand: it brings aiohttp, and costs a cold start more than all of ours.
        from headrace.io.nats.nats_py import NatsPy

        return NatsPy(settings, name=name)
    return Engine(settings, name=name)
