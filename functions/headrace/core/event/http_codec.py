"""CloudEvents to and from HTTP messages, in binary and structured mode.

Knows the CloudEvents HTTP binding. Does not know sockets, ASGI, channels or who sends.
Called by the stories for requests, and for subscribers' replies; `nats_codec` shares its header values.

Source: CloudEvents HTTP Protocol Binding 1.0.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote

from headrace.core.errors import Fault, InvalidEvent
from headrace.core.event import json_format
from headrace.core.event.delivery_claim import CLAIM, HOPS
from headrace.core.event.event import (
    MOST_ATTRIBUTES,
    Event,
    drop_empty,
    essence,
    fault_in,
    faults_of,
    make_event,
    too_many,
)
from headrace.core.quoting import quoted

Headers = Iterable[tuple[bytes, bytes]]

STRUCTURED = "application/cloudevents+json"
_FAMILY = "application/cloudevents"
_BATCH = "application/cloudevents-batch"

# UTF-8 as producers write it; ASCII is a part of it.
_UTF_8 = frozenset(("utf-8", "utf8", "us-ascii", "ascii", ""))

# Section 3.1.3.2: characters outside U+0021 to U+007E are percent-encoded, and so are `"` and `%`.
_SAFE = "".join(map(chr, range(0x21, 0x7F))).translate({ord('"'): None, ord("%"): None})
_UNSAFE = re.compile(f"[^{re.escape(_SAFE)}]")
_QUOTED_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_QUOTED_PAIR = re.compile(r"\\(.)")
# Runs of escapes: a character of UTF-8 has several. The standard library's `unquote` makes an object of each.
_ESCAPES = re.compile(r"(?:%[0-9A-Fa-f]{2})+")

# Knative's event receiver passes the first two and the prefixes; the trace context and the hops have to travel, too.
_TRAVELLERS = frozenset((b"x-request-id", b"retry-after", b"traceparent", b"tracestate", HOPS))
_TRAVELLING_PREFIXES = (b"knative-", b"x-b3-")
_CODINGS = (b"content-encoding", b"transfer-encoding")
_HEADER_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_HEADER_VALUE = re.compile(rb"[\x20-\x7e]*")


@dataclass(frozen=True, slots=True)
class HttpMessage:
    """A request or response: header names in lower case, as ASGI gives them, and the whole body."""

    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def from_http(message: HttpMessage) -> Event:
    """The event of a message in either mode; InvalidEvent with every fault when there is none."""
    attributes, faults, content_types = _scan(message.headers)
    if content_types and is_structured(content_types[0]):
        if len(content_types) > 1:
            raise InvalidEvent(_twice(content_types))
        return structured_event(content_types[0], message.body)
    return binary_event(attributes, faults, message.body)


def to_http(event: Event) -> HttpMessage:
    """In binary mode, unless the event's content type would make the receiver take the data for the event."""
    if (event.datacontenttype or "").lower().startswith(_FAMILY):
        return to_structured(event)
    return to_binary(event)


def to_binary(event: Event) -> HttpMessage:
    headers = [
        (b"content-type", value.encode())
        if name == "datacontenttype"
        else (f"ce-{name}".encode(), encode_value(value).encode())
        for name, value in event.attributes.items()
    ]
    return HttpMessage(tuple(headers), event.data)


def to_structured(event: Event) -> HttpMessage:
    content_type = f"{STRUCTURED}; charset=utf-8".encode()
    return HttpMessage(((b"content-type", content_type),), json_format.write(event))


def is_event(headers: Headers) -> bool:
    """Whether a response claims to be an event: a claim that may still prove faulty. Batches do not count."""
    named = False
    for name, value in headers:
        if name == b"content-type":
            kind = essence(_text(value))
            if kind.startswith(_BATCH):
                return False
            named = named or is_structured(kind)
        named = named or name == b"ce-specversion"
    return named


def coding(headers: Headers) -> str:
    """The header that says that a body is compressed, for people; empty for a body that is as it is.

    Such a body would travel without its label, and nobody could read it.
    """
    for name, value in headers:
        text = _text(value)
        plain = ("", "identity") if name == b"content-encoding" else ("", "identity", "chunked")
        if name in _CODINGS and text.lower() not in plain:
            return f"{name.decode()} {quoted(text, 20)}"
    return ""


def passthrough(headers: Headers) -> tuple[tuple[bytes, bytes], ...]:
    """The headers that travel with an event through the channel, beside its attributes; names in lower case.

    The values of a name that comes twice are joined with a comma, empty ones left out; a value that is not printable
    ASCII stays behind.
    """
    kept: dict[bytes, bytes] = {}
    for given, value in headers:
        name = given.lower()
        if travels(name):
            value = value.strip(b" \t")
            if _HEADER_VALUE.fullmatch(value):
                earlier = kept.get(name)
                kept[name] = earlier + b", " + value if earlier and value else earlier or value
    return tuple(kept.items())


