"""One stream as the server's own snapshot: to a file, and from it to a stream as it was.

Sequences, times, metadata, consumers and their positions are in it; what it looks like inside is the server's affair.
Knows the two requests and their flow of chunks; knows neither channels nor people.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.errors import Refused, Unavailable
from headrace.core.nats.api_error import ApiError
from headrace.io.nats.contract import Arrival, Broken
from headrace_cli.access.session import Session

CHUNK_BYTES = 128 * 1024
# The longest wait between two chunks; the server reads a whole block of the store, perhaps from a slow disk.
PATIENCE_SECONDS = 30.0

OnBytes = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot in a file, with the data that bringing it back needs."""

    config: dict[str, Any]
    state: dict[str, Any]
    bytes: int
    sha256: str


async def take(session: Session, stream: str, file: Path, on_bytes: OnBytes) -> Snapshot:
    """Write a snapshot; the file appears when it is whole.

    Raises:
        Unavailable: the connection broke, or no chunk came for a while. Refused: the server's own words.
    """
    inbox = f"_INBOX.{secrets.token_hex(11)}"
    chunks: asyncio.Queue[Arrival | None] = asyncio.Queue()

    def broken() -> None:
        chunks.put_nowait(None)

    session.client.on_disconnect.append(broken)
    subscription = await session.client.subscribe(inbox, chunks.put_nowait)
    part = file.with_name(f"{file.name}.part")
    try:
        body = {"deliver_subject": inbox, "no_consumers": False, "chunk_size": CHUNK_BYTES, "jsck": True}
        made = await session.api.call(f"STREAM.SNAPSHOT.{stream}", body, timeout=PATIENCE_SECONDS)
        size, digest = await _write(session, stream, chunks, part, on_bytes)
    finally:
        session.client.on_disconnect.remove(broken)
        await subscription.close()
    part.replace(file)
    return Snapshot(made["config"], made["state"], size, digest)


async def _write(
    session: Session, stream: str, chunks: asyncio.Queue[Arrival | None], part: Path, on_bytes: OnBytes
) -> tuple[int, str]:
    size, digest = 0, hashlib.sha256()
    with part.open("wb") as out:  # nothing else runs beside it
        while True:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    chunk = await chunks.get()
            except TimeoutError:
                raise Unavailable(f"no part of the snapshot of {stream} came for {PATIENCE_SECONDS:.0f} s") from None
            if chunk is None:
                raise Unavailable(f"the connection broke while {stream} was read")
            if not chunk.data:
                if chunk.status not in ("", "204"):
                    raise Unavailable(f"the snapshot of {stream} broke off: {chunk.status} {chunk.description}")
                return size, digest.hexdigest()
            out.write(chunk.data)
            size += len(chunk.data)
            digest.update(chunk.data)
            on_bytes(len(chunk.data))
            if chunk.reply:
                await session.client.publish(chunk.reply)


async def bring_back(session: Session, taken: Snapshot, file: Path, on_bytes: OnBytes) -> dict[str, Any]:
    """Make the stream again as it was; gives its new state.

    Raises:
        Refused: the stream exists, or the server's own words. Unavailable: the connection broke; no stream is there.
    """
    name = taken.config["name"]
    made = await session.api.call(
        f"STREAM.RESTORE.{name}", {"config": taken.config, "state": taken.state}, timeout=PATIENCE_SECONDS
    )
    to = made["deliver_subject"]
    with file.open("rb") as chunks:  # nothing else runs beside it
        while chunk := chunks.read(CHUNK_BYTES):
            answer = await _ask(session, to, chunk)
            if answer.data:
                _raise_if_refused(to, answer)
            on_bytes(len(chunk))
    end = await _ask(session, to, b"")
    _raise_if_refused(to, end)
    return dict(json.loads(end.data)["state"])


def checksum(file: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file; raises OSError."""
    digest, size = hashlib.sha256(), 0
    with file.open("rb") as chunks:
        while chunk := chunks.read(1024 * 1024):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


async def _ask(session: Session, to: str, chunk: bytes) -> Arrival:
    try:
        answer = await session.client.request(to, chunk, timeout=PATIENCE_SECONDS)
    except Broken:
        raise Unavailable("the connection broke while the snapshot was sent") from None
    if answer.status == "503":
        raise Unavailable("the server has given the restore up")
    return answer


def _raise_if_refused(to: str, answer: Arrival) -> None:
    try:
        parsed = json.loads(answer.data)
    except ValueError:
        raise Refused(f"the server answered {answer.data[:200]!r} to the snapshot", status=500) from None
    if "error" in parsed:
        raise ApiError(to, parsed["error"])
