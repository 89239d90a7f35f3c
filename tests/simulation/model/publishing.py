"""A message for a stream: what its headers demand, what is in the way of it, and the PubAck.

The order of the checks is the server's, since a message may fail more than one of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tests.simulation.model import blocks, refusals
from tests.simulation.model.refusals import ApiFault, Unmodelled
from tests.simulation.model.stream import MSG_ID, Stream

if TYPE_CHECKING:
    from tests.simulation.model.server import JetStreamModel

_EXPECTED_SEQUENCE = "Nats-Expected-Last-Subject-Sequence"
_TIME_TO_LIVE = "Nats-TTL"
_KNOWN = {MSG_ID, _EXPECTED_SEQUENCE, _TIME_TO_LIVE, "Nats-Expected-Stream"}
_OTHERS = re.compile(rb"\r\n(Nats-[A-Za-z-]+):")
# Others of the server's own names are stored by it as they are: a replayed event carries them, and `forward`'s copies.
_HARMLESS = {"Nats-Pin-Id", "Nats-Stream", "Nats-Subject", "Nats-Sequence", "Nats-Time-Stamp"}


def take(server: JetStreamModel, stream: Stream, subject: str, headers: bytes, data: bytes) -> bytes:
    """Store a message, or not; the answer, a PubAck or an error in its place."""
    headers = blocks.without_status(headers) if headers else b""
    try:
        _check(server, stream, subject, headers, data)
    except ApiFault as fault:
        return refusals.as_bytes({"error": fault.as_json(), "stream": stream.name, "seq": 0})
    identity = blocks.value(headers, MSG_ID) if headers else ""
    if identity and (known := stream.known(identity)):
        return b'{"stream":"%b","seq":%d,"duplicate": true}' % (stream.name.encode(), known)
    try:
        _check_room(server, stream, subject, headers, data)
    except ApiFault as fault:
        return refusals.as_bytes({"error": fault.as_json(), "stream": stream.name, "seq": 0})
    if not stream.wanted(subject):
        raise Unmodelled("a message that no consumer of an interest stream wants")
    sequence = stream.store(subject, headers, data)
    if identity:
        stream.remember(identity, sequence, server.now())
    for consumer in list(stream.consumers.values()):
        consumer.stored(subject)
    return b'{"stream":"%b","seq":%d}' % (stream.name.encode(), sequence)


def _check(server: JetStreamModel, stream: Stream, subject: str, headers: bytes, data: bytes) -> None:
    """What is asked before it is known whether the message came before."""
    config: dict[str, Any] = stream.config
    if config.get("sealed"):
        raise refusals.sealed()
    if 0 <= config["max_msg_size"] < len(headers) + len(data):
        raise ApiFault(400, 10054, "message size exceeds maximum allowed")
    if not headers:
        return
    for name in _OTHERS.findall(headers):
        if (told := name.decode()) not in _KNOWN | _HARMLESS:
            raise Unmodelled(f"the header {told} of a message")
    if (expected := blocks.value(headers, "Nats-Expected-Stream")) and expected != stream.name:
        raise ApiFault(400, 10060, "expected stream does not match")
    if _time_to_live(headers) and not config.get("allow_msg_ttl"):
        raise ApiFault(400, 10166, "per-message TTL is disabled")
    wanted = blocks.value(headers, _EXPECTED_SEQUENCE)
    if wanted:
        newest = stream.kept.last_of(subject)
        if int(wanted) != newest:
            raise refusals.wrong_sequence(newest)


def _check_room(server: JetStreamModel, stream: Stream, subject: str, headers: bytes, data: bytes) -> None:
    """Sizes and limits."""
    cost = stream.kept.cost(subject, headers, data)
    if server.max_file_store is not None and server.stored_bytes() > server.max_file_store:
        raise ApiFault(503, 10023, "insufficient resources")
    if server.account_max_bytes is not None and server.stored_bytes() + cost > server.account_max_bytes:
        raise ApiFault(400, 10002, "resource limits exceeded for account")
    if headers and blocks.has(headers, _TIME_TO_LIVE):
        if not _time_to_live(headers):
            raise ApiFault(400, 10165, "invalid per-message TTL")
        raise Unmodelled("a message with a time to live")
    if words := stream.refusal(subject, headers, data):
        raise refusals.store_failed(words)


def _time_to_live(headers: bytes) -> bool:
    """Is there a time that the server understands?"""
    told = blocks.value(headers, _TIME_TO_LIVE)
    return bool(re.fullmatch(r"never|\d+|(\d+(\.\d+)?(h|m|s|ms|us|ns))+", told)) and told != "0"
