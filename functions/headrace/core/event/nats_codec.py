"""CloudEvents to and from NATS messages: ours in binary mode, the Go channel's JSON, and strangers' bytes.

Knows the wire format of the channel's streams. Does not know connections, JetStream or who publishes.
Called by headrace.receive when storing and by headrace.forward and the Spark reader when reading.

Wire format: headers `ce-<name>` with values encoded as in HTTP, so that they are printable ASCII;
`content-type`; pass-through headers under their own names; `Nats-Msg-Id` for the server's deduplication; the
data untouched.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event import http_codec, json_format
from headrace.core.event.delivery_claim import HOPS
from headrace.core.event.event import Event, faults_of, make_event
from headrace.core.nats.nats_wire import header_block
from headrace.core.quoting import quoted

MSG_ID = "Nats-Msg-Id"
FOREIGN_TYPE = "headrace.foreign"


@dataclass(frozen=True, slots=True)
class NatsMessage:
    """A message as NATS carries it: a legal subject, headers (names as sent, values one line each), data."""

    subject: str
    headers: Mapping[str, str]
    data: bytes


class Encoded(NamedTuple):
    """A message as it goes over the wire; its header block is empty for no headers."""

    subject: str
    block: bytes
    data: bytes

    @property
    def size(self) -> int:
        """The bytes that NATS compares with max_payload."""
        return len(self.block) + len(self.data)


def encoded(message: NatsMessage) -> Encoded:
    """Raises Refused for a header that can't be carried."""
    block = header_block(message.headers) if message.headers else b""
    return Encoded(message.subject, block, message.data)


def from_nats(message: NatsMessage, *, stream: str, sequence: int) -> Event:
    """The event in a stored message, whoever stored it.

    InvalidEvent only for a message that claims to be an event, by `ce-specversion` or by content type, and is
    faulty; `foreign` is then the way to hand on its bytes.
    """
    attributes, faults, content_type, claims = _scan(message.headers)
    if claims:
        return http_codec.binary_event(attributes, faults, message.data)
    if http_codec.is_structured(content_type):
        return http_codec.structured_event(content_type, message.data)
    # The Go channel stores structured JSON without saying so in a header.
    if b'"specversion"' in message.data:
        try:
            return json_format.parse(message.data)
        except InvalidEvent:
            pass
    return foreign(message, stream, sequence)


def foreign(message: NatsMessage, stream: str, sequence: int) -> Event:
    """Any message as a valid event, its data untouched: for one that a stranger published, or that proved faulty."""
    origin = quote(stream, safe="", errors="surrogatepass")
    attributes = {
        "specversion": "1.0",
        "id": f"{origin}:{sequence}",
        "source": f"nats:{origin}",
        "type": FOREIGN_TYPE,
        "subject": message.subject,
        "datacontenttype": _scan(message.headers).content_type,
    }
    illegal = {fault.attribute for fault in faults_of(attributes)}
    return make_event({name: value for name, value in attributes.items() if name not in illegal}, message.data)


def to_binary(
    event: Event, subject: str, extra: tuple[tuple[bytes, bytes], ...] = (), claim: bytes = b""
) -> NatsMessage:
    """The message that stores an event.

    Args:
        extra: the headers that `http_codec.passthrough` keeps.
        claim: names the delivery, proven; empty for an event from a producer.
    """
    headers = {MSG_ID: msg_id(event.source, event.id, claim)}
    for name, value in event.attributes.items():
        if name == "datacontenttype":
            headers["content-type"] = value
        else:
            headers[f"ce-{name}"] = http_codec.encode_value(value)
    return NatsMessage(subject, headers | _texts(extra), event.data)


def to_structured(event: Event, subject: str, extra: tuple[tuple[bytes, bytes], ...] = ()) -> NatsMessage:
    headers = {MSG_ID: msg_id(event.source, event.id), "content-type": http_codec.STRUCTURED}
    return NatsMessage(subject, headers | _texts(extra), json_format.write(event))


def passthrough_of(message: NatsMessage) -> tuple[tuple[bytes, bytes], ...]:
    """The pass-through headers of a stored message, names in lower case; not its hops, which each POST tells anew."""
    found = http_codec.passthrough(
        (name.encode(errors="replace"), value.encode(errors="surrogatepass")) for name, value in message.headers.items()
    )
    return tuple(header for header in found if header[0] != HOPS)


def msg_id(source: str, id: str, claim: bytes = b"") -> str:
    """The `Nats-Msg-Id` of an event: 32 hex digits; the length prefix keeps source and id apart.

    Args:
        claim: names the stored delivery (`headrace.core.event.delivery_claim`); empty for an event from a producer.
    """
    if claim:
        return _of_delivery(len(source), source.encode(), len(id), id.encode(), claim).hexdigest()
    return blake2b(f"{len(source)}:{source}{id}".encode(), digest_size=16).hexdigest()


def ascii_msg_id(source: bytes, id: bytes, claim: bytes = b"") -> bytes:
    """The same for ASCII bytes, where a byte is a character."""
    if claim:
        return hexlify(_of_delivery(len(source), source, len(id), id, claim).digest())
    return hexlify(blake2b(b"%d:%b%b" % (len(source), source, id), digest_size=16).digest())


def _of_delivery(source_length: int, source: bytes, id_length: int, id: bytes, claim: bytes) -> blake2b:
    # `person` keeps deliveries apart, so that no event's own id can be chosen to give the same.
    text = b"%d:%b%d:%b%b" % (source_length, source, id_length, id, claim)
    return blake2b(text, digest_size=16, person=b"delivery")


class _Scanned(NamedTuple):
    """The findings in a message's headers.

    Attributes:
        content_type: empty without one.
        claims: do they claim an event, by `ce-specversion`?
    """

    attributes: dict[str, str]
    faults: list[Fault]
    content_type: str
    claims: bool


def _scan(headers: Mapping[str, str]) -> _Scanned:
    """Read a message's headers, their names in upper or lower case."""
    attributes: dict[str, str] = {}
    faults: list[Fault] = []
    content_type, claims = "", False
    for given, value in headers.items():
        name = given.lower()
        if name.startswith("ce-"):
            claims = claims or name == "ce-specversion"
            if not http_codec.are_full(attributes, faults):
                http_codec.put_attribute(attributes, faults, name[3:], value.strip(" \t"))
        elif name == "content-type":
            if content_type:
                both = f"{quoted(content_type)} and {quoted(value)}"
                faults.append(Fault("content-type", f"comes twice, as {both}: send it once"))
            content_type = value.strip(" \t")
    if content_type:
        attributes["datacontenttype"] = content_type
    return _Scanned(attributes, faults, content_type, claims)


def _texts(extra: tuple[tuple[bytes, bytes], ...]) -> dict[str, str]:
    return {name.decode("ascii"): value.decode("ascii") for name, value in extra}
