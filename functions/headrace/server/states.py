"""What one connection to our server is doing, and what may happen to it next.

The states and the events of one connection, and the table that leads from one state to the next. Every byte of a
request is read in one of these states, by whoever `protocol` gives it to. An event that a state does not name can't
happen in it; should a fault of ours make it happen all the same, `KeyError` ends that connection.

Knows neither bytes nor sockets. Called by `headrace.server.protocol`; a test reads every line of the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


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


NEXT: Mapping[ConnectionState, Mapping[ConnectionEvent, ConnectionState]] = MappingProxyType(
    {
        ConnectionState.FREE: {
            ConnectionEvent.TAKEN: ConnectionState.DUE,
            ConnectionEvent.LACKING: ConnectionState.KEPT,
            ConnectionEvent.BEGUN: ConnectionState.HEAD,
            ConnectionEvent.CUT: ConnectionState.OVER,
        },
        ConnectionState.KEPT: {
            ConnectionEvent.TAKEN: ConnectionState.DUE,
            ConnectionEvent.LACKING: ConnectionState.KEPT,
            # What was kept turns out to be nothing for the short way: the parser has it from its first byte.
            ConnectionEvent.BEGUN: ConnectionState.HEAD,
            ConnectionEvent.CUT: ConnectionState.OVER,
        },
        ConnectionState.HEAD: {
            # The same head, without the upgrade that it offered.
            ConnectionEvent.BEGUN: ConnectionState.HEAD,
            ConnectionEvent.HEADED: ConnectionState.BODY,
            # To an earlier request on the same connection.
            ConnectionEvent.ANSWERED: ConnectionState.HEAD,
            ConnectionEvent.CUT: ConnectionState.OVER,
        },
        ConnectionState.BODY: {
            ConnectionEvent.ENDED: ConnectionState.DUE,
            # Before the body was here: the rest of it is read, and dropped.
            ConnectionEvent.ANSWERED: ConnectionState.BODY,
            ConnectionEvent.CUT: ConnectionState.OVER,
        },
        ConnectionState.DUE: {
            # Pipelined: it is parsed now, and waits for its turn.
            ConnectionEvent.BEGUN: ConnectionState.HEAD,
            ConnectionEvent.ANSWERED: ConnectionState.FREE,
            ConnectionEvent.CUT: ConnectionState.OVER,
        },
        ConnectionState.OVER: {
            ConnectionEvent.ANSWERED: ConnectionState.OVER,
            ConnectionEvent.CUT: ConnectionState.OVER,
        },
    }
)
