"""One run of a program that gives credentials: what it wrote, and an end to it in time whatever it has begun.

Knows processes and pipes, and nothing of credentials. Called by `headrace_operator.kube.exec_plugin`.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from headrace.core.errors import Unavailable

# Somebody may have to go through a sign-in with a browser.
LONGEST_RUN = 300.0
# A credential with a certificate takes a few KiB.
MOST_OUTPUT = 1 << 20
KEPT_CHARACTERS = 2048
KEPT_LINES = 5
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Ended:
    """How it ended.

    Attributes:
        status: its exit status; negative: the signal that ended it.
        output: what stood on its standard output by then.
        said: the last that it said to people.
    """

    status: int
    output: bytes
    said: str


async def run(
    path: str, arguments: Sequence[str], environment: Mapping[str, str], *, title: str, interactive: bool
) -> Ended:
    """Run it until its own process ends; what it leaves behind may hold its pipes, and is not waited for.

    Args:
        title: what it is called in errors.
        interactive: it has our terminal; else a session of its own, which ends with it when it takes too long.

    Raises:
        Unavailable: it can't be run, takes longer than `LONGEST_RUN`, or writes more than `MOST_OUTPUT`.
    """
    output, words = bytearray(), _Words()
    with _pipe() as stdout, _pipe() as stderr:
        starting = asyncio.create_task(
            asyncio.create_subprocess_exec(
                path,
                *arguments,
                env=dict(environment),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                # Pipes of our own: asyncio's `wait` would wait for all who hold its pipes.
                stdout=stdout.theirs,
                stderr=None if interactive else stderr.theirs,
                start_new_session=not interactive,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # It may run before the event loop says so, and would be left alone with what it has begun.
            await _end(starting, group=not interactive)
            raise
        except (OSError, ValueError) as error:
            raise Unavailable(f"the program {title!r} can't be run: {error}") from error

        def take(chunk: bytes) -> None:
            if len(output) <= MOST_OUTPUT:
                output.extend(chunk)
            if len(output) > MOST_OUTPUT:
                _kill(process, group=not interactive)

        try:
            stdout.read_into(take)
            stderr.read_into(words.take)
            async with asyncio.timeout(LONGEST_RUN):
                status = await process.wait()
        except TimeoutError:
            raise Unavailable(f"the program {title!r} gives no credentials within {LONGEST_RUN:.0f} s") from None
        finally:
            if process.returncode is None:
                _kill(process, group=not interactive)
                await process.wait()
        stdout.drain(take)
        stderr.drain(words.take)
    if len(output) > MOST_OUTPUT:
        raise Unavailable(f"the program {title!r} wrote more than {MOST_OUTPUT} bytes, which is no credential")
    return Ended(status, bytes(output), words.last)


async def _end(starting: asyncio.Task[asyncio.subprocess.Process], *, group: bool) -> None:
    with suppress(OSError, ValueError):
        process = await starting
        _kill(process, group=group)
        await process.wait()


def _kill(process: asyncio.subprocess.Process, *, group: bool) -> None:
    """With all that it has begun, when it leads a group of its own."""
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


class _Pipe:
    """A pipe that one process writes to and we read without ever waiting."""

    def __init__(self) -> None:
        self._ours, self.theirs = os.pipe()
        os.set_blocking(self._ours, False)
        self._loop = asyncio.get_running_loop()

    def read_into(self, take: Callable[[bytes], None]) -> None:
        """Until `drain`: hand on what comes."""
        os.close(self.theirs)
        self.theirs = -1

        def readable() -> None:
            chunk = self._chunk()
            if chunk:
                take(chunk)
            elif chunk is not None:
                self._loop.remove_reader(self._ours)

        self._loop.add_reader(self._ours, readable)

    def drain(self, take: Callable[[bytes], None]) -> None:
        """Hand on what is there, no more of it than a pipe holds: somebody may be writing still."""
        self._loop.remove_reader(self._ours)
        for _ in range(MOST_OUTPUT // _CHUNK):
            if not (chunk := self._chunk()):
                return
            take(chunk)

    def close(self) -> None:
        self._loop.remove_reader(self._ours)
        os.close(self._ours)
        if self.theirs >= 0:
            os.close(self.theirs)

    def _chunk(self) -> bytes | None:
        """Empty: its end; None: nothing is there yet."""
        try:
            return os.read(self._ours, _CHUNK)
        except BlockingIOError:
            return None


@contextmanager
def _pipe() -> Iterator[_Pipe]:
    made = _Pipe()
    try:
        yield made
    finally:
        made.close()


class _Words:
    """What a program says to people: handed on as it comes, and the last of it kept for the error."""

    def __init__(self) -> None:
        # A character may come in two pieces.
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._tail = ""

    def take(self, chunk: bytes) -> None:
        text = self._decoder.decode(chunk)
        self._tail = (self._tail + text)[-KEPT_CHARACTERS:]
        # Nobody may be reading.
        with suppress(OSError, ValueError):
            print(text, end="", file=sys.stderr, flush=True)

    @property
    def last(self) -> str:
        rest = self._decoder.decode(b"", final=True)
        return " ".join((self._tail + rest).strip().splitlines()[-KEPT_LINES:])
