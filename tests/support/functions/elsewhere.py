"""A channel in another NATS account than the installation's: both sides of it, and calls of the hook about it.

A plugin: a test module takes its fixtures in with `pytest_plugins`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from headrace.core import caller_token
from headrace.core.installation.channel_defaults import Defaults
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.jetstream.own_account import Calls, RemoteAdmin
from headrace.io.nats.client import Client
from headrace.reconcile import Around
from tests.support.functions.children import IMAGE
from tests.support.functions.functions import TOKEN
from tests.support.functions.reconciling import Hook
from tests.support.nats.tenants import INSTALLATION, TENANT, Accounts, Tenant, token_at


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Accounts]:
    found = Accounts(tmp_path / "nats")
    found.start()
    yield found
    found.kill()


@pytest.fixture
async def account_of(accounts: Accounts) -> AsyncIterator[Callable[[str], Client]]:
    """A connection to one of the accounts."""
    made: list[Client] = []

    def of(user: str) -> Client:
        made.append(Client(NatsSettings.model_validate({"url": accounts.url_of(user)})))
        return made[-1]

    yield of
    for client in made:
        await client.close()


@pytest.fixture
def tenant(accounts: Accounts, tmp_path: Path) -> Tenant:
    return Tenant(accounts, tmp_path)


@pytest.fixture
async def hook(account_of: Callable[[str], Client], tenant: Tenant) -> AsyncIterator[Hook]:
    """The installation's, which reaches others where the tenant is."""
    calls = Calls(token_at, tenant.reach)
    digests = caller_token.digests(TOKEN.encode())
    around = Around(Defaults(), digests=digests, elsewhere=lambda url: RemoteAdmin(calls, url))
    settings = {"image": IMAGE, "runtime": "knative", "nats_config_map": "config-nats", "names": "listed"}
    found = Hook(account_of(INSTALLATION), around, **settings)
    found.pods = True
    yield found
    await calls.close()


@pytest.fixture
def theirs(account_of: Callable[[str], Client]) -> Hook:
    """Looks into the tenant's account."""
    return Hook(account_of(TENANT))
