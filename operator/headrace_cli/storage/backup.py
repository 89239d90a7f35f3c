"""A directory that holds a channel: the snapshots of its streams, and the list that says which, with their checksums.

The channel's stream is saved before its aside stream, and brought back after it: so an event that moves from the one to
the other in between is in both rather than in none.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from headrace.core import names
from headrace.core.errors import Misconfigured
from headrace.core.quoting import quoted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import CatalogChannel
from headrace_cli.storage import snapshot
from headrace_cli.storage.snapshot import OnBytes, Snapshot
from headrace_cli.view import units

LIST = "backup.json"
_NO_STREAM = re.compile(r"[\s.*>/\\]")


class Backup:
    """One backup, whole or begun.

    Attributes:
        channel: `namespace/name` of the saved channel; taken: when the backup was begun.
        streams: its snapshots, by the names of the streams.
    """

    def __init__(self, directory: Path, known: dict[str, Any]) -> None:
        self.directory = directory
        self.channel = str(known["channel"])
        self.taken = str(known["taken"])
        self.streams = {name: Snapshot(**taken) for name, taken in known["streams"].items()}
        self.complete = bool(known.get("complete"))

    async def save(self, session: Session, stream: str, on_bytes: OnBytes) -> Snapshot:
        """Add the snapshot of a stream; raises as `snapshot.take` does."""
        taken = await snapshot.take(session, stream, self._file(stream), on_bytes)
        self.streams[stream] = taken
        self._write()
        return taken

    def end(self) -> None:
        """Mark the backup as whole."""
        self.complete = True
        self._write()

    def verify(self) -> None:
        """Compare the files with their checksums.

        Raises:
            Misconfigured: a file is damaged, or can't be read.
        """
        for name, taken in self.streams.items():
            try:
                found = snapshot.checksum(self._file(name))
            except OSError as error:
                raise _fault(f"{name}.snapshot can't be read: {error.strerror}") from None
            if found != (taken.bytes, taken.sha256):
                problem = f"has {found[0]} bytes with checksum {found[1][:12]}…"
                wanted = f"{taken.bytes} bytes with {taken.sha256[:12]}…"
                raise _fault(f"{name}.snapshot {problem}, and should have {wanted}: it is damaged")

    def order_of_return(self) -> list[str]:
        """The streams in the order of their return: the aside stream has to exist before the consumers."""
        return sorted(self.streams, key=lambda name: not name.endswith(names.aside("")))

    async def bring_back(self, session: Session, stream: str, on_bytes: OnBytes) -> dict[str, Any]:
        """Make a stream again as it was; gives its new state. Raises as `snapshot.bring_back` does."""
        return await snapshot.bring_back(session, self.streams[stream], self._file(stream), on_bytes)

    def _file(self, stream: str) -> Path:
        return self.directory / f"{stream}.snapshot"

    def _write(self) -> None:
        known = {"v": 1, "channel": self.channel, "taken": self.taken}
        known["streams"] = {name: asdict(taken) for name, taken in self.streams.items()}
        if self.complete:
            known["complete"] = True
        beside = self.directory / f".{LIST}.new"
        beside.write_text(json.dumps(known, indent=1))
        beside.replace(self.directory / LIST)


def streams_of(channel: CatalogChannel) -> list[str]:
    """The streams of a channel that are saved, in this order."""
    return [channel.stream, *([channel.aside_name] if channel.aside is not None else [])]


def begin(directory: Path, channel: CatalogChannel, *, again: bool) -> Backup:
    """The backup that an interrupted run has left in the directory, or a new one.

    Args:
        again: replace the backup that the directory holds.

    Raises:
        Misconfigured: the directory holds another channel's backup or a whole one, or can't be used.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _fault(f"{directory} can't be used: {error.strerror}") from None
    if again or not (directory / LIST).exists():
        now = units.stamp(datetime.now(UTC))
        return Backup(directory, {"channel": channel.ref, "taken": now, "streams": {}})
    known = load(directory)
    if known.channel != str(channel.ref):
        raise _fault(f"{directory} holds a backup of {known.channel}: give another directory")
    if known.complete:
        cure = "give another directory, or --again to replace it"
        raise _fault(f"{directory} holds a whole backup of {known.taken}: {cure}")
    return known


def load(directory: Path) -> Backup:
    """The backup that a directory holds.

    Raises:
        Misconfigured: the directory holds none.
    """
    try:
        known: dict[str, Any] = json.loads((directory / LIST).read_bytes())
        if known["v"] != 1:
            raise ValueError(f"version {known['v']}")
        for name, taken in dict(known["streams"]).items():
            # The names become parts of file names and of subjects.
            if not name or _NO_STREAM.search(name):
                raise ValueError(f"{quoted(name)} is no stream's name")
            if not int(Snapshot(**taken).state["messages"]) >= 0:
                raise ValueError(f"{name} holds no number of messages")
        return Backup(directory, known)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise _fault(f"{directory} holds no backup: {LIST} can't be read: {words}") from None


def _fault(problem: str) -> Misconfigured:
    return Misconfigured(problem, field="DIRECTORY")
