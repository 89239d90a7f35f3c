"""An edit of the mounted ConfigMap is told of, once at once and once when everybody has seen it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.io.process.nats_config import mounted
from headrace_operator.channels.edit_watch import EditWatch
from tests.support.kube.mounts import Mount
from tests.support.waiting import until


@asynccontextmanager
async def following(mount: Mount, *, late: float) -> AsyncIterator[list[str]]:
    told: list[str] = []
    following = EditWatch(lambda: mounted(mount.path), lambda: told.append("all"), 0.01, late)
    work = asyncio.create_task(following.run())
    try:
        # It has read what was there.
        await asyncio.sleep(0.05)
        yield told
    finally:
        work.cancel()
        await asyncio.wait([work])


async def test_an_edit_is_told_of_twice_and_what_stays_is_not(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "config", **{"eventing-nats": "url: nats://a"})
    async with following(mount, late=0.1) as told:
        assert told == []
        mount.swap(**{"eventing-nats": "url: nats://b"})
        await until("both are told", lambda: len(told) == 2, 20.0)
        await asyncio.sleep(0.3)
        assert len(told) == 2


async def test_what_can_not_be_read_is_no_edit(tmp_path: Path) -> None:
    mount = Mount(tmp_path / "config", **{"eventing-nats": "url: nats://a"})
    async with following(mount, late=60.0) as told:
        (tmp_path / "config" / "..data" / "eventing-nats").write_bytes(b"\xff")
        await asyncio.sleep(0.2)
        assert told == []
        mount.swap(**{"eventing-nats": "url: nats://b"})
        await until("what can be read is told of", lambda: told == ["all"], 20.0)
