"""One pull request: its members, and why a consumer's limits refuse it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from tests.simulation.model.refusals import Unmodelled
from tests.simulation.model.unsettled import SECOND

_FIELDS = {"batch", "expires", "max_bytes", "no_wait", "idle_heartbeat", "group", "id"}
Refusal = tuple[int, str]
"""Code and words of a status."""


@dataclass(eq=False)
class Pull:
    """One request.

    Attributes:
        reply: where messages and its status go.
        left: messages that it may still bring.
        size: bytes that it may still bring; 0 for no limit.
        until: on the loop's clock; None for no end.
        brought: messages so far.
        beat, next_beat: seconds between heartbeats, and when the next is due; `beaten`: there was one already.
    """

    reply: str
    left: int
    size: int
    until: float | None
    no_wait: bool = False
    group: str = ""
    pin: str = ""
    brought: int = 0
    beat: float = 0.0
    next_beat: float = 0.0
    beaten: bool = False


def read(reply: str, request: bytes) -> tuple[Pull, Refusal | None]:
    """The request, and why nobody could grant it."""
    loop, text = asyncio.get_running_loop(), request.strip()
    if not text:
        return Pull(reply, 1, 0, None), None
    if not text.startswith(b"{"):
        raise Unmodelled(f"a pull request that is not JSON: {request!r}")
    asked = json.loads(text)
    if unknown := asked.keys() - _FIELDS:
        raise Unmodelled(f"the members {sorted(unknown)} of a pull request")
    expires, beat = asked.get("expires", 0) / SECOND, asked.get("idle_heartbeat", 0) / SECOND
    until = loop.time() + expires if expires else None
    pull = Pull(reply, asked.get("batch", 0), asked.get("max_bytes", 0), until, asked.get("no_wait", False))
    pull.group, pull.pin = asked.get("group", ""), asked.get("id", "")
    if beat:
        if beat * 2 > expires:
            return pull, (400, "Bad Request - heartbeat value too large")
        pull.beat, pull.next_beat = beat, loop.time() + beat
    return pull, None


def beyond(config: dict[str, Any], pull: Pull) -> Refusal | None:
    """The limit of the consumer that it exceeds; None where it exceeds none."""
    if 0 < config.get("max_batch", 0) < pull.left:
        return 409, f"Exceeded MaxRequestBatch of {config['max_batch']}"
    longest = config.get("max_expires", 0)
    if longest and pull.until is not None and pull.until > asyncio.get_running_loop().time() + longest / SECOND:
        return 409, f"Exceeded MaxRequestExpires of {go_duration(longest)}"
    if 0 < config.get("max_bytes", 0) < pull.size:
        return 409, f"Exceeded MaxRequestMaxBytes of {config['max_bytes']}"
    return None


def go_duration(nanoseconds: int) -> str:
    """A span as Go writes it, as `1m30s` or `2.5s`."""
    if nanoseconds < SECOND:
        unit, name = next((u, n) for u, n in ((10**6, "ms"), (10**3, "µs"), (1, "ns")) if nanoseconds >= u or u == 1)
        return f"{_decimal(nanoseconds, unit)}{name}"
    hours, rest = divmod(nanoseconds, 3600 * SECOND)
    minutes, rest = divmod(rest, 60 * SECOND)
    text = f"{hours}h" if hours else ""
    text += f"{minutes}m" if hours or minutes else ""
    return f"{text}{_decimal(rest, SECOND)}s"


def _decimal(value: int, unit: int) -> str:
    whole, rest = divmod(value, unit)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0") if rest else str(whole)
