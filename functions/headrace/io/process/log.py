"""Structured logs: one JSON line per outcome that a person should see.

The host configures it once. A line never holds event data or credentials; `docs/metrics.md` lists the keys. A line that
may come thousands of times goes through `Sparing`.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TextIO, cast

import structlog

from headrace.core.quoting import plain_lines
from headrace.io.process import clock

KEYS = {
    "timestamp": "UTC, ISO 8601",
    "level": "debug, info, warning or error",
    "part": "the writer: host, receive, forward, web, nats, security, tls, tracing; scaler, operator or up where "
    "leases are opened",
    "event": "what happened, in words; for an event of a channel, its outcome",
    "channel": "`namespace/name`",
    "subscription": "`namespace/name`",
    "event_id": "the CloudEvent's id",
    "stream_seq": "the event's sequence in the channel's stream",
    "delivered": "how often the server has delivered the event, this time included",
    "why": "the reason, in words",
    "left_out": "lines of the same kind that were left out before this one",
    "status": "HTTP status that was answered, or exit status of a process",
    "error": "what another part said",
    "events": "how many events the line is about",
    "missing": "events of an earlier lease that did not come back",
    "stream": "JetStream stream",
    "consumer": "JetStream consumer",
    "end": "how a pull ended",
    "said": "the server's own words about a pull's end, or ours where it said nothing",
    "server": "address of the NATS server",
    "servers": "addresses of NATS servers, as configured",
    "address": "an address that can't be used",
    "field": "the setting that is wrong",
    "target": "the function that is served",
    "addresses": "where that function listens",
    "pid": "id of a process of ours",
    "remark": "what of a ConfigMap is not obeyed, and why",
    "revision": "the security document's",
    "seconds": "how long the writer waits, or has waited",
}
"""The keys of a line of the functions."""

# Enough to see the trouble; a subscriber that fails all day causes 86,400 lines at most.
BURST = 10
PERIOD_SECONDS = 10.0
# Kinds of lines that are counted apart; beyond that the count of the oldest kind is forgotten.
MOST_KINDS = 4096


def configure(level: str = "info", *, plain: bool = False) -> None:
    """Set up structlog for this process.

    Args:
        level: debug, info, warning or error; the success of a single event is logged at debug only.
        plain: lines for people instead of JSON.
    """
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
        if plain
        else structlog.processors.JSONRenderer(_json)
    )
    processors: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        *([_harmless] if plain else []),
        renderer,
    ]
    structlog.configure(
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # Not the factory that prints: it writes the end of the line apart, and two processes that share stderr (the
        # functions of `headrace up`) would tear each other's lines.
        logger_factory=structlog.WriteLoggerFactory(cast(TextIO, _Lines())),
        # So a logger that was used before obeys the last configuration and its level. A line costs 3 µs more for it.
        cache_logger_on_first_use=False,
    )


def _json(line: structlog.types.EventDict, **options: Any) -> str:
    """ASCII; of that, JSON alone would leave DEL as it is."""
    return json.dumps(line, **options).replace("\x7f", "\\u007f")


def _harmless(_logger: object, _method: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
    """Escape what a terminal would obey, since lines hold strangers' names; JSON escapes it anyway."""
    return {name: plain_lines(value) if isinstance(value, str) else value for name, value in line.items()}


class _Lines:
    """Standard error. Its reader may be gone: a line that can't be written must not end a delivery or a process."""

    def write(self, text: str) -> int:
        with suppress(OSError):
            sys.stderr.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            sys.stderr.flush()


@dataclass(slots=True)
class _Kind:
    began: float
    admitted: int = 0
    left_out: int = 0


class Sparing:
    """Admits BURST lines of each kind per PERIOD_SECONDS, and counts the others."""

    def __init__(self) -> None:
        self._kinds: dict[Hashable, _Kind] = {}

    def admit(self, kind: Hashable) -> int | None:
        """None: leave this line out. A number: write the line, and with it how many were left out before it."""
        now = clock.monotonic()
        found = self._kinds.get(kind)
        if found is None:
            if len(self._kinds) >= MOST_KINDS:
                del self._kinds[next(iter(self._kinds))]
            found = self._kinds[kind] = _Kind(now)
        elif now - found.began >= PERIOD_SECONDS:
            found.began, found.admitted = now, 0
        if found.admitted >= BURST:
            found.left_out += 1
            return None
        found.admitted += 1
        return self.take(kind)

    def take(self, kind: Hashable) -> int:
        """How many lines of a kind were left out since the last line that said so."""
        found = self._kinds.get(kind)
        if found is None:
            return 0
        left_out, found.left_out = found.left_out, 0
        return left_out


def more(left_out: int) -> dict[str, int]:
    """The key `left_out` with its number; empty for none."""
    return {"left_out": left_out} if left_out else {}


def debugging() -> bool:
    """Is anything logged at debug level?"""
    return bool(get("log").is_enabled_for(logging.DEBUG))


def get(name: str) -> structlog.types.FilteringBoundLogger:
    """A logger that names its part of the product under the key `part`."""
    logger: structlog.types.FilteringBoundLogger = structlog.get_logger(part=name)
    return logger
