"""How far a replay is, and the checkpoint file that keeps it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

from headrace.core.errors import Misconfigured
from headrace_cli.access.stream_reader import MessageReader


@dataclass(frozen=True, slots=True)
class Span:
    """The wanted part of a stream; None stands for the stream's own end."""

    sequence: int | None = None
    since: datetime | None = None
    until_sequence: int | None = None
    until: datetime | None = None


@dataclass(slots=True)
class ReplayPosition:
    """The progress of a replay, with everything that is needed to go on with it.

    Attributes:
        run: names the replay; under the same name no event is stored twice within the duplicate window.
        next, last: the sequences that are still to be looked at.
        target: the receiver of the replay, in words.
    """

    run: str
    stream: str
    target: str
    next: int
    last: int
    replayed: int = 0

    @property
    def over(self) -> bool:
        return self.next > self.last


async def begin(reader: MessageReader, span: Span, *, run: str, stream: str, target: str) -> ReplayPosition:
    """A new replay, with the sequences that the span stands for now."""
    extent = await reader.extent()
    first, last = span.sequence or extent.first, span.until_sequence or extent.last
    if span.since is not None:
        first = await reader.sequence_at(span.since)
    if span.until is not None:
        last = await reader.sequence_at(span.until) - 1
    return ReplayPosition(run, stream, target, max(1, first, extent.first), min(last, extent.last))


def load(path: Path, *, stream: str, target: str) -> ReplayPosition | None:
    """The replay that a checkpoint file continues; None without a file.

    Raises:
        Misconfigured: the file is no checkpoint, or that of another replay.
    """
    try:
        known = ReplayPosition(**json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        problem = f"--checkpoint {path} is no checkpoint of a replay: {error}"
        raise Misconfigured(problem, field="--checkpoint") from None
    if (known.stream, known.target) != (stream, target):
        problem = f"is of a replay of {known.stream} to {known.target}, not of {stream} to {target}"
        raise Misconfigured(f"--checkpoint {path} {problem}", field="--checkpoint")
    return known


def save(path: Path, position: ReplayPosition) -> None:
    """Replace the checkpoint file.

    Raises:
        Misconfigured: the file can't be written.
    """
    beside = path.with_name(f".{path.name}.new")
    try:
        beside.write_text(json.dumps(asdict(position)))
        beside.replace(path)
    except OSError as error:
        problem = f"--checkpoint {path} can't be written: {error.strerror or error}"
        raise Misconfigured(problem, field="--checkpoint") from error
