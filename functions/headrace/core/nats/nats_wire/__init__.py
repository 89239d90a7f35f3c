"""The NATS client protocol as values and bytes, without I/O.

    bytes from a server ──▶ Decoder ──▶ frames:  Arrival | Info | ServerError | Signal, or runs: AnswerRun | PullRun
    what a client says  ──▶ bytes:   connect, publish, subscribe, unsubscribe, PING, PONG

Knows the wire; does not know sockets, clocks, JetStream or who reads and writes. Needs nothing but the standard library
and `headrace.core.errors`. Used by `headrace.io.nats` and by Spark's blocking client.

Source: NATS client protocol reference; NATS ADR 4 (headers).
"""

from headrace.core.nats.nats_wire.bulk import Bulk
from headrace.core.nats.nats_wire.credentials import Credentials, read_credentials
from headrace.core.nats.nats_wire.decoder import Decoder
from headrace.core.nats.nats_wire.encoder import (
    CRLF,
    PING,
    PONG,
    VERSION,
    answer,
    connect,
    publish,
    question_line,
    subscribe,
    unsubscribe,
)
from headrace.core.nats.nats_wire.frames import (
    DEFAULT_MAX_PAYLOAD,
    MAX_INFO_BYTES,
    MAX_LINE_BYTES,
    MAX_MESSAGE_BYTES,
    Arrival,
    ErrorCost,
    Frame,
    Info,
    ProtocolError,
    ServerError,
    Signal,
)
from headrace.core.nats.nats_wire.headers import NO_HEADERS, Headers, can_carry, header_block, pairs
from headrace.core.nats.nats_wire.identity import signed, user_or_token
from headrace.core.nats.nats_wire.runs import AnswerRun, PullRun, Run
from headrace.core.nats.nats_wire.servers import Server, ServerPool, pauses, read_servers

__all__ = [
    "CRLF",
    "DEFAULT_MAX_PAYLOAD",
    "MAX_INFO_BYTES",
    "MAX_LINE_BYTES",
    "MAX_MESSAGE_BYTES",
    "NO_HEADERS",
    "PING",
    "PONG",
    "VERSION",
    "AnswerRun",
    "Arrival",
    "Bulk",
    "Credentials",
    "Decoder",
    "ErrorCost",
    "Frame",
    "Headers",
    "Info",
    "ProtocolError",
    "PullRun",
    "Run",
    "Server",
    "ServerError",
    "ServerPool",
    "Signal",
    "answer",
    "can_carry",
    "connect",
    "header_block",
    "pairs",
    "pauses",
    "publish",
    "question_line",
    "read_credentials",
    "read_servers",
    "signed",
    "subscribe",
    "unsubscribe",
    "user_or_token",
]
