"""The command line: `headrace`, and `kn jetstream` as a plugin. What it does is `headrace_cli.command_line`'s.

Nothing of that is imported before `main`: a Ctrl-C in the first half second ends the program as at any other time, and
does not show where Python was just then.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; gives the exit status."""
    # Only the main thread may set a signal handler, and only it is interrupted.
    alone = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_DFL) if alone else None
    try:
        from headrace_cli import command_line
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
    return command_line.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
