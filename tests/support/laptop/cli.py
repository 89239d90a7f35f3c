"""The command line run in this process, as a person would see it: exit status, standard output, standard error."""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
from concurrent.futures import Future
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

from headrace_cli.__main__ import main

SECONDS = 30.0


@dataclass(frozen=True)
class Ran:
    """What one command did."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Of an output with one JSON value on each line."""
        return [json.loads(line) for line in self.out.splitlines()]

    def ok(self) -> Ran:
        """The same, of a command that must have succeeded."""
        assert self.status == 0, self
        return self


def run(*arguments: str, stdin: bytes = b"") -> Ran:
    """Run one command; not from within a loop."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(stdin))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            status = main(arguments)
    finally:
        sys.stdin = before
    return Ran(status, out.getvalue(), err.getvalue())


@dataclass(frozen=True)
class Cli:
    """Commands against one NATS server, from within a test's loop."""

    nats: str

    async def __call__(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run one command on a thread with a loop of its own; one at a time."""
        ended: Future[Ran] = Future()
        # Whoever says where to send needs no NATS, and is refused one.
        here = () if arguments[0] == "send" and "--url" in arguments else ("--nats", self.nats)

        def work() -> None:
            try:
                ended.set_result(run(*arguments, *here, stdin=stdin))
            except BaseException as error:  # noqa: BLE001  # told to whoever waits, whatever it is
                ended.set_exception(error)

        # A daemon: one that never ends fails its test, and does not keep the others' process.
        threading.Thread(target=work, daemon=True).start()
        async with asyncio.timeout(SECONDS):
            return await asyncio.wrap_future(ended)
