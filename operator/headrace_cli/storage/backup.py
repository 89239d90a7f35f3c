"""What `backup` and `restore` do, in which order: the snapshots of a channel's streams, and the list that holds them.

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
from headrace.core.errors import Misconfigured, Refused
from headrace.core.plural import counted
from headrace.core.quoting import quoted
from headrace_cli.access.session import Session
from headrace_cli.catalog.channels import channel
from headrace_cli.catalog.names import ref
from headrace_cli.commands.params import Given
from headrace_cli.commands.running import confirmed, tell
from headrace_cli.storage import snapshot
from headrace_cli.storage.snapshot import Taken
from headrace_cli.view import units
from headrace_cli.view.output import say
from headrace_cli.view.progress import Progress

LIST = "backup.json"
_NO_STREAM = re.compile(r"[\s.*>/\\]")


async def backup(session: Session, given: Given) -> int:
    """Save a channel; what an interrupted run has finished is kept, and not done again."""
    found = await channel(session.api, ref(given["channel"], given["namespace"]))
    directory = Path(given["directory"])
    known = _begun(directory, str(found.ref), given)
    for name in [found.stream, *([found.aside_name] if found.aside is not None else [])]:
        if name in known["streams"]:
            tell(f"{name} is saved already")
            continue
        info = await session.api.call(f"STREAM.INFO.{name}")
        with Progress("saved", int(info["state"]["bytes"]), what="byte") as progress:
            taken = await snapshot.take(session, name, directory / f"{name}.snapshot", progress.step)
        known["streams"][name] = asdict(taken)
        _write(directory, known)
        tell(f"{name}: {counted(taken.state['messages'], 'message')}, {units.size(taken.bytes)}")
    _write(directory, {**known, "complete": True})
    say(f"{found.ref} is saved in {directory}")
    return 0


async def restore(session: Session, given: Given) -> int:
    """Bring a saved channel back; streams that an interrupted run has brought back are left alone."""
    directory = Path(given["directory"])
    known = _read(directory)
    if not known.get("complete"):
        problem = "was interrupted: run `kn jetstream backup` again, it goes on"
        raise Misconfigured(f"the backup in {directory} {problem}", field="DIRECTORY")
    streams = {name: Taken(**taken) for name, taken in known["streams"].items()}
    for name, taken in streams.items():
        _verify(directory, name, taken)
    tell(f"{known['channel']}, saved at {known['taken']}; checksums are right")
    if given["verify"]:
        return 0
    there = {name: await session.api.find(f"STREAM.INFO.{name}") for name in streams}
    if all(there.values()):
        raise Refused(
            f"{', '.join(streams)} exist: delete the channel first (kn jetstream channel delete), nothing is replaced",
            status=409,
        )
    count = sum(int(taken.state["messages"]) for name, taken in streams.items() if there[name] is None)
    if not confirmed(f"Bring back {counted(count, 'message')} of {known['channel']}?", yes=given["yes"]):
        return 0
    # The aside stream first: it has to be there when the consumers are.
    for name in sorted(streams, key=lambda name: not name.endswith(names.aside(""))):
        if there[name] is not None:
            tell(f"{name} is there, and left alone")
            continue
        taken = streams[name]
        with Progress("brought back", taken.bytes, what="byte") as progress:
            state = await snapshot.bring_back(session, taken, directory / f"{name}.snapshot", progress.step)
        consumers = counted(state.get("consumer_count", 0), "consumer")
        tell(f"{name}: {counted(state['messages'], 'message')}, {consumers}")
    say(f"{known['channel']} is back")
    return 0


def _begun(directory: Path, name: str, given: Given) -> dict[str, Any]:
    """What an earlier run has left in the directory, or a new beginning."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Misconfigured(f"{directory} can't be used: {error.strerror}", field="DIRECTORY") from None
    if (directory / LIST).exists() and not given["again"]:
        known = _read(directory)
        if known["channel"] != name:
            problem = f"holds a backup of {known['channel']}: give another directory"
            raise Misconfigured(f"{directory} {problem}", field="DIRECTORY")
        if known.get("complete"):
            problem = f"holds a whole backup of {known['taken']}: give another directory, or --again to replace it"
            raise Misconfigured(f"{directory} {problem}", field="DIRECTORY")
        return known
    return {"v": 1, "channel": name, "taken": units.stamp(datetime.now(UTC)), "streams": {}}


def _read(directory: Path) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads((directory / LIST).read_bytes())
        if known["v"] != 1:
            raise ValueError(f"version {known['v']}")
        for name, taken in dict(known["streams"]).items():
            # They become names of files and of subjects.
            if not name or _NO_STREAM.search(name):
                raise ValueError(f"{quoted(name)} is no stream's name")
            if not int(Taken(**taken).state["messages"]) >= 0:
                raise ValueError(f"{name} holds no number of messages")
        return {"channel": known["channel"], "taken": known["taken"], "streams": dict(known["streams"]), **known}
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        words = error.strerror if isinstance(error, OSError) else error
        raise Misconfigured(f"{directory} holds no backup: {LIST} can't be read: {words}", field="DIRECTORY") from None


def _write(directory: Path, known: dict[str, Any]) -> None:
    beside = directory / f".{LIST}.new"
    beside.write_text(json.dumps(known, indent=1))
    beside.replace(directory / LIST)


def _verify(directory: Path, name: str, taken: Taken) -> None:
    try:
        found = snapshot.checksum(directory / f"{name}.snapshot")
    except OSError as error:
        raise Misconfigured(f"{name}.snapshot can't be read: {error.strerror}", field="DIRECTORY") from None
    if found != (taken.bytes, taken.sha256):
        problem = f"has {found[0]} bytes with checksum {found[1][:12]}…"
        wanted = f"{taken.bytes} bytes with {taken.sha256[:12]}…"
        raise Misconfigured(f"{name}.snapshot {problem}, and should have {wanted}: it is damaged", field="DIRECTORY")
