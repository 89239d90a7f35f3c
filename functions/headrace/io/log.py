"""Structured logs: one JSON line per outcome that a person should see.

Configured once by the host. Keys used throughout: event_id event_type subject stream consumer stream_seq attempt
outcome duration_ms. Never event data, never credentials.
"""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: str = "info", *, plain: bool = False) -> None:
    """Set up structlog for this process.

    Args:
        level: debug, info, warning or error; success of single events is logged at debug only.
        plain: lines for people instead of JSON.
    """
    renderer: structlog.types.Processor = (
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_event_to=0)
        if plain
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        # Not the factory that prints: the end of its line is a write of its own, and two processes that share stderr
        # (the workers of `receive`, `headrace up`) would tear each other's lines.
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


def debugging() -> bool:
    """Is anything logged at debug level?"""
    return bool(get("log").is_enabled_for(logging.DEBUG))


def get(name: str) -> structlog.types.FilteringBoundLogger:
    """A logger that names its part of the product under the key `part`."""
    logger: structlog.types.FilteringBoundLogger = structlog.get_logger(part=name)
    return logger
