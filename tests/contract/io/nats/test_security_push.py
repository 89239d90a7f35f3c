"""The security document as a process of `receive` hears of it: by push over a real NATS, and by its mount."""

from __future__ import annotations

import time
from pathlib import Path

import aiohttp
import pytest

from headrace.core.security import document
from headrace.core.security.document import SecurityDocument
from headrace.core.security.flags import Flags
from headrace.core.security.issuer import Issuer
from tests.support.functions.in_process import InProcess
from tests.support.nats.nats_server import NatsServer
from tests.support.nats.streams import Nats
from tests.support.security.mounted import Mounted
from tests.support.waiting import until

KEY = "ab" * 32
PLACE = "shop"
ISSUER = Issuer("https://issuer.example", (), ())


@pytest.fixture
def mount(tmp_path: Path, nats_server: NatsServer, monkeypatch: pytest.MonkeyPatch) -> Mounted:
    found = Mounted(tmp_path / "security")
    for name, value in {
        "NATS_URL": nats_server.url,
        "HEADRACE_SECURITY_DIR": str(found.directory),
        "HEADRACE_SECURITY_PLACE": PLACE,
        "HEADRACE_DELIVERY_KEY": KEY,
    }.items():
        monkeypatch.setenv(name, value)
    return found


def pushed(one: SecurityDocument, *, place: str = PLACE, key: str = KEY) -> bytes:
    return document.sealed(one.to_json(), place, bytes.fromhex(key))


def revision(number: int) -> SecurityDocument:
    return SecurityDocument(number, Flags(auto_create_types=True))


async def probed(function: InProcess) -> None:
    """As the kubelet does before anybody sends: then the function connects."""
    async with aiohttp.ClientSession() as session, session.get(f"{function.url}/health/readiness") as answer:
        assert answer.status == 200


async def test_a_push_counts_at_once_and_a_forged_old_or_broken_one_never(
    mount: Mounted, nats_server: NatsServer
) -> None:
    with InProcess("receive") as function:
        async with Nats(nats_server.url) as nats:
            security = function.app.security
            await probed(function)

            async def says(message: bytes) -> None:
                await nats.client.publish(document.subject(PLACE), message)
                await nats.client.flush()

            async def reached() -> bool:
                await says(pushed(revision(5)))
                return security.now() == revision(5)

            await until("the function listens", reached, 20)
            for message in (
                pushed(revision(9), key="cd" * 32),
                pushed(revision(9), place="bank"),
                revision(9).to_json(),
                b"",
                b"x" * 100_000,
                document.sealed(b"{", PLACE, bytes.fromhex(KEY)),
                pushed(revision(4)),
            ):
                await says(message)
            began = time.monotonic()
            await says(pushed(revision(6)))
            await until("the next good one counts", lambda: security.now() == revision(6), 1.0)
            assert time.monotonic() - began < 1.0


async def test_after_a_restart_the_mount_counts_and_a_push_that_is_newer(
    mount: Mounted, nats_server: NatsServer
) -> None:
    mount.trust(ISSUER)
    with InProcess("receive") as function:
        async with Nats(nats_server.url) as nats:
            security = function.app.security
            assert security.now() == mount.document
            await probed(function)

            async def reached() -> bool:
                await nats.client.publish(document.subject(PLACE), pushed(revision(7)))
                await nats.client.flush()
                return security.now() == revision(7)

            await until("the push counts", reached, 20)
    with InProcess("receive") as function:
        assert function.app.security.now() == mount.document
