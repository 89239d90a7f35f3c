"""The work of one task: it reads its part of one stream, and makes sure that the stream is the one of the planning.

A part that was discarded, purged or replaced before it was read must not look like an empty one.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from headrace.core.errors import Refused
from pyspark_jetstream.client import BlockingApi, Messages, read_direct, read_pulled
from pyspark_jetstream.client.api import StreamInfo
from pyspark_jetstream.offsets import Range, data_loss
from pyspark_jetstream.plan import DIRECT

_log = logging.getLogger("pyspark_jetstream")


@dataclass(frozen=True, slots=True)
class TaskPart:
    """The part that a task reads; Spark pickles it to the task.

    Attributes:
        lenient_start: the query starts with whichever message is the first by now.
    """

    range: Range
    filters: tuple[str, ...]
    mode: str
    lenient_start: bool
    fail_on_data_loss: bool


def fetch(jetstream: BlockingApi, part: TaskPart) -> Iterator[Messages]:
    """The part's messages, in chunks.

    Raises:
        Refused: the messages can't be the planned ones.
        Unavailable: NATS gave no answer for too long; the task may be tried again.
    """
    wanted = part.range
    _current(jetstream, wanted)
    reached, lenient = wanted.start, part.lenient_start
    reading = (read_direct if part.mode == DIRECT else read_pulled)(
        jetstream, wanted.stream, wanted.start, wanted.end, part.filters
    )
    for messages in reading:
        if lenient:
            reached, lenient = messages.sequences[0], False
        if messages.sequences[0] != reached or not messages.is_contiguous:
            _check(jetstream, part, reached, messages.sequences[-1])
        reached = messages.sequences[-1] + 1
        yield messages
    info = _current(jetstream, wanted)
    if reached < wanted.end and not lenient:
        _judge(part, reached, wanted.end - 1, info)


def _check(jetstream: BlockingApi, part: TaskPart, reached: int, last: int) -> None:
    """Judge a gap: messages that the stream has discarded from its front are a loss, deleted ones are not."""
    _judge(part, reached, last, _current(jetstream, part.range))


def _judge(part: TaskPart, reached: int, last: int, info: StreamInfo) -> None:
    if info.first <= reached:
        return
    problem = data_loss(info.name, reached, min(info.first, last + 1))
    if part.fail_on_data_loss:
        raise Refused(problem, status=410)
    _log.warning("%s", problem)


def _current(jetstream: BlockingApi, wanted: Range) -> StreamInfo:
    """The stream, if it is still the planned one."""
    info = jetstream.stream(wanted.stream)
    if info is None or info.created != wanted.created or info.last + 1 < wanted.end:
        what = "is gone" if info is None else "was made again, or has shrunk,"
        raise Refused(
            f"stream {wanted.stream} {what} since its messages {wanted.start} to {wanted.end - 1} were planned: start "
            "the query again; a streaming query needs a new checkpoint",
            status=409,
        )
    return info
