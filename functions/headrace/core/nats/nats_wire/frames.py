"""The words of a server as values, and how much of them we are willing to hold.

The words of `-ERR` are judged here, since the protocol has no numbers for them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

from headrace.core.errors import HeadraceError
from headrace.core.nats.nats_wire.headers import NO_HEADERS
from headrace.core.quoting import quoted

# The server's own default, valid until its INFO says otherwise.
DEFAULT_MAX_PAYLOAD = 1024 * 1024
# Servers take control lines of 4 KiB; to a client they add a subscription number and JetStream's ack subject.
MAX_LINE_BYTES = 8 * 1024
# INFO lists every server of a cluster: some 2,000 of them fit.
MAX_INFO_BYTES = 128 * 1024
# No server can be configured for more; a message may be larger than the max_payload of the server that hands it on.
MAX_MESSAGE_BYTES = 64 * 1024 * 1024


class ProtocolError(HeadraceError):
    """The bytes are not the NATS protocol, or exceed our bounds. The connection is of no use any more."""


class Signal(Enum):
    """The frames that consist of their name alone."""

    PING = "PING"
    PONG = "PONG"
    OK = "+OK"


class Arrival(NamedTuple):
    """One message (MSG or HMSG). A tuple, since this is made once per message: a frozen dataclass costs 7 times more.

    Attributes:
        headers: names in lower case; empty without any.
        status: as "503" (no responders), "408", "100"; empty in a message that a client sent.
        sid: the subscription that it answers to, a number that the client chose.
    """

    subject: str
    reply: str = ""
    headers: Mapping[str, str] = NO_HEADERS
    data: bytes = b""
    status: str = ""
    description: str = ""
    sid: int = 0


@dataclass(frozen=True, slots=True)
class Info:
    """A server's description of itself, sent at first and whenever it changes.

    Attributes:
        max_payload: bytes of headers and data in one message.
        nonce: the text that a client with a key must sign.
        connect_urls: `host:port` of every server of the cluster.
        lame_duck: it will shut down soon and wants us to go.
    """

    server_id: str = ""
    version: str = ""
    max_payload: int = DEFAULT_MAX_PAYLOAD
    nonce: str = ""
    tls_required: bool = False
    tls_available: bool = False
    connect_urls: tuple[str, ...] = ()
    lame_duck: bool = False


class ErrorCost(Enum):
    """The cost of a `-ERR`.

    OPERATION: one operation failed, the connection goes on. IDENTITY: our identity may not, or no longer, connect.
    CONNECTION: anything else; the server closes, and so do we.
    """

    OPERATION = "operation"
    IDENTITY = "identity"
    CONNECTION = "connection"


_OPERATION = ("permissions violation", "invalid subject", "maximum subscriptions exceeded")
_IDENTITY = ("authorization violation", "authentication expired", "authentication revoked", "authentication timeout")
_REFUSED_PUBLISH = re.compile(r'permissions violation for publish to "(.*)"', re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ServerError:
    """`-ERR` and the server's own words."""

    words: str

    @property
    def severity(self) -> ErrorCost:
        words = self.words.lower()
        if words.startswith(_OPERATION):
            return ErrorCost.OPERATION
        return ErrorCost.IDENTITY if any(known in words for known in _IDENTITY) else ErrorCost.CONNECTION

    @property
    def refused_subject(self) -> str | None:
        """The subject to which we may not publish, if the error says so."""
        found = _REFUSED_PUBLISH.match(self.words)
        return found[1] if found else None


Frame: TypeAlias = Arrival | Info | ServerError | Signal


def read_info(text: bytes) -> Info:
    """The JSON of an INFO line.

    Raises:
        ProtocolError: no JSON object, or a value of the wrong type.
    """
    try:
        fields = json.loads(text)
    # A deeply nested text exhausts the parser's recursion.
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"INFO is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ProtocolError(f"INFO is no JSON object: {text[:80]!r}")
    urls = _field(fields, "connect_urls", list, [])
    max_payload = _field(fields, "max_payload", int, DEFAULT_MAX_PAYLOAD)
    return Info(
        server_id=_field(fields, "server_id", str, ""),
        version=_field(fields, "version", str, ""),
        # An account without a limit says -1.
        max_payload=min(max_payload, MAX_MESSAGE_BYTES) if max_payload > 0 else MAX_MESSAGE_BYTES,
        nonce=_field(fields, "nonce", str, ""),
        tls_required=_field(fields, "tls_required", bool, False),
        tls_available=_field(fields, "tls_available", bool, False),
        connect_urls=tuple(url for url in urls if isinstance(url, str)),
        lame_duck=_field(fields, "ldm", bool, False),
    )


def _field(fields: dict[str, Any], name: str, kind: type, default: Any) -> Any:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise ProtocolError(f"INFO has {name} {quoted(value)}: expected {kind.__name__}")
    return value
