"""The meaning of JetStream's answer to a publish: stored, or an error that says who can cure it.

It knows the server's error numbers. Only `headrace.io.jetstream.data_path` uses it.
"""

from __future__ import annotations

import json
import re

from headrace.core.errors import HeadraceError, Refused, Unavailable
from headrace.core.fast import new_tuple
from headrace.core.nats.api_error import ApiError
from headrace.core.nats.jetstream import PubAck

FULL_RETRY_AFTER = 10.0

# JetStream error numbers: the server or the account has no room left; or the stream has none.
NO_ROOM = {10047, 10023, 10028, 10002}
FULL = NO_ROOM | {10077}
TOO_LARGE = {10054, 10097}
SEALED = {10109, 10052}
# The replay's stream has lost the subject to another stream.
NOT_THAT_STREAM = {10060}
# Another writer has changed the subject since we read it.
OVERTAKEN = {10071}
PLAIN_ACK = re.compile(rb'\{"stream":"([\w-]+)", ?"seq":(\d{1,19})\}', re.ASCII)


class Overtaken(Refused):
    """The record that was read is not the newest any more."""


def pub_ack(data: bytes, subject: str) -> PubAck:
    """The PubAck in the data of an answer; raises the error that it holds instead (see `JetStream.publish`)."""
    return _plain_ack(data) or _read_ack(data, subject)


def outcome(data: bytes, subject: str) -> PubAck | HeadraceError:
    """`pub_ack`, with the error returned."""
    ack = _plain_ack(data)
    if ack is not None:
        return ack
    try:
        return _read_ack(data, subject)
    except HeadraceError as error:
        return error


def no_room(data: bytes) -> str:
    """The server's words, if it refused a message for want of room in itself or in the account; else empty."""
    try:
        error = ApiError("", json.loads(data).get("error") or {})
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ""
    return error.description if error.err_code in NO_ROOM else ""


def _plain_ack(data: bytes) -> PubAck | None:
    """The PubAck in the form of nearly every answer, to the letter; None for all others, which are read as JSON."""
    plain = PLAIN_ACK.fullmatch(data)
    if plain is None:
        return None
    stream, sequence = plain.groups()
    return new_tuple(PubAck, (stream.decode(), int(sequence), False, False))


def _read_ack(data: bytes, subject: str) -> PubAck:
    try:
        body = json.loads(data)
        error = body.get("error")
        if error is None:
            return PubAck(str(body["stream"]), int(body["seq"]), bool(body.get("duplicate", False)))
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
        words = f"something that is not JetStream answered on {subject}: {data[:80]!r}"
        raise Unavailable(words) from None
    raise _refusal(ApiError(subject, error))


def _refusal(error: ApiError) -> HeadraceError:
    """The meaning of a JetStream error on a publish, for the producer."""
    if error.err_code in FULL:
        return Refused(f"the channel is full: {error.description}", status=507, retry_after=FULL_RETRY_AFTER)
    if error.err_code in TOO_LARGE:
        return Refused(f"the channel refuses events of this size: {error.description}", status=413)
    if error.err_code in NOT_THAT_STREAM:
        return Refused(f"the stream that the event came from does not capture its subject: {error}", status=404)
    if error.err_code in OVERTAKEN:
        return Overtaken(str(error), status=409)
    if error.err_code in SEALED:
        return Refused(f"the channel takes no more events: {error.description}", status=403)
    return Unavailable(f"the channel could not store the event: {error}")
