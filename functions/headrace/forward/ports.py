"""The effects of `forward`, as plain callables that the host fills in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from headrace.core.delivery.bearer import Shown
from headrace.core.delivery.lease import Outcome, Tally
from headrace.core.delivery.order import Unsettled
from headrace.core.delivery.stage_record import StageRecord
from headrace.core.delivery.subscriber import Destination
from headrace.core.event.delivery_claim import Claims
from headrace.core.event.nats_codec import NatsMessage
from headrace.core.http import Headers, HttpAnswer
from headrace.core.nats.jetstream import Message
from headrace.core.nats.pull_status import PullEnd


class Inbox(Protocol):
    """The inbox of pulled messages; one pull at a time (see `headrace.io.jetstream.pull`)."""

    @property
    def pulling(self) -> bool:
        """Is a pull open?"""

    @property
    def said(self) -> str:
        """Why the latest pull ended, in words; empty when it ended well."""

    @property
    def most_bytes(self) -> int:
        """The bytes that the server lets one pull ask for; 0 while it has not said so."""

    async def pull(self, batch: int, expires: timedelta, max_bytes: int) -> None:
        """Ask for messages; raises Unavailable when the request can't be sent."""

    async def stop(self) -> None:
        """Give up the open pull; messages on their way arrive before this returns."""

    async def close(self) -> None:
        """Stop listening."""


@dataclass(frozen=True, slots=True)
class Survey:
    """The questions of a lease before it takes over a by-key consumer. Both raise Unavailable or Refused.

    Attributes:
        unsettled: how many events are delivered and not settled, by the server's count.
        records: the stage records of the consumer, by sequence.
        overdue: report how many of those events have not come back in time: order can't be promised.
    """

    unsettled: Callable[[], Awaitable[Unsettled]]
    records: Callable[[], Awaitable[Sequence[tuple[int, StageRecord]]]]
    overdue: Callable[[int], None]


class Sending(Protocol):
    """A POST that is under way."""

    def cancel(self) -> None:
        """Give the POST up; its callback is not called."""


@dataclass(frozen=True, slots=True)
class ShortEffects:
    """The effects of the short way; neither waits, and each may decline.

    Attributes:
        send: POST header lines and data to the subscriber, and call back later with the answer; None when no connection
            is free. Time and size are bounded as in `Effects.post`.
        settle: send an ack payload; False when NATS is away, or slow.
    """

    send: Callable[[bytes, bytes, Callable[[HttpAnswer], None]], Sending | None]
    settle: Callable[[Message, bytes], bool]


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of a lease. All but `post` raise Unavailable when NATS is away.

    Attributes:
        open_inbox: subscribe; pulls then bring messages and their ends to the two callables.
        post: one HTTP POST, bounded in time and size; every failure of the other side is an answer, never an error.
        load, store, drop: the stage record of a subject in the aside stream.
        park: store one message in the aside stream; raises Refused when it is full or the message too large.
        settle: send an ack payload. ack: send a plain ack, and wait until the server confirms it.
        hold, release: keep a message from being redelivered while it is in a subscriber's hands.
        in_hand: is another delivery of a message in a subscriber's hands, by this process?
        monotonic: seconds, for deadlines. now: UTC, for due times and dates in answers.
        report: log one line per outcome; a success at debug level only.
        survey: for by-key consumers.
        short_way: its effects; without them every event goes the long way.
        shown: the lease's tokens, which `post` and the short way show.
        claims: proves to our channels which delivery a POST is.
        tally: the lease's counts; its maker may read it at any time.
    """

    open_inbox: Callable[[Callable[[Message], None], Callable[[PullEnd], None]], Awaitable[Inbox]]
    post: Callable[[Destination, Headers, bytes, timedelta], Awaitable[HttpAnswer]]
    load: Callable[[str], Awaitable[bytes | None]]
    store: Callable[[str, bytes], Awaitable[None]]
    drop: Callable[[str], Awaitable[None]]
    park: Callable[[NatsMessage], Awaitable[None]]
    settle: Callable[[Message, bytes], Awaitable[None]]
    ack: Callable[[Message], Awaitable[None]]
    hold: Callable[[Message], None]
    release: Callable[[Message], None]
    monotonic: Callable[[], float]
    now: Callable[[], datetime]
    report: Callable[[Outcome, Message, str], None]
    in_hand: Callable[[Message], bool] = lambda _: False
    survey: Survey | None = None
    short_way: ShortEffects | None = None
    shown: Shown = field(default_factory=Shown)
    claims: Claims = field(default_factory=Claims)
    tally: Tally = field(default_factory=Tally)
