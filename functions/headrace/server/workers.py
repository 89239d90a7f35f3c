"""Processes that serve the same port, and the one that does nothing but keep them alive.

Made by fork, after the settings are read and before there is a loop or a connection. Each has listening sockets of its
own on the shared port, which the parent made and keeps: the kernel spreads connections over them, and what waits at
those of a worker that died is served by its successor. A worker ends by itself when the parent is gone. One that gives
no sign of life for long (`headrace.server.pulse`) is killed, and so replaced.

Knows processes and signals; does not know what is served. Called by `headrace.host.serving`.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from headrace.io.process import log
from headrace.server import pulse
from headrace.server.pulse import Pulse

# Between the end of a worker and its successor: doubled from one to the next, until one has lived for a while.
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
SETTLED_SECONDS = 10.0

ENDING = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Tether:
    """What ties a worker to its parent: two pipes.

    Attributes:
        lifeline: to read from; closed when the parent is gone.
        beats: to write a byte to now and then, without waiting: `pulse.BEAT_SECONDS`.
    """

    lifeline: int
    beats: int


Serve = Callable[[list[socket.socket], Tether], None]

_log = log.get("host")


@dataclass
class _Worker:
    """A place for a process, and the process in it; `pid` is 0 while there is none."""

    sockets: list[socket.socket]
    pid: int = 0
    pulse: Pulse = field(default_factory=lambda: Pulse(0.0))
    # Where its beats come in; -1 while there is none.
    beats: int = -1
    began: float = 0.0
    due: float = 0.0
    pause: float = field(default=FIRST_PAUSE_SECONDS)


class Workers:
    """As many processes as there are lists of sockets."""

    def __init__(self, sockets: Sequence[list[socket.socket]], serve: Serve) -> None:
        """Args:
        serve: called in each worker with its sockets and what ties it to us; serves until SIGTERM or until the
            lifeline is closed, and returns.
        """
        self._workers = [_Worker(own) for own in sockets]
        self._serve = serve
        self._ending = False
        self._failed = False
        self._lifeline, self._held = os.pipe()

    def run(self) -> int:
        """Until SIGTERM or SIGINT, and until every worker has finished what it had; the exit status."""
        with _signals() as signals:
            while not self._ending or any(worker.pid for worker in self._workers):
                if not self._ending:
                    self._start_due()
                for number in signals(self._patience()):
                    self._heed(number)
                self._reap()
                self._look()
        return 1 if self._failed else 0

    def _start_due(self) -> None:
        now = time.monotonic()
        for worker in self._workers:
            if not worker.pid and worker.due <= now:
                worker.began = now
                self._start(worker)

    def _patience(self) -> float:
        """Seconds until a worker is due, or until it is time to look at those that live."""
        due = [worker.due for worker in self._workers if not worker.pid and not self._ending]
        return min(max(0.0, min(due) - time.monotonic()), pulse.LOOK_SECONDS) if due else pulse.LOOK_SECONDS

    def _look(self) -> None:
        """Kill what hangs: it would go on getting its share of the connections."""
        now = time.monotonic()
        for worker in self._workers:
            if worker.pid and worker.pulse.stopped(now, heard=_read(worker.beats)):
                _log.warning("a worker gives no sign of life, and is killed", pid=worker.pid)
                os.kill(worker.pid, signal.SIGKILL)
                # Its end is told as any other; until then it is not looked at again.
                worker.pulse = Pulse(now)

    def _start(self, worker: _Worker) -> None:
        worker.beats, theirs = os.pipe()
        os.set_blocking(worker.beats, False)
        os.set_blocking(theirs, False)
        worker.pulse = Pulse(time.monotonic())
        # Until the worker has handlers of its own, a signal must neither be lost in ours nor reach the parent's pipe.
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
        worker.pid = os.fork()
        if worker.pid == 0:
            self._work(worker, theirs)
        os.close(theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)

    def _work(self, worker: _Worker, beats: int) -> None:
        """The whole life of a worker; does not return."""
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in (*ENDING, signal.SIGCHLD):
                signal.signal(number, signal.SIG_DFL)
            # Ctrl-C is for the parent, which tells us.
            os.setpgid(0, 0)
            os.close(self._held)
            for other in self._workers:
                if other.beats >= 0:
                    os.close(other.beats)
                if other is not worker:
                    _close(one for one in other.sockets if one not in worker.sockets)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
            self._serve(worker.sockets, Tether(self._lifeline, beats))
            status = 0
        except BaseException:  # noqa: BLE001  # nothing may get out of here into the parent's code
            # In one write: others write to the same stderr.
            sys.stderr.write(traceback.format_exc())
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(status)

    def _heed(self, number: int) -> None:
        if number not in ENDING:
            return
        if not self._ending:
            self._ending = True
            for worker in self._workers:
                _close(worker.sockets)
            number = signal.SIGTERM
        for worker in self._workers:
            if worker.pid:
                os.kill(worker.pid, number)

    def _reap(self) -> None:
        for worker in self._workers:
            if not worker.pid:
                continue
            pid, ended = os.waitpid(worker.pid, os.WNOHANG)
            if pid:
                worker.pid = 0
                os.close(worker.beats)
                worker.beats = -1
                self._ended(worker, os.waitstatus_to_exitcode(ended))

    def _ended(self, worker: _Worker, status: int) -> None:
        now = time.monotonic()
        if self._ending:
            # SIGTERM found a worker that had not begun to serve: it had nothing to finish.
            self._failed = self._failed or status not in (0, -signal.SIGTERM)
            return
        if now - worker.began > SETTLED_SECONDS:
            worker.pause = FIRST_PAUSE_SECONDS
        worker.due = now + worker.pause
        _log.warning("a worker ended, another one follows", status=status, seconds=worker.pause)
        worker.pause = min(2 * worker.pause, LONGEST_PAUSE_SECONDS)


def _read(beats: int) -> bool:
    """Has anything come?"""
    try:
        return bool(os.read(beats, 65536))
    except BlockingIOError:
        return False


def _close(sockets: Iterator[socket.socket] | Sequence[socket.socket]) -> None:
    for one in sockets:
        one.close()


@contextmanager
def _signals() -> Iterator[Callable[[float | None], list[int]]]:
    """Gives a function that waits for signals, for some seconds or without end, and says which came."""
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    before = {number: signal.signal(number, lambda *_: None) for number in (*ENDING, signal.SIGCHLD)}
    wakeup = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)

    def wait(seconds: float | None) -> list[int]:
        ready, _, _ = select.select([reading], [], [], seconds)
        return list(reading.recv(4096)) if ready else []

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        reading.close()
        writing.close()
