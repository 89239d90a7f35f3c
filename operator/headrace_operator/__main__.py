"""`python -m headrace_operator`: serve until SIGTERM or SIGINT."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

import uvloop

from headrace.core.errors import Misconfigured
from headrace.core.quoting import plain
from headrace_operator import program


def main() -> int:
    """The exit status: 0 when the process was asked to end, 2 when a setting is wrong."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_until_asked(program.configured().run()))
    except Misconfigured as error:
        print(f"headrace_operator: {plain(str(error))}", file=sys.stderr)
        return 2


async def _until_asked(serving: Coroutine[Any, Any, None]) -> int:
    task = asyncio.ensure_future(serving)
    asked: list[int] = []

    def on_signal(number: int) -> None:
        asked.append(number)
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal, number)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    return 0


if __name__ == "__main__":
    sys.exit(main())
