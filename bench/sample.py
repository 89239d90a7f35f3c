"""What one round of one row of the bench gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """One round of one row. CPU is of the measured process; `nats_cpu_seconds` of nats-server meanwhile."""

    events: int
    seconds: float
    cpu_seconds: float
    nats_cpu_seconds: float = 0.0
    p50_ms: float | None = None
    p99_ms: float | None = None
    peak_rss: int | None = None
