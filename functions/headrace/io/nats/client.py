"""The port to NATS: what everybody asks of a connection.

Core NATS only: publish, request, subscribe. JetStream is spoken on top, by the users of this port. The engine
(`headrace.io.nats.engine`) implements it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeAlias

from headrace.core.errors import HeadraceError, Unavailable
from headrace.core.nats.nats_wire import Arrival, Pulled

__all__ = [
    "Answer",
    "Arrival",
    "Broken",
    "Client",
    "Closed",
    "Headers",
    "NatsSubscription",
    "OnAnswer",
    "OnArrival",
    "OnPulled",
]

# Bytes are a block that `nats_wire.header_block` made, for those who encode for themselves; `nats_wire.pairs` reads it.
Headers: TypeAlias = Mapping[str, str] | bytes
OnArrival: TypeAlias = Callable[[Arrival], None]
OnPulled: TypeAlias = Callable[[Pulled], None]
# The data of an answer that is nothing but that, as a PubAck; any other answer; or the error in its place.
Answer: TypeAlias = bytes | Arrival | HeadraceError
OnAnswer: TypeAlias = Callable[[Answer], None]


class Broken(HeadraceError):
    """The connection broke while an answer was awaited: the outcome is unknown. Never leaves `headrace.io`."""


class Closed(Unavailable):
    """This client was closed by its owner, for good: whoever tries again for ever must stop."""

    def __init__(self) -> None:
        super().__init__("this connection to NATS was closed by ourselves")


class NatsSubscription(Protocol):
    """What a subject brings, until it is closed."""

    async def drain(self, timeout: float) -> None:
        """Tell the server to send no more, wait for what it has sent already, and close.

        Never raises: with the connection, or after `timeout` seconds, the subscription is gone all the same.
        """

    async def close(self) -> None:
        """Bring no more; nothing to do when the connection is gone."""


class Client(Protocol):
    """One connection to NATS that never gives up; opened at the first use, in the loop that runs then.

    Attributes:
        on_disconnect: called, without arguments, whenever the connection breaks or is replaced: whatever waits for
            more than one answer must ask again.
    """

    on_disconnect: list[Callable[[], None]]

    @property
    def connected(self) -> bool:
        """Is there a connection right now?"""

    @property
    def max_payload(self) -> int:
        """Bytes of headers and data that the server takes in one message; 1 MiB before it has said so."""

    @property
    def settings_problem(self) -> str:
        """Why what is mounted is not what counts, as of the last look; empty when it is."""

    def new_inbox(self) -> str:
        """A subject of our own to be answered on, or below which to be."""

    async def ready(self, timeout: float) -> None:
        """Wait for a connection, for `timeout` seconds at most.

        Raises:
            NotLetIn: there is none, since we have no credentials that a server takes.
            Unavailable: there is none yet; the attempts go on behind the scenes.
            Closed: there will be none: the client was closed.
        """

    async def publish(
        self, subject: str, data: bytes = b"", *, reply: str = "", headers: Headers | None = None
    ) -> None:
        """Send, with what else is sent in this turn of the loop; waits only while the socket takes no more.

        Raises:
            Unavailable: not connected, and nothing was sent.
            Refused: 413 more than max_payload; 400 an illegal subject or header. Nothing was sent.
        """

    def answer(self, reply: str | bytes, data: bytes) -> bool:
        """Send a few bytes to the reply subject of an arrival at once; False when that takes waiting: `publish` then.

        Args:
            reply: exactly as it came.
        """

    async def request(
        self, subject: str, data: bytes = b"", *, headers: Headers | None = None, timeout: float
    ) -> Arrival:
        """Send, and wait for the first answer; `status` "503" says that nobody listens.

        Args:
            timeout: seconds in all, for a connection and for the answer.

        Raises:
            Unavailable: neither in time; what was sent may still be acted on.
            Broken: the connection broke before the answer; what was sent may have been acted on.
            Refused: as for `publish`; also 403, the server forbids the subject.
        """

    def ask(self, subject: str, data: bytes, block: bytes, timeout: float, on_answer: OnAnswer) -> bool:
        """Like `request`, but without a coroutine, and only where it can be sent at once.

        Args:
            block: one that `nats_wire.header_block` made, or empty.
            on_answer: called once, never from within this call, with the first answer or with what `request` would
                raise; quick, and without exceptions.

        Returns:
            Whether it was sent. If not, nothing has happened, and `request` is the way.
        """

    async def subscribe(
        self, subject: str, on_arrival: OnArrival, on_pulled: OnPulled | None = None
    ) -> NatsSubscription:
        """Call `on_arrival` for everything that comes, over reconnects, also where there is no connection yet.

        Args:
            on_arrival: called from within the reading of the socket: quick, and without exceptions.
            on_pulled: called in its place, likewise, for messages that come as one run, by a client that knows runs.

        Raises:
            Refused: 400, an illegal subject.
        """

    async def flush(self, timeout: float) -> None:
        """Wait until the server has read everything that was sent before.

        Raises:
            Unavailable: not connected, or not in `timeout` seconds.
            Broken: the connection broke meanwhile.
        """

    async def close(self) -> None:
        """Send what waits to be sent, and close; a second at most. The client can't be used again."""
