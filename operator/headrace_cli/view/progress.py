"""How far a long operation is, on standard error: a line that changes on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time

TERMINAL_SECONDS = 0.1
LOG_SECONDS = 5.0


class Progress:
    """A progress line, used as a context manager; work that is over within a moment shows none.

    Attributes:
        done: how many `what` there are so far; `total`: how many there will be, None if that is not known.
    """

    def __init__(self, verb: str, total: int | None = None, *, what: str = "event", quiet: bool = False) -> None:
        self.done = 0
        self.total = total
        self._verb = verb
        self._what = what
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._began = self._shown = time.monotonic()
        self._length = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._length:
            sys.stderr.write(f"\r{' ' * self._length}\r")
            sys.stderr.flush()

    def step(self, count: int = 1, more: str = "") -> None:
        """So many more are done; `more` is shown behind the numbers."""
        self.done += count
        now = time.monotonic()
        if self._quiet or now - self._shown < (TERMINAL_SECONDS if self._terminal else LOG_SECONDS):
            return
        self._shown = now
        self._say(self.line(now) + (f"  {more}" if more else ""))

    def line(self, now: float) -> str:
        seconds = max(now - self._began, 1e-9)
        rate = self.done / seconds
        of, rest, what = "", "", self._what if (self.total or self.done) == 1 else f"{self._what}s"
        if self.total:
            of = f" of {self.total} ({100 * self.done // self.total} %)"
            rest = f", {max(0, self.total - self.done) / rate:.0f} s left" if rate > 0 else ""
        return f"{self._verb} {self.done}{of} {what}, {rate:.0f}/s{rest}"

    def _say(self, text: str) -> None:
        if self._terminal:
            sys.stderr.write(f"\r{text.ljust(self._length)}")
            self._length = max(self._length, len(text))
        else:
            sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
