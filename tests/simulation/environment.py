"""Headrace's surroundings in a history: its clocks, its chances, its variables and its log are the simulation's.

Everything else of the product is as it is. What is not a matter of one history (the log's form, the collector of
garbage) is set once for the whole process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import structlog
import uvicorn

from headrace.io.http.connection import HttpConnection
from headrace.io.process import clock
from headrace.server.connection import BoundedConnection
from tests.simulation.loop import SimulatedLoop, current

EPOCH = 1_790_000_000.0
TOKEN = "the-token-of-a-history"
OURS = ("HEADRACE_", "NATS_", "RECEIVE_", "FORWARD_", "OTEL_")
# Kept objects are looked through after so many histories: the looks are most of the time that a short history takes.
HISTORIES_PER_COLLECTION = 10

Note = Callable[[str, str, dict[str, Any]], None]
"""Hears each line of the log that is a warning or worse: level, words, values."""


class _Log:
    """Where lines go: to the history that runs."""

    note: Note | None = None


def _line(_logger: object, level: str, line: structlog.types.EventDict) -> structlog.types.EventDict:
    if _Log.note is not None:
        _Log.note(level, str(line.pop("event", "")), dict(line))
    raise structlog.DropEvent


class _Handler(logging.Handler):
    """Lines of other libraries: uvicorn's word of an exception, asyncio's."""

    def emit(self, record: logging.LogRecord) -> None:
        if _Log.note is not None:
            error = record.exc_info[1] if record.exc_info else None
            _Log.note("error", record.getMessage(), {"exc_info": error} if error else {})


class _Aimed:
    """In the place of a connected socket: `create_connection` finds its address."""

    def close(self) -> None:
        """There is nothing to close."""


async def dial(addresses: Any) -> Any:
    """Connect, as `headrace.io.http.dial` does: for clients of HTTP, whose own way is a socket of the kernel."""
    aimed = _Aimed()
    asyncio.get_running_loop().network.aim(aimed, addresses[0].address)
    return aimed


def prepare() -> None:
    """Set what is the same for every history of this process."""
    structlog.configure(
        processors=[_line],
        wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING),
        cache_logger_on_first_use=False,
    )
    handler = _Handler(logging.ERROR)
    for name in ("uvicorn.error", "asyncio", "aiohttp.client", "aiohttp.internal"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.ERROR)
    # It would write the same again for each function that starts.
    uvicorn.Config.configure_logging = lambda _: None
    # What a set holds is visited by its hash, which for such an object is its address: no seed decides that.
    for kind in (asyncio.Event, HttpConnection, BoundedConnection):
        kind.__hash__ = _age
    sys.unraisablehook = _unraisable
    gc.collect()
    gc.freeze()
    gc.disable()


def _unraisable(found: sys.UnraisableHookArgs) -> None:
    """What an object says that goes while a history runs; afterwards those of dead processes cry for nothing."""
    if _Log.note is not None:
        _Log.note("error", f"ignored in {found.object!r}", {"error": repr(found.exc_value)})


def _age(thing: Any) -> int:
    number = thing.__dict__.get("_number")
    if number is None:
        loop = asyncio.get_running_loop()
        number = thing._number = loop.next_number()
    return int(number)


_histories = 0


@contextmanager
def of(loop: SimulatedLoop, seed: int, variables: dict[str, str], note: Note) -> Iterator[None]:
    """The surroundings of one history, for the time of the block."""
    global _histories
    _histories += 1
    if _histories % HISTORIES_PER_COLLECTION == 0:
        # Not at a history's end: what goes then still writes into its ledger.
        gc.collect()
    before = clock.monotonic, clock.wall, clock.cpu, secrets.token_hex, dict(os.environ), random.getstate()
    entropy = random.Random(f"{seed}:entropy")

    def wall() -> float:
        process = current.get()
        return EPOCH + loop.now + (process.host.wall if process is not None else 0.0)

    clock.monotonic, clock.wall, clock.cpu = loop.time, wall, loop.time
    secrets.token_hex = lambda count=16: entropy.randbytes(count).hex()
    random.seed(f"{seed}:random")
    for name in [
        name for name in os.environ if name.startswith(("HEADRACE_", "NATS_", "RECEIVE_", "FORWARD_", "OTEL_"))
    ]:
        del os.environ[name]
    os.environ.update(variables)
    _Log.note = note
    try:
        yield
    finally:
        _Log.note = None
        clock.monotonic, clock.wall, clock.cpu, secrets.token_hex, variables_before, state = before
        os.environ.clear()
        os.environ.update(variables_before)
        random.setstate(state)
