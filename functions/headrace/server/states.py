"""What one connection to our server is doing, and what may happen to it next.

The states and the events of one connection, and the table that leads from one state to the next. Every byte of a
request is read in one of these states, by whoever `protocol` gives it to. An event that a state does not name can't
happen in it; should a fault of ours make it happen all the same, `KeyError` ends that connection.

Knows neither bytes nor sockets. Called by `headrace.server.protocol`; a test reads every line of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConnectionState(StrEnum):
    """What the connection is doing. Bytes that come are looked at by the short way in FREE and KEPT only."""

    FREE = "free"
    """Nothing has begun, and every answer has been given."""
    KEPT = "kept"
    """The short way waits for the rest of a body; all bytes of the message are kept, and the parser has seen none."""
    HEAD = "head"
    """The parser is inside a head."""
    BODY = "body"
    """The parser is inside a body; ASGI has the request."""
    DUE = "due"
    """No message is half read, and an answer is due: of an event on the short way, or by ASGI."""
    OVER = "over"
    """Nothing is read any more. Answers to whole requests may still be due."""


class ConnectionEvent(StrEnum):
    """What happens to it."""

    TAKEN = "taken"
    """The short way has taken a whole message."""
    LACKING = "lacking"
    """The short way has seen a message whose body is not here yet."""
    BEGUN = "begun"
    """The parser has met the first byte of a message."""
    HEADED = "headed"
    """The parser has met the end of a head."""
    ENDED = "ended"
    """The parser has met the end of a message."""
    ANSWERED = "answered"
    """The last answer that was due has been given."""
    CUT = "cut"
    """The connection was refused, or is lost."""


# Under their own names: to look a member up in its enumeration takes Python 3.11 as long as a step of the table.
FREE, KEPT, HEAD, BODY, DUE, OVER = ConnectionState
TAKEN, LACKING, BEGUN, HEADED, ENDED, ANSWERED, CUT = ConnectionEvent

NEXT: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    FREE: {
        TAKEN: DUE,
        LACKING: KEPT,
        BEGUN: HEAD,
        CUT: OVER,
    },
    KEPT: {
        TAKEN: DUE,
        LACKING: KEPT,
        # What was kept turns out to be nothing for the short way: the parser has it from its first byte.
        BEGUN: HEAD,
        CUT: OVER,
    },
    HEAD: {
        # The same head, without the upgrade that it offered.
        BEGUN: HEAD,
        HEADED: BODY,
        # To an earlier request on the same connection.
        ANSWERED: HEAD,
        CUT: OVER,
    },
    BODY: {
        ENDED: DUE,
        # Before the body was here: the rest of it is read, and dropped.
        ANSWERED: BODY,
        CUT: OVER,
    },
    DUE: {
        # Pipelined: it is parsed now, and waits for its turn.
        BEGUN: HEAD,
        ANSWERED: FREE,
        CUT: OVER,
    },
    OVER: {
        ANSWERED: OVER,
        CUT: OVER,
    },
}
