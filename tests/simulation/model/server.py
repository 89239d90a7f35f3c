"""The model of one nats-server: its connections, who hears what, its streams, and its death and return.

It runs on any asyncio loop: `loop.create_server(model.factory, …)`. What it does with time goes through the loop's
timers and the clock that it is given.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any

from tests.simulation.model import acks, api, blocks, publishing, recovery, watch
from tests.simulation.model.connection import Connection, Subscription
from tests.simulation.model.consumer import Consumer
from tests.simulation.model.disk import Cut, Disk
from tests.simulation.model.refusals import Unmodelled
from tests.simulation.model.stream import Stream
from tests.simulation.model.subjects import Interest
from tests.simulation.model.watch import IN, OUT, Seen

Frames = Callable[[Seen, Connection, Callable[[], None]], None]
"""Sees a frame before anything is done about it; it calls its last argument to go on."""


class Trouble(Enum):
    """What a server does in place of an answer.

    NO_LEADER: it says that JetStream is not there now. SILENT: nothing, though it acts. LATE: it acts now and answers
    after `late_seconds`. TWICE: it answers twice.
    """

    NO_LEADER = "no leader"
    SILENT = "silent"
    LATE = "late"
    TWICE = "twice"


class JetStreamModel:
    """A server with one account.

    Attributes:
        streams: by name; what outlives a crash.
        connections: those that are open.
        running: between `start` and `kill`.
        frames: see `Frames`; None goes on at once.
        refuse: what to do about a request of this verb (as in `Seen.verb`) and subject; None to answer it.
        max_payload, max_file_store, account_max_bytes: limits; None for no limit.
        lame_duck: as INFO says it.
    """

    def __init__(self, now: Callable[[], int] = time.time_ns, disk: Disk | None = None, seed: int = 0) -> None:
        """Args:
        now: the clock of the server's machine, nanoseconds since the epoch.
        seed: of what a server draws by chance.
        """
        self.now = now
        self.disk = disk or Disk()
        self.random = Random(seed)
        self.streams: dict[str, Stream] = {}
        self.connections: list[Connection] = []
        self.interest: Interest[Subscription] = Interest()
        self.running = True
        self.frames: Frames | None = None
        self.refuse: Callable[[str, str], Trouble | None] = lambda _verb, _subject: None
        self.late_seconds = 6.0
        self.max_payload = 1024 * 1024
        self.max_file_store: int | None = None
        self.account_max_bytes: int | None = None
        self.lame_duck = False
        self.ping_seconds = 120.0
        self.most_pings = 2
        self._later: set[asyncio.TimerHandle] = set()

    # Life and death.

    def factory(self) -> Connection:
        """A protocol for a connection that has come in."""
        return Connection(self)

    def kill(self, older: float = 0.0) -> None:
        """Die at once: connections are reset, and what is not on disk is gone.

        Args:
            older: the files of consumers are so many seconds older than they would be.
        """
        self._end()
        recovery.crash(self, older)

    def lose_power(self, cut: Cut = lambda _thing: 0.0) -> None:
        """Die, and lose what was not synced: `cut` tells how much of it survives, for each stream and consumer."""
        self._end()
        recovery.lose_power(self, cut)

    def start(self) -> None:
        """Come back with what is on disk; nothing when it runs."""
        if not self.running:
            self.running = True
            recovery.begin(self)

    def enter_lame_duck(self) -> None:
        """Ask all clients to go, as a server that is told to shut down does; it goes on serving."""
        self.lame_duck = True
        for connection in self.connections:
            connection.tell_info()

    def _end(self) -> None:
        self.running = False
        self.lame_duck = False
        for timer in self._later:
            timer.cancel()
        self._later.clear()
        for stream in self.streams.values():
            stream.stop()
        for connection in list(self.connections):
            connection.abort()

    # Connections.

    def info(self) -> dict[str, Any]:
        """What INFO says."""
        fields: dict[str, Any] = {
            "server_id": "MODEL",
            "server_name": "model",
            "version": "2.15.1",
            "proto": 1,
            "headers": True,
            "max_payload": self.max_payload,
            "jetstream": True,
        }
        return {**fields, "ldm": True} if self.lame_duck else fields

    def joined(self, connection: Connection) -> None:
        self.connections.append(connection)

    def left(self, connection: Connection) -> None:
        if connection in self.connections:
            self.connections.remove(connection)

    def take(self, connection: Connection, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        """A client has published."""
        if self.frames is None or not (subject.startswith("$JS.") or self._capturing(subject)):
            self._act(connection, subject, reply, headers, data)
            return
        seen = Seen(watch.verb(subject, reply, data), IN, subject, data=data, reply=reply, headers=headers)
        self.frames(seen, connection, lambda: self._act(connection, subject, reply, headers, data))

    # What the server says.

    def tell(self, reply: str, status: bytes) -> None:
        """A status, for a pull or a direct get."""
        self._send(Seen(watch.STATUS, OUT, reply, data=status), reply, reply, "", status, b"")

    def answer(self, reply: str, data: bytes, block: bytes = b"", *, verb: str = watch.API_ANSWER, about: str) -> None:
        """An answer to a request of the verb `about`."""
        if reply:
            self._send(Seen(verb, OUT, reply, about, data), reply, reply, "", block, data)

    def deliver(self, consumer: Consumer, to: str, subject: str, reply: str, block: bytes, data: bytes) -> None:
        """A message, for the inbox of a pull."""
        about = f"{consumer.stream.name}/{consumer.name}"
        self._send(Seen(watch.DELIVERY, OUT, subject, about, data, reply, block), to, subject, reply, block, data)

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Act after so many seconds, if the server still runs then."""

        def due() -> None:
            self._later.discard(timer)
            act()

        timer = asyncio.get_running_loop().call_later(seconds, due)
        self._later.add(timer)

    def stored_bytes(self) -> int:
        """The bytes of all streams on disk."""
        return sum(stream.kept.size for stream in self.streams.values() if stream.config["storage"] == "file")

    def _act(self, connection: Connection, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        if subject.startswith("$JS.ACK."):
            heard = self._ack(subject, reply, data)
        elif subject.startswith("$JS.API."):
            heard = self._call(subject, reply, headers, data)
        elif subject.startswith("$JS."):
            raise Unmodelled(f"a message to {subject}")
        else:
            heard = self._store(subject, reply, headers, data)
        heard = self._send(None, subject, subject, reply, headers, data) or heard
        if not heard and reply:
            self._nobody(connection, subject, reply)

    def _ack(self, subject: str, reply: str, data: bytes) -> bool:
        _, _, stream, consumer, *_ = subject.split(".")
        found = self.streams[stream].consumers.get(consumer) if stream in self.streams else None
        if found is None or not found.acks:
            return False
        if self.refuse(watch.verb(subject, reply, data), subject) is None and acks.take(found, subject, reply, data):
            self.answer(reply, b"", verb=watch.ACK_ANSWER, about="ACK_SYNC")
        return True

    def _call(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        verb = watch.verb(subject, reply, data)
        trouble = self.refuse(verb, subject)
        if trouble is Trouble.NO_LEADER:
            return api.without_leader(self, verb, reply)
        answers = api.take(self, subject, reply, headers, data)
        if answers is None:
            return False
        for block, answer in answers:
            self._answer_with(trouble, lambda b=block, a=answer: self.answer(reply, a, b, about=verb))
        return True

    def _store(self, subject: str, reply: str, headers: bytes, data: bytes) -> bool:
        stream = self._capturing(subject)
        if stream is None:
            return False
        verb = watch.verb(subject, reply, data)
        trouble = self.refuse(verb, subject)
        if trouble is Trouble.NO_LEADER:
            return False
        answer = publishing.take(self, stream, subject, headers, data)
        if not stream.config.get("no_ack"):
            self._answer_with(trouble, lambda: self.answer(reply, answer, verb=watch.PUB_ACK, about=verb))
        return True

    def _answer_with(self, trouble: Trouble | None, answer: Callable[[], None]) -> None:
        match trouble:
            case None:
                answer()
            case Trouble.LATE:
                self.later(self.late_seconds, answer)
            case Trouble.TWICE:
                answer()
                answer()
            case _:
                pass

    def _capturing(self, subject: str) -> Stream | None:
        return next((stream for stream in self.streams.values() if stream.captures(subject)), None)

    def _nobody(self, connection: Connection, subject: str, reply: str) -> None:
        """No responders: told to the asker himself, where he listens."""
        block = blocks.status(503, "", ("Nats-Subject", subject)).replace(b"503 \r\n", b"503\r\n")
        for listener in self.interest.match(reply):
            if listener.connection is connection:
                connection.deliver(listener.sid, reply, "", block, b"")
                return

    def _send(self, seen: Seen | None, to: str, subject: str, reply: str, block: bytes, data: bytes) -> bool:
        """Hand a message to all that listen to `to`; does anybody?"""
        listeners = self.interest.match(to)
        for listener in listeners:
            connection, sid = listener.connection, listener.sid
            if seen is None or self.frames is None:
                connection.deliver(sid, subject, reply, block, data)
            else:
                self.frames(seen, connection, _delivery(connection, sid, subject, reply, block, data))
        return bool(listeners)


def _delivery(
    connection: Connection, sid: bytes, subject: str, reply: str, block: bytes, data: bytes
) -> Callable[[], None]:
    return lambda: connection.deliver(sid, subject, reply, block, data)
