"""A host with our functions in it, started as its users start it and called as its callers call it."""

from __future__ import annotations

import os
import secrets
import uuid
from pathlib import Path
from typing import Any

import aiohttp

from headrace.core import names
from tests.hosts.environments import ROOT, Environment, Kind
from tests.support.functions import channels
from tests.support.nats.nats_server import free_port
from tests.support.programs.process import Running

NAMESPACE = "shop"
DATA = b'{ "order" : 4711.0 }'
EVENT = {
    "ce-specversion": "1.0",
    "ce-id": "order-1",
    "ce-source": "/shop",
    "ce-type": "com.example.order.created",
    "content-type": "application/json",
}


class Hosted:
    """Starts functions in one environment; each target's shared process at its first use."""

    def __init__(self, environment: Environment, nats_url: str, directory: Path) -> None:
        self.environment = environment
        self._nats_url = nats_url
        self._directory = directory
        self._token = secrets.token_hex(16)
        self._shared: dict[str, Running] = {}
        self._all: list[Running] = []

    def url(self, target: str) -> str:
        if target not in self._shared:
            self._shared[target] = self.start(target).wait_until_ready()
        return self._shared[target].url

    def start(self, target: str, **variables: str) -> Running:
        """A process of its own, which may not be ready yet; variables replace what it would get."""
        port = free_port()
        running = Running(
            target,
            self._command(target, port),
            port,
            self._directory,
            # Nothing of the test's own environment: no PYTHONPATH, no editable install.
            {
                "PATH": os.environ["PATH"],
                "HOME": str(self._directory),
                "NATS_URL": self._nats_url,
                "HEADRACE_TOKEN": self._token,
                "FUNCTION_TARGET": target,
                "LISTEN_ADDRESS": f"127.0.0.1:{port}",
                **variables,
            },
            inherit=False,
        )
        self._all.append(running)
        return running

    def stop(self) -> None:
        for running in self._all:
            running.stop()

    async def sync(self, http: aiohttp.ClientSession, channel: str, *subscribers: dict[str, Any]) -> dict[str, Any]:
        """Call the hook as the operator does, and give back its whole answer."""
        parent = channels.channel(*subscribers, namespace=NAMESPACE, name=channel, uid=str(uuid.uuid4()))
        body = {"controller": {}, "parent": parent, "children": {}, "related": {}, "finalizing": False}
        return await self._called(http, f"{self.url('reconcile')}/sync", body)

    async def send(self, http: aiohttp.ClientSession, channel: str, event_id: str = "order-1") -> None:
        """One event, accepted."""
        url, headers = f"{self.url('receive')}/{NAMESPACE}/{channel}", {**EVENT, "ce-id": event_id}
        async with http.post(url, data=DATA, headers=headers) as answer:
            assert answer.status == 202, await answer.text()

    async def lease(self, http: aiohttp.ClientSession, url: str, channel: str, uid: str) -> dict[str, Any]:
        """One lease as the operator opens it, from beginning to end: it lingers for 2 s."""
        consumer = {"stream": names.stream(NAMESPACE, channel), "consumer": names.durable(uid)}
        return await self._called(http, url, {**consumer, "seconds": 20, "linger": 2, "max_in_flight": 10})

    async def _called(self, http: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> dict[str, Any]:
        headers = {"authorization": f"Bearer {self._token}"}
        async with http.post(url, json=body, headers=headers) as answer:
            assert answer.status == 200, await answer.text()
            found: dict[str, Any] = await answer.json()
            return found

    def _command(self, target: str, port: int) -> list[str | Path]:
        python = self.environment.python
        if self.environment.kind is Kind.SCAFFOLD:
            return [python, self.environment.service / "service" / "main.py"]
        source = ROOT / "functions" / "main.py"
        where = ["--host", "127.0.0.1", "--port", str(port)]
        return [python.with_name("functions-framework"), "--asgi", "--source", source, "--target", target, *where]


def unique(word: str) -> str:
    """Tests share one NATS server, so each has channels of its own."""
    return f"{word}-{uuid.uuid4().hex[:8]}"
