"""`receive`: decode, name, publish, answer; in that order.

Owns the order of effects of an accepted event and the status table; the effects arrive as arguments. Answers 202 only
after JetStream has acknowledged the event. Called by `headrace.host` for each HTTP request that is not a probe.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from headrace.core import names
from headrace.core.errors import Refused
from headrace.core.event import http_codec, nats_codec
from headrace.core.event.delivery_claim import CLAIM, DUPLICATE, OF_DELIVERY, OF_EVENT, UNSURE, Claims
from headrace.core.event.http_codec import HttpMessage
from headrace.core.event.nats_codec import Encoded
from headrace.core.event.plain_post import Posted
from headrace.core.event.stored_block import block_of, stored_block, stored_structured
from headrace.core.http import Headers, Request, Response, problem
from headrace.core.nats.jetstream import PubAck
from headrace.core.quoting import quoted

ALLOW: Headers = ((b"allow", b"POST, OPTIONS"),)
# The WebHook handshake of CloudEvents: anyone may send, at any rate.
OPTIONS: Headers = ((b"webhook-allowed-origin", b"*"), (b"webhook-allowed-rate", b"*"))
# Base64 makes a structured event's data a third longer on the way in than it is stored.
STRUCTURED_SLACK = 64 * 1024
# Addresses come from strangers: the subjects of so many are remembered, and none is longer than two legal names and a
# domain can be.
REMEMBERED = 4096
LONGEST_ADDRESS = 640

# Headers after which the body may not be what it seems.
CODED = frozenset((b"content-encoding", b"transfer-encoding", b"upgrade"))
# Structured mode, as it is written where nothing is wrong with it.
PLAIN_STRUCTURED = re.compile(rb"application/cloudevents\+json(?:; ?charset=utf-8)?", re.IGNORECASE)
SHORTEST_STRUCTURED = len(b"application/cloudevents+json")
# A path that means itself: without escapes, query or an empty part.
PLAIN_URL = re.compile(rb"/|(?:/[a-z0-9.-]+)+")

ACCEPTED = Response(202, ALLOW)
# By what the stored one was known, as `forward` and people read it (ADR 044).
KNOWN_DELIVERY, KNOWN_EVENT, KNOWN_PERHAPS = (
    Response(202, (*ALLOW, (DUPLICATE, by))) for by in (OF_DELIVERY, OF_EVENT, UNSURE)
)
# Its own constructor takes half the time of the one written in Python.
_new = tuple.__new__

Body = Callable[[int], Awaitable[bytes]]


@dataclass(frozen=True, slots=True)
class Effects:
    """What `receive` does to the world.

    Attributes:
        publish: store one message; raises Refused or Unavailable (see `headrace.io.jetstream.data_path`).
        wake: tell the operator that a stream has something new.
        max_event_bytes: largest message that may be stored, headers included.
        claims: knows the deliveries of `forward`.
    """

    publish: Callable[[Encoded], Awaitable[PubAck]]
    wake: Callable[[str], None]
    max_event_bytes: Callable[[], int]
    claims: Claims


class Stored(NamedTuple):
    """How an event is to be stored: where, as which delivery, and how large it may be."""

    subject: str
    claim: bytes
    limit: int


async def receive(request: Request, body: Body, effects: Effects) -> Response:
    """Answer one request to a channel.

    Args:
        body: reads the request's body, at most as many bytes as it is told; raises Refused beyond that.

    Raises:
        InvalidEvent, Refused, Unavailable: for the shell to answer.

    The order is that of Knative's own event receiver: method, route, parse, validate, store (ADR 010).
    """
    if request.method == "OPTIONS":
        return Response(200, ALLOW + OPTIONS)
    if request.method != "POST":
        return problem(405, "Method not allowed", f"send events with POST, not {request.method}", headers=ALLOW)
    subject = route(request)
    if isinstance(subject, Response):
        return subject
    refusal = _coded(request)
    if refusal is not None:
        return refusal
    claim = effects.claims.proven(_only(request.headers, CLAIM))
    message = await _message(request, body, Stored(subject, claim, effects.max_event_bytes()))
    ack = await effects.publish(message)
    if ack.new:
        effects.wake(ack.stream)
    return accepted(ack, claim)


def accepted(ack: PubAck, claim: bytes) -> Response:
    """The answer to an event that is in the stream, now or since before.

    Args:
        claim: by which it was known, if it was; empty for none.
    """
    if not ack.duplicate:
        return ACCEPTED
    if claim:
        return KNOWN_DELIVERY
    return KNOWN_PERHAPS if ack.unsure else KNOWN_EVENT


def message_at_once(
    url: bytes, headers: Sequence[tuple[bytes, bytes]], data: bytes, claims: Claims
) -> tuple[Encoded, bytes] | None:
    """The message of a whole POST that leaves nothing to decide, and its claim; None: `receive` must look at it.

    Args:
        url: as it was sent.
        headers: names in lower case.
    """
    fields = dict(headers)
    if len(fields) != len(headers) or b"host" not in fields or not fields.keys().isdisjoint(CODED):
        return None
    subject = _subject_at_once(_hosts(fields), url)
    if subject is None:
        return None
    block: bytes | None
    claim = claims.proven(fields[CLAIM]) if CLAIM in fields else b""
    content_type = fields.get(b"content-type", b"")
    if len(content_type) < SHORTEST_STRUCTURED or PLAIN_STRUCTURED.fullmatch(content_type) is None:
        block = block_of(fields, claim)
    else:
        block, data = stored_structured(data, headers, claim) or (None, data)
    return None if block is None else (_new(Encoded, (subject, block, data)), claim)


def message_of(posted: Posted) -> Encoded | None:
    """The same of what `headrace.core.event.plain_post` has read."""
    subject = _subject_at_once((posted.host,), posted.url)
    return None if subject is None else _new(Encoded, (subject, posted.block, posted.body))


def _subject_at_once(hosts: tuple[bytes, ...], url: bytes) -> str | None:
    if len(url) > LONGEST_ADDRESS or sum(map(len, hosts)) > LONGEST_ADDRESS:
        return None
    return _subject_of(hosts, url)


@lru_cache(REMEMBERED)
def _subject_of(hosts: tuple[bytes, ...], url: bytes) -> str | None:
    if PLAIN_URL.fullmatch(url) is None:
        return None
    found = _route(hosts, url.decode())
    return found if isinstance(found, str) else None


def route(request: Request) -> str | Response:
    """The subject of the channel that a request is addressed to, by Host (its original one, behind Knative's gateway)
    or by path."""
    return _route(_hosts(request.fields), request.path)


def _route(hosts: tuple[bytes, ...], path: str) -> str | Response:
    for host in hosts:
        by_host = _subject_of_host(_text(host))
        if by_host is None:
            continue
        if path == names.READ_ONLY:
            return _read_only()
        if path not in ("/", ""):
            detail = f"the host names the channel already, so the path must be /, not {quoted(path)}"
            return problem(400, "Bad path", detail, headers=ALLOW)
        return by_host
    by_path = _subject_of_path(path)
    if by_path is not None:
        # Also of a channel whose name is that of the ending.
        return by_path
    if path.endswith(names.READ_ONLY) and _subject_of_path(path.removesuffix(names.READ_ONLY)) is not None:
        return _read_only()
    if path in ("/", ""):
        detail = (
            f"no channel has the host {quoted(_text(hosts[0]) if hosts else '')}: send to "
            "http://<name>-kn-jsm-channel.<namespace>.svc… or to the path /<namespace>/<name>"
        )
        return problem(404, "No such channel", detail, headers=ALLOW)
    detail = f"the path {quoted(path)} is not /<namespace>/<name>, both in lower case as Kubernetes names are"
    return problem(400, "Bad path", detail, headers=ALLOW)


def _read_only() -> Response:
    detail = "this channel is a mirror: send to the channel, or publish to the stream, that it mirrors"
    return problem(403, "Read-only channel", detail, headers=ALLOW)


@lru_cache(REMEMBERED)
def _remembered(kind: Callable[[str], names.Channel | None], address: str) -> str | None:
    channel = kind(address)
    return None if channel is None else channel.subject


def _subject_of_host(host: str) -> str | None:
    return _remembered(names.channel_of_host, host) if len(host) <= LONGEST_ADDRESS else None


def _subject_of_path(path: str) -> str | None:
    return _remembered(names.channel_of_path, path) if len(path) <= LONGEST_ADDRESS else None


def _coded(request: Request) -> Response | None:
    """A refusal of what is not the event's own bytes: stored, it would reach subscribers coded and unlabelled."""
    if request.fields.keys().isdisjoint(CODED):
        return None
    for name, value in request.headers:
        coding = value.strip().lower()
        if name == b"content-encoding" and coding not in (b"", b"identity"):
            detail = f"content-encoding {quoted(value.decode('latin-1'))} is not supported: send the event uncompressed"
            return problem(415, "Unsupported content coding", detail, headers=ALLOW)
        if name == b"transfer-encoding" and coding != b"chunked":
            detail = f"transfer-encoding {quoted(value.decode('latin-1'))} is not supported: send chunked, or a length"
            return problem(501, "Unsupported transfer coding", detail, headers=ALLOW)
        if name == b"upgrade":
            # Our own server ignores the offer; others hand the request on without its body.
            return problem(501, "Unsupported upgrade", "send the event without an Upgrade header", headers=ALLOW)
    return None


def _only(headers: Sequence[tuple[bytes, bytes]], name: bytes) -> bytes | None:
    """The one header of that lower-case name; None where there are none, or several."""
    found = [value for key, value in headers if key == name]
    return found[0] if len(found) == 1 else None


async def _message(request: Request, body: Body, place: Stored) -> Encoded:
    subject, claim, limit = place
    block = stored_block(request.headers, claim)
    if block is not None:
        message = Encoded(subject, block, await body(limit))
    else:
        content_type = (request.header(b"content-type") or b"").decode("latin-1")
        structured = http_codec.is_structured(content_type)
        data = await body(limit * 4 // 3 + STRUCTURED_SLACK if structured else limit)
        event = http_codec.from_http(HttpMessage(tuple(request.headers), data))
        passing = http_codec.passthrough(request.headers)
        message = nats_codec.encoded(nats_codec.to_binary(event, subject, passing, claim))
    if message.size > limit:
        raise Refused(f"the event takes {message.size} bytes, headers included; the limit is {limit}", status=413)
    return message


def _hosts(fields: Mapping[bytes, bytes]) -> tuple[bytes, ...]:
    """K-Original-Host, the host of Forwarded, Host: Knative's gateway rewrites the last."""
    host = fields.get(b"host")
    original, forwarded = fields.get(b"k-original-host"), fields.get(b"forwarded")
    if original is None and forwarded is None:
        return () if host is None else (host,)
    return tuple(value for value in (original, _forwarded_host(forwarded), host) if value is not None)


def _text(host: bytes) -> str:
    return host.decode("latin-1").strip()


def _forwarded_host(value: bytes | None) -> bytes | None:
    """The `host` of the first element of a Forwarded header (RFC 7239)."""
    for pair in (value or b"").split(b",")[0].split(b";"):
        name, _, host = pair.partition(b"=")
        if name.strip().lower() == b"host":
            return host.strip().strip(b'"')
    return None