def travels(name: bytes) -> bool:
    """Whether a header of that lower-case name travels with an event."""
    named = name in _TRAVELLERS or name.startswith(_TRAVELLING_PREFIXES)
    # A claim is about one POST.
    return named and name != CLAIM and _HEADER_NAME.fullmatch(name) is not None


def binary_event(attributes: dict[str, str], faults: list[Fault], data: bytes) -> Event:
    """The event of attributes that came as headers, with the faults found while reading them."""
    if attributes.get("specversion") == "0.3":
        # 0.3: datacontentencoding is ignored when the data is not a string, as bytes never are.
        attributes.pop("datacontentencoding", None)
    drop_empty(attributes)
    if not faults:
        return make_event(attributes, data)
    if are_full(attributes, faults):
        raise InvalidEvent(too_many())
    known = {fault.attribute for fault in faults}
    raise InvalidEvent(*faults, *(fault for fault in faults_of(attributes) if fault.attribute not in known))


def structured_event(content_type: str, body: bytes) -> Event:
    """The event in a body whose content type claims one; InvalidEvent unless the format is JSON in UTF-8."""
    kind, _, parameters = content_type.partition(";")
    kind = essence(kind)
    if kind.startswith(_BATCH):
        raise InvalidEvent(
            Fault("content-type", f"is {quoted(kind)}: batches are not accepted, send events one by one")
        )
    if kind != STRUCTURED:
        raise InvalidEvent(Fault("content-type", f"is {quoted(kind)}: the one event format here is {STRUCTURED}"))
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _UTF_8:
            raise InvalidEvent(Fault("content-type", f"has the charset {quoted(value.strip())}: send utf-8"))
    return json_format.parse(body)


def is_structured(content_type: str) -> bool:
    """Whether a content type claims that the body is an event, or a batch of them."""
    kind = essence(content_type)
    return kind == _FAMILY or kind.startswith((f"{_FAMILY}+", _BATCH))


def encode_value(value: str) -> str:
    """An attribute value as a header value in printable ASCII."""
    return value if _UNSAFE.search(value) is None else quote(value, safe=_SAFE)


def decode_value(text: str) -> str:
    """An attribute value from a header value: quotes undone, then one round of percent-decoding.

    A percent sign without two hex digits stays. UnicodeDecodeError when a percent sequence is not UTF-8.
    """
    if text[:1] == '"' and (match := _QUOTED_STRING.fullmatch(text)):
        text = _QUOTED_PAIR.sub(r"\1", match.group(1))
    return _ESCAPES.sub(_unescaped, text) if "%" in text else text


def _unescaped(found: re.Match[str]) -> str:
    return bytes.fromhex(found[0].replace("%", "")).decode()


def are_full(attributes: dict[str, str], faults: list[Fault]) -> bool:
    """Whether the headers read so far are more than an event may have, so that the others need no look."""
    return len(attributes) + len(faults) > MOST_ATTRIBUTES


def put_attribute(attributes: dict[str, str], faults: list[Fault], name: str, value: str) -> None:
    """Add a `ce-*` header to the attributes, or its fault to the faults."""
    if name == "datacontenttype":
        faults.append(fault_in(name, "comes as ce-datacontenttype: use the content-type header"))
    elif name in attributes:
        faults.append(fault_in(name, f"comes twice, as {quoted(attributes[name])} and {quoted(value)}: send it once"))
    else:
        try:
            attributes[name] = decode_value(value)
        except UnicodeDecodeError:
            faults.append(fault_in(name, f"is {quoted(value)}: percent-encode the bytes of UTF-8"))


def _scan(headers: Headers) -> tuple[dict[str, str], list[Fault], list[str]]:
    """Attributes, faults and content types of a message's headers, in one pass."""
    attributes: dict[str, str] = {}
    faults: list[Fault] = []
    content_types: list[str] = []
    for name, value in headers:
        if name.startswith(b"ce-"):
            if are_full(attributes, faults):
                continue
            try:
                text = value.strip(b" \t").decode()
            except UnicodeDecodeError:
                problem = f"is {quoted(_text(value))}, not UTF-8: percent-encode the bytes of UTF-8"
                faults.append(fault_in(_text(name[3:]), problem))
            else:
                put_attribute(attributes, faults, _text(name[3:]), text)
        elif name == b"content-type":
            content_types.append(_text(value))
    if len(content_types) > 1:
        faults.append(_twice(content_types))
    elif content_types:
        attributes["datacontenttype"] = content_types[0]
    return attributes, faults, content_types


def _twice(content_types: list[str]) -> Fault:
    return Fault("content-type", f"comes twice, as {' and '.join(map(quoted, content_types[:2]))}: send it once")


def _text(value: bytes) -> str:
    """Header bytes as text without outer blanks; Latin-1 never fails, and text beyond ASCII is refused later."""
    return value.strip(b" \t").decode("latin-1")
