"""Each function of a channel with a user of its own, each from its own Secret, under the template of `infra/nats`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from headrace.core import caller_token
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.own_account import Calls, RemoteAdmin
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.apart import CONNECTION, one
from tests.support.functions.channels import channel, entry
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import TOKEN
from tests.support.functions.reconciling import Hook, condition
from tests.support.http.sending import BINARY, send
from tests.support.http.subscriber import Subscriber
from tests.support.nats.nats_permissions import PASSWORD, PermittedServer
from tests.support.nats.tenants import Tenant, token_at
from tests.support.waiting import until


@pytest.fixture
def permitted(tmp_path: Path) -> Iterator[PermittedServer]:
    found = PermittedServer(tmp_path / "nats", config="")
    found.start()
    yield found
    found.kill()


def tenant_of(server: PermittedServer, directory: Path, function: str) -> Tenant:
    """The pods of one function: what all share is nobody's user, and what is its own is in the template."""
    directory.mkdir()
    tenant = Tenant(server, directory)
    tenant.mount("channel", {"username": "nobody", "password": "none"})
    tenant.mount("channel-function", {"username": function, "password": PASSWORD})
    return tenant


@pytest.fixture
async def asked(permitted: PermittedServer, tmp_path: Path) -> AsyncIterator[tuple[Hook, Tenant]]:
    tenant = tenant_of(permitted, tmp_path / "reconcile", "reconcile")
    client, calls = Client(NatsSettings.model_validate({"url": permitted.url})), Calls(token_at, tenant.reach)
    around = Around(digests=caller_token.digests(TOKEN.encode()), elsewhere=lambda url: RemoteAdmin(calls, url))
    hook = Hook(client, around, image=IMAGE, runtime="deployment")
    hook.pods = True
    yield hook, tenant
    await calls.close()
    await client.close()


async def test_three_functions_with_three_users_store_and_deliver(
    asked: tuple[Hook, Tenant], permitted: PermittedServer, tmp_path: Path
) -> None:
    hook, tenant = asked
    with Subscriber() as sinks:
        place = sinks.place()
        wanted = channel(entry(subscriberUri=place.uri), **CONNECTION)
        last = await hook.sync(wanted)
        with tenant.reconcile(one(last, "own-reconcile")):

            async def is_ready() -> bool:
                last.update(await hook.sync(wanted))
                return condition(last, "Ready")["status"] == "True"

            await until("its reconcile has made the streams", is_ready, 60.0)
        receive, forward = (
            tenant_of(permitted, tmp_path / name, name).function(name, one(last, name))
            for name in ("receive", "forward")
        )
        with receive, forward:

            async def stored() -> bool:
                return (await send(f"{receive.url}/shop/orders", b"{}", BINARY)).status == 202

            await until("an event is stored", stored, 60.0)
            await place.wait(1, 60.0)
