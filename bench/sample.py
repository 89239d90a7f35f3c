"""The figures of one round of one row of the bench."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one row.

    Attributes:
        cpu_seconds: of the measured processes.
        nats_cpu_seconds: of nats-server meanwhile.
        waiting_half: events accepted and not delivered when half of all were accepted; `waiting_end`, when all were.
    """

    events: int
    seconds: float
    cpu_seconds: float
    nats_cpu_seconds: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    peak_rss: int | None = None
    waiting_half: int | None = None
    waiting_end: int | None = None
