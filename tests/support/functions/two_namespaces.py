"""A cluster in which one namespace has a channel, and another would like to have it.

Everything is real but the API server: `reconcile` and `receive` act with their own users of `infra/nats/accounts.conf`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.api import JetStreamApi
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.channels import channel, entry
from tests.support.functions.reconciling import Hook
from tests.support.functions.trespassing import post
from tests.support.nats.nats_permissions import PASSWORD, PermittedServer, inbox_of


@pytest.fixture
def template_server(tmp_path: Path) -> Iterator[PermittedServer]:
    server = PermittedServer(tmp_path / "nats")
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def people(template_server: PermittedServer) -> AsyncIterator[dict[str, Client]]:
    """A connection for each user of the template that is needed here."""
    common = {"url": template_server.url, "password": PASSWORD}
    clients = {
        name: Client(NatsSettings.model_validate({**common, "user": name, "inbox_prefix": inbox_of(name)}))
        for name in ("reconcile", "receive", "admin")
    }
    yield clients
    for client in clients.values():
        await client.close()


@pytest.fixture
async def admin(people: dict[str, Client]) -> JetStreamApi:
    return JetStreamApi(people["admin"])


@pytest.fixture
async def strict(people: dict[str, Client], admin: JetStreamApi) -> Hook:
    """`reconcile` where the victim has a channel with an event, and people have a bucket and a stream."""
    found = Hook(people["reconcile"], Around(), names="listed")
    await found.sync(channel(entry(), namespace="victim", name="x"))
    for name, subject in (("KV_payroll", "$KV.payroll.>"), ("ORDERS", "legacy.orders.>")):
        await admin.call(f"STREAM.CREATE.{name}", {"name": name, "subjects": [subject], "storage": "file"})
    await post(people["receive"], "victim.x._knative")
    return found
