"""How far one delivery has got: its stage, the used part of its budgets, and the reply that still waits.

The aside stream keeps it between attempts, one subject per consumer and sequence, the newest only. Knows its JSON form;
`headrace.core.delivery.delivery` decides what follows from a record. Read and written by `headrace.forward`.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from headrace.core.delivery.subscriber import MOST_RETRIES
from headrace.core.errors import InvalidEvent
from headrace.core.event import http_codec, json_format
from headrace.core.event.event import Event, is_value
from headrace.core.http import Headers

# The year 10000.
_END_OF_TIME = 253_402_300_800.0
# One more than any budget, so that a damaged record counts as used up instead of overflowing.
_MOST_ATTEMPTS = MOST_RETRIES + 1


class Stage(StrEnum):
    SUBSCRIBER = "subscriber"
    REPLY = "reply"
    DEAD_LETTER = "deadLetter"


class Attempts(NamedTuple):
    """Failed attempts per stage, in the order of the stages."""

    subscriber: int = 0
    reply: int = 0
    dead_letter: int = 0

    def of(self, stage: Stage) -> int:
        return self[_ORDER.index(stage)]

    def one_more(self, stage: Stage) -> Attempts:
        return Attempts(*(count + (one is stage) for one, count in zip(_ORDER, self, strict=True)))


_ORDER = tuple(Stage)


@dataclass(frozen=True, slots=True)
class StageFailure:
    """The last failure, as the dead letter extensions tell it.

    Attributes:
        destination: URI that failed.
        code: HTTP status; 500 when there was no answer.
        data: base64 of the beginning of the answer's body, at most 1024 characters; empty when there was none.
        content_type: the answer's own; empty when it names none, or there was no answer.
        answered: whether the code came in an answer. The answer's bytes can't tell: the other side chooses them.
    """

    destination: str
    code: int
    data: str = ""
    content_type: str = ""
    answered: bool = True

    def extensions(self) -> dict[str, str]:
        """Knative's three dead letter extensions; without data the third is left out."""
        named = {"knativeerrordest": self.destination, "knativeerrorcode": str(self.code)}
        return {**named, "knativeerrordata": self.data} if self.data else named


@dataclass(frozen=True, slots=True)
class StageRecord:
    """How far a delivery got, kept in the aside stream between attempts.

    Attributes:
        due: when the next attempt may start, seconds since the epoch by the clock of the writer; None before the
            first failure.
        failure: the failure told to the sink: the one that ended the subscriber or reply stage, or the latest one.
        last: words for people about the latest failure, of any stage.
        reply, reply_headers: the subscriber's answer that is still to be delivered, and its pass-through headers.
        key: the order key that the event blocks while it waits, or waits for; None where there is no order to keep.
        stuck: its budgets are used up, and it could not be parked.
        wait: seconds from the writing of the record until `due`; None in a record of an earlier version.
        outdated: the name of the token that the latest attempt was refused for, and that is not shown again for this
            event; empty when there was none.
    """

    stage: Stage = Stage.SUBSCRIBER
    attempts: Attempts = Attempts()
    due: float | None = None
    failure: StageFailure | None = None
    last: str = ""
    reply: Event | None = None
    reply_headers: Headers = ()
    key: str | None = None
    stuck: bool = False
    wait: float | None = None
    outdated: str = ""


def to_json(record: StageRecord) -> bytes:
    """The record as it is stored in the aside stream."""
    body: dict[str, object] = {
        "v": 1,
        "stage": str(record.stage),
        "attempts": list(record.attempts),
        "due": record.due,
        "last": record.last,
    }
    if record.wait is not None:
        body["wait"] = record.wait
    if record.failure is not None:
        failed = record.failure
        body["failure"] = [failed.destination, failed.code, failed.data, failed.content_type]
        if not failed.answered:
            # Beside the list: earlier versions take a list of five for a damaged record.
            body["unanswered"] = True
    if record.reply is not None:
        body["reply"] = base64.b64encode(json_format.write(record.reply)).decode()
        body["replyHeaders"] = [
            [name.decode("latin-1"), value.decode("latin-1")] for name, value in record.reply_headers
        ]
    if record.key is not None:
        body["key"] = record.key
    if record.stuck:
        body["stuck"] = True
    if record.outdated:
        body["outdated"] = record.outdated
    return json.dumps(body).encode()


def from_json(data: bytes) -> StageRecord | None:
    """The inverse of `to_json`; None for a record that was damaged: the delivery then begins again."""
    try:
        body = json.loads(data)
        failure, reply, key = body.get("failure"), body.get("reply"), body.get("key")
        return StageRecord(
            stage=Stage(body["stage"]),
            attempts=Attempts(*(min(max(0, int(count)), _MOST_ATTEMPTS) for count in body["attempts"])),
            due=None if body["due"] is None else _moment(body["due"]),
            wait=None if body.get("wait") is None else _moment(body["wait"]),
            failure=None if failure is None else _failure(*failure, answered=body.get("unanswered") is not True),
            last=str(body["last"]),
            reply=None if reply is None else json_format.parse(base64.b64decode(reply)),
            reply_headers=() if reply is None else _passing(body.get("replyHeaders", ())),
            key=None if key is None else str(key),
            stuck=body.get("stuck") is True,
            outdated=str(body.get("outdated") or ""),
        )
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, OverflowError, RecursionError, InvalidEvent):
        return None


def ahead(record: StageRecord, now: float, most: float) -> float:
    """Seconds until the next attempt may start: negative when that is past, zero without a due time, and no more than
    the record was to wait when it was written, since another process's wall clock is believed no further.

    Args:
        now: by our own clock.
        most: the longest wait to believe of a record that tells none.
    """
    if record.due is None:
        return 0.0
    return min(record.due - now, most if record.wait is None else record.wait)


def skew(record: StageRecord, now: float, most: float) -> float:
    """Seconds by which the writer's clock is ahead of ours at least; zero where none shows.

    Only a clock ahead shows: one that is behind makes a retry look due, and NATS still holds it back.
    """
    if record.due is None:
        return 0.0
    return max(0.0, record.due - now - (most if record.wait is None else record.wait))


def _moment(due: float) -> float:
    """Seconds since the epoch within the calendar, in which due times are computed."""
    moment = float(due)
    if not 0 <= moment < _END_OF_TIME:
        raise ValueError(f"due is {moment}")
    return moment


def _failure(
    destination: object, code: int, data: object, content_type: object = "", *, answered: bool
) -> StageFailure:
    """Records of earlier versions know no content type."""
    return StageFailure(
        _attribute_text(destination), int(code), _attribute_text(data), _attribute_text(content_type), answered
    )


def _attribute_text(value: object) -> str:
    """Text that may become an attribute of the dead letter."""
    text = str(value)
    if not is_value(text):
        raise ValueError("no attribute can hold it")
    return text


def _passing(headers: Iterable[tuple[str, str]]) -> Headers:
    """The headers that may travel, judged as when they came: no line break gets out of a record into a request."""
    return http_codec.passthrough((name.encode("latin-1"), value.encode("latin-1")) for name, value in headers)
