"""A link that is made anew, on another server if need be; and requests with their answers.

Nothing happens in the background: a lost link is noticed, and replaced, by the next call. Subscriptions do not survive
a link; `generation` tells a subscriber that it has to subscribe again.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Mapping
from types import TracebackType

from headrace.core.errors import HeadraceError, Misconfigured, Unavailable
from headrace.core.nats import nats_wire
from headrace.core.nats.nats_wire import Arrival, Bulk, Server, ServerPool, pauses
from pyspark_jetstream.client.access import Access
from pyspark_jetstream.client.link import DIAL_SECONDS, BlockingLink, LinkBroken, TurnedAway

# The default wait for one answer.
ANSWER_SECONDS = 5.0
# A server that does not answer a PING for so long is of no use.
PONG_SECONDS = 3.0
_INBOX_SID = 1
# While planning: the time until NATS counts as away, and for one dial. Wrong names and ports are reported soon.
PLANNING_SECONDS = 2.0
PLANNING_DIAL_SECONDS = 3.0


class NotReached(Unavailable):
    """No server has accepted us in the whole time of trying."""


class Connection:
    """A connection with one link at a time; a context manager that closes it.

    Attributes:
        generation: grows with each new link.
        planning: see `__init__`.
        bulk: takes the messages of one subscription, whichever call is waiting.
    """

    def __init__(self, access: Access, *, name: str = "pyspark-jetstream", planning: bool = False) -> None:
        """Args:
        planning: these options are new and may be wrong, so a failure is reported soon, without waiting for servers to
            come back. Ends with the first answer of JetStream.
        """
        self.access = access
        self.planning = planning
        self.generation = 0
        self.bulk: Bulk | None = None
        self._name = name
        self._link: BlockingLink | None = None
        self._last: Server | None = None
        self._servers = ServerPool((), random.shuffle)
        self._serial = 0
        self._sid = _INBOX_SID
        self.inbox = f"_INBOX.{secrets.token_hex(11)}"

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def link(self) -> BlockingLink:
        """The link, dialled if there is none.

        Raises:
            NotReached: no server accepts us within the access's timeout, or soon if none can be expected to.
            Misconfigured: a file or variable for it can't be read.
        """
        if self._link is None:
            self._link = self._dial()
            self.generation += 1
            self._link.send(nats_wire.subscribe(f"{self.inbox}.*", _INBOX_SID))
        return self._link

    @property
    def is_open(self) -> bool:
        """Whether there is a link, as far as we know a working one."""
        return self._link is not None

    @property
    def max_payload(self) -> int:
        """The server's limit for one message, headers included, in bytes."""
        return self.link.info.max_payload

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
            self._link = None

    def leave(self) -> None:
        """Hang up; the next call dials another server if there is one."""
        self._drop()

    def send(self, data: bytes) -> None:
        """Raises:
        LinkBroken: the link is gone; the next call makes another.
        """
        link = self.link
        try:
            link.send(data)
        except LinkBroken:
            self._drop()
            raise

    def receive(self, timeout: float) -> list[Arrival]:
        """The messages that have arrived, after a wait of at most `timeout` seconds; those for the bulk go there.

        INFO is no arrival: a server sends it often just when others of its cluster die.

        Raises:
            LinkBroken, Refused: as `BlockingLink.receive`.
        """
        link, bulk = self.link, self.bulk
        deadline = time.monotonic() + timeout
        had = 0 if bulk is None else len(bulk)
        left = timeout
        try:
            while left > 0 and not link.arrivals and (bulk is None or len(bulk) == had):
                link.receive(left, bulk)
                left = deadline - time.monotonic()
        except LinkBroken:
            self._drop()
            raise
        arrivals, link.arrivals = link.arrivals, []
        return arrivals

    def is_amid(self, seconds: float) -> bool:
        """Whether part of an unfinished message has come in the last `seconds`: a large one takes its time."""
        return self._link is not None and self._link.is_amid(seconds)

    def verify(self, seconds: float) -> None:
        """Raises:
        LinkBroken: the server does not answer a PING in time.
        """
        link = self.link
        try:
            if not link.is_alive(seconds, self.bulk):
                link.close()
                raise LinkBroken(f"{link.server.address} is silent")
        except LinkBroken:
            self._drop()
            raise

    def request(
        self,
        subject: str,
        data: bytes = b"",
        *,
        timeout: float = ANSWER_SECONDS,
        headers: Mapping[str, str] | None = None,
    ) -> Arrival:
        """The answer to one request; other messages that arrive meanwhile are kept for `receive`.

        Raises:
            LinkBroken: the link is gone, or the server at its other end does not answer a PING either.
            Unavailable: no answer in time.
        """
        link = self.link
        self._serial += 1
        reply = f"{self.inbox}.{self._serial}"
        self.send(nats_wire.publish(subject, data, reply, headers, link.info.max_payload))
        deadline = time.monotonic() + timeout
        kept: list[Arrival] = []
        try:
            while (left := deadline - time.monotonic()) > 0:
                for arrival in self.receive(left):
                    if arrival.subject == reply:
                        answer = arrival
                        break
                    kept.append(arrival)
                else:
                    continue
                return answer
        finally:
            if self._link is link:
                link.arrivals[:0] = kept
        if not self.is_amid(timeout):
            self.verify(PONG_SECONDS)
        raise Unavailable(f"no answer to {subject} within {timeout:.0f} s")

    def new_sid(self) -> int:
        """A number that no subscription of this connection has."""
        self._sid += 1
        return self._sid

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
            self._last = self._link.server
            self._link = None

    def _dial(self) -> BlockingLink:
        self._servers.configured = self.access.addresses()
        patience, dial = self.access.timeout, DIAL_SECONDS
        if self.planning:
            patience, dial = min(patience, PLANNING_SECONDS), PLANNING_DIAL_SECONDS
        deadline = time.monotonic() + patience
        for pause in pauses(random.random):
            failures: list[HeadraceError] = []
            for server in self._servers.round(self._last):
                try:
                    link = BlockingLink(server, self.access, self._name, dial)
                except Misconfigured:
                    raise
                except HeadraceError as error:
                    failures.append(error)
                else:
                    self._servers.learn(link.info.connect_urls, link.server)
                    return link
            is_sure = self.planning and all(isinstance(one, TurnedAway) for one in failures)
            if is_sure or time.monotonic() + pause > deadline:
                said = "; ".join(map(str, failures))
                if all(isinstance(one, TurnedAway) for one in failures):
                    raise NotReached(f"NATS does not let us in: {said}")
                raise NotReached(f"NATS can't be reached within {patience:.0f} s: {said}; check servers")
            time.sleep(pause)
        raise AssertionError("the pauses never end")
