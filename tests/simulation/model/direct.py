"""Direct gets: a message, or a batch of them, as the stream has it, without JSON around it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.simulation.model import blocks
from tests.simulation.model.refusals import Unmodelled

if TYPE_CHECKING:
    from tests.simulation.model.messages import Stored
    from tests.simulation.model.server import JetStreamModel
    from tests.simulation.model.stream import Stream

_FIELDS = {"seq", "next_by_subj", "last_by_subj", "batch", "max_bytes"}
# What the server lets wait for one client.
_MAX_BYTES = 64 * 1024 * 1024
_NOT_FOUND = [(blocks.status(404, "Message Not Found"), b"")]


def get(server: JetStreamModel, tokens: list[str], data: bytes) -> list[tuple[bytes, bytes]] | None:
    """The messages that answer the request; None: the stream does not take such requests.

    Args:
        tokens: the stream, and perhaps the subject whose newest message is asked for.
    """
    stream = server.streams.get(tokens[0])
    if stream is None or not stream.config.get("allow_direct"):
        return None
    if len(tokens) > 1:
        if data:
            raise Unmodelled(f"a direct get by subject with a request: {data!r}")
        return _one(stream, stream.kept.last_of(".".join(tokens[1:])))
    asked = json.loads(data) if data else {}
    if unknown := asked.keys() - _FIELDS:
        raise Unmodelled(f"the members {sorted(unknown)} of a direct get")
    if not any(asked.get(key) for key in ("seq", "next_by_subj", "last_by_subj")):
        return [(blocks.status(408, "Empty Request"), b"")]
    start, subject = asked.get("seq", 0), asked.get("next_by_subj", "")
    if not asked.get("batch"):
        if asked.get("last_by_subj"):
            return _one(stream, stream.kept.last_of(asked["last_by_subj"]))
        return _one(stream, stream.kept.next([subject], start) if subject else start)
    return _batch(stream, [subject] if subject else [], start, asked["batch"], asked.get("max_bytes") or _MAX_BYTES)


def _one(stream: Stream, sequence: int) -> list[tuple[bytes, bytes]]:
    message = stream.messages.get(sequence)
    if message is None:
        return _NOT_FOUND
    return [(blocks.added(message.headers, *_facts(stream, sequence, message)), message.data)]


def _batch(stream: Stream, filters: list[str], start: int, most: int, size: int) -> list[tuple[bytes, bytes]]:
    left, newest, found, sent = stream.kept.count(filters, start), 0, [], 0
    for _ in range(most):
        sequence = stream.kept.next(filters, start)
        if not sequence:
            if not found or most == 1:
                return _NOT_FOUND
            break
        message, start, left = stream.messages[sequence], sequence + 1, max(0, left - 1)
        lines = ("Nats-Num-Pending", left), ("Nats-Last-Sequence", newest)
        found.append((blocks.added(message.headers, *_facts(stream, sequence, message), *lines), message.data))
        newest = sequence
        sent += len(message.subject) + len(message.headers) + len(message.data)
        if sent >= size:
            break
    end = ("Nats-Num-Pending", left), ("Nats-Last-Sequence", newest)
    return [*found, (blocks.status(204, "EOB", *end), b"")]


def _facts(stream: Stream, sequence: int, message: Stored) -> tuple[tuple[str, object], ...]:
    moment = blocks.moment(message.time)
    names = ("Nats-Stream", stream.name), ("Nats-Subject", message.subject)
    return *names, ("Nats-Sequence", sequence), ("Nats-Time-Stamp", moment)
