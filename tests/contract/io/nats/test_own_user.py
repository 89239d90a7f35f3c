"""A function with a user of its own, from a mounted Secret: it gets its answers where that user may listen."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.core.errors import HeadraceError
from headrace.core.installation.nats_settings import NatsSettings
from headrace.io.nats.client import Client
from tests.support.kube.mounts import Mount
from tests.support.nats.nats_permissions import PASSWORD, TEMPLATE, PermittedServer, inbox_of
from tests.support.waiting import until

pytestmark = pytest.mark.asyncio(loop_factories=["uvloop"])
ASK_SECONDS = 2.0
# What all share, before anybody has thought of users: answered below `_INBOX` and nowhere else.
SHARED = """
{ user: shared, password: %s, permissions { publish: ">", subscribe: "_INBOX.>" } }
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[PermittedServer]:
    text = TEMPLATE.read_text(encoding="utf-8").replace("users: [", f"users: [{SHARED % PASSWORD}", 1)
    found = PermittedServer(tmp_path / "nats", template=text)
    found.start()
    yield found
    found.kill()


@asynccontextmanager
async def connected(url: str, root: Path) -> AsyncIterator[Client]:
    given = {"url": url, "credentials_dir": str(root), "function_inbox_prefix": inbox_of("forward")}
    client = Client(NatsSettings.model_validate(given))
    try:
        yield client
    finally:
        await client.close()


async def answered(client: Client) -> bool:
    """Does an answer come to where this user listens? Both users may ask this, as for a consumer that is not there."""
    try:
        found = await client.request("$JS.API.CONSUMER.INFO.S.C", timeout=ASK_SECONDS)
    except HeadraceError:
        return False
    return "error" in json.loads(found.data)


async def test_a_user_of_its_own_is_answered_below_its_own_prefix(server: PermittedServer, tmp_path: Path) -> None:
    root = tmp_path / "credentials"
    Mount(root / "cluster", username="shared", password=PASSWORD)
    Mount(root / "cluster-function", username="forward", password=PASSWORD)
    async with connected(server.url, root) as client:
        await until("it is answered", lambda: answered(client), 20.0)
        assert client.new_inbox().startswith("_INBOX_forward.")


async def test_a_user_that_comes_later_takes_over_and_its_prefix_with_it(
    server: PermittedServer, tmp_path: Path
) -> None:
    root = tmp_path / "credentials"
    Mount(root / "cluster", username="shared", password=PASSWORD)
    own = Mount(root / "cluster-function")
    async with connected(server.url, root) as client:
        await until("what all share is taken", lambda: answered(client), 20.0)
        assert client.new_inbox().startswith("_INBOX.")

        own.swap(username="forward", password=PASSWORD)
        await until("it has moved", lambda: client.new_inbox().startswith("_INBOX_forward."), 20.0)
        await until("it is answered there", lambda: answered(client), 20.0)

        own.swap()
        await until("it has moved back", lambda: client.new_inbox().startswith("_INBOX."), 20.0)
        await until("it is answered as before", lambda: answered(client), 20.0)
