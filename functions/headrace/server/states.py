"""The states and the events of one connection to our server, and the table that leads from one state to the next.

Every byte of a request is read in one of these states, by the short way or by the parser. An event that a state does
not name can't happen in it; should a fault of ours make it happen all the same, `KeyError` ends that connection.

The module knows neither bytes nor sockets. `headrace.server.protocol` calls it; a test reads every line of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class ConnectionState(StrEnum):
    """The state of a connection. The short way looks at arriving bytes in FREE and KEPT only."""

    FREE = "free"
    """Nothing has begun, and every answer has been given."""
    KEPT = "kept"
    """The short way waits for the rest of a body; all bytes of the message are kept, and the parser has seen none."""
    HEAD = "head"
    """The parser is inside a head."""
    BODY = "body"
    """The parser is inside a body; ASGI has the request."""
    DUE = "due"
    """No message is half read, and an answer is due: from the short way, or from ASGI."""
    PILED = "piled"
    """As DUE, and bytes behind that message are held; no more are read."""
    HELD = "held"
    """As FREE, but bytes are held until it is this connection's turn; no more are read."""
    OVER = "over"
    """Nothing is read any more. Answers to whole requests may still be due."""


class ConnectionEvent(StrEnum):
    """An event of a connection."""

    TAKEN = "taken"
    """The short way has taken a whole message."""
    LACKING = "lacking"
    """The short way has seen a message without the whole of its body."""
    BEGUN = "begun"
    """The parser has met the first byte of a message."""
    HEADED = "headed"
    """The parser has met the end of a head."""
    ENDED = "ended"
    """The parser has met the end of a message."""
    ANSWERED = "answered"
    """The answer that was due has been given."""
    EARLY = "early"
    """Bytes have come before it is their turn: an answer is due, or this turn has been long enough."""
    TURN = "turn"
    """It is this connection's turn again."""
    CUT = "cut"
    """The connection was refused, or is lost."""


# Names of their own: in Python 3.11 the look-up of an enumeration's member takes as long as a step of the table.
FREE, KEPT, HEAD, BODY, DUE, PILED, HELD, OVER = ConnectionState
TAKEN, LACKING, BEGUN, HEADED, ENDED, ANSWERED, EARLY, TURN, CUT = ConnectionEvent

NEXT: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = {
    FREE: {
        TAKEN: DUE,
        LACKING: KEPT,
        BEGUN: HEAD,
        # A long read waits for its turn; and blank lines alone may last longer than one.
        EARLY: HELD,
        CUT: OVER,
    },
    KEPT: {
        TAKEN: DUE,
        LACKING: KEPT,
        # The kept message is none for the short way after all: the parser gets it from its first byte, in a turn if
        # that is much.
        BEGUN: HEAD,
        EARLY: HELD,
        CUT: OVER,
    },
    HEAD: {
        # The same head again, without its offer of an upgrade.
        BEGUN: HEAD,
        HEADED: BODY,
        EARLY: HEAD,
        TURN: HEAD,
        CUT: OVER,
    },
    BODY: {
        ENDED: DUE,
        # The answer came before the whole body: the rest of it is read, and dropped.
        ANSWERED: BODY,
        EARLY: BODY,
        TURN: BODY,
        CUT: OVER,
    },
    DUE: {
        # A pipelined request: not a byte of it is parsed before the answer.
        EARLY: PILED,
        ANSWERED: FREE,
        CUT: OVER,
    },
    PILED: {
        EARLY: PILED,
        ANSWERED: HELD,
        CUT: OVER,
    },
    HELD: {
        EARLY: HELD,
        TURN: FREE,
        CUT: OVER,
    },
    OVER: {
        ANSWERED: OVER,
        # A turn that was asked for before.
        TURN: OVER,
        CUT: OVER,
    },
}
