"""The types of a manifest's fields, beyond those of JSON.

Knows the two dialects of durations, and the bounds of the server's integers. Beside each check stands the same check in
CEL, for the CRD. Does not know which field has which type: that is the `…_spec` modules'.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from headrace.core import duration
from headrace.core.delivery.subscriber import LONGEST_TIMEOUT
from headrace.core.errors import InvalidSpec
from headrace.core.manifest.field_words import HERE, SENTENCE

_LONGEST_SPAN = timedelta(days=100 * 365)
# The API server estimates the cost of a rule by the largest length of the text.
_LONGEST_TEXT = 64
_LONGEST_SUBJECT = 256
_TAKEN = ("headrace.dev/", "_nats")

# Each pattern stands in CEL, too, whose engine has no classes for Unicode.
# Go's durations with each unit once at most, the largest first, which together stay within Go's 292 years.
GO = "0|" + "".join(
    rf"(([0-9]{{1,{digits}}}([.][0-9]*)?|[.][0-9]+){unit})?"
    for unit, digits in (("h", 6), ("m", 7), ("s", 9), ("ms", 12), ("(u|µ|μ)s", 15), ("ns", 18))
)
_ISO_SECONDS = r"([0-9]{1,9}([.][0-9]{1,6})?|[.][0-9]{1,6})S"
_ISO_TIME = rf"T([0-9]{{1,6}}H([0-9]{{1,6}}M)?({_ISO_SECONDS})?|[0-9]{{1,6}}M({_ISO_SECONDS})?|{_ISO_SECONDS})"
_ISO = rf"P([0-9]{{1,6}}D({_ISO_TIME})?|{_ISO_TIME})"
_RFC3339 = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?"
    r"(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
)
_PERCENTAGE = r"(100|[0-9]{1,2})%?"
_SUBJECT = r"[^ \t\r\n\f.]+([.][^ \t\r\n\f.]+)*"
_STREAM = r"[^ \t\r\n.*>/\\]+"

# Examples for a span that is no text.
_ISO_EXAMPLE, _GO_EXAMPLE = "PT0.5S", "30s"


def _go_span(value: object) -> timedelta:
    span = _span(duration.from_go, value, _GO_EXAMPLE)
    too_short = span < timedelta(microseconds=1) and re.search(r"[1-9]", str(value))
    if span > _LONGEST_SPAN or too_short or not re.fullmatch(GO, str(value)):
        problem = "it should be between a microsecond and 100 years, the largest unit first, or 0"
        raise PydanticCustomError(SENTENCE, problem)
    return span


def _iso_span(value: object) -> timedelta:
    span = _span(duration.from_iso, value, _ISO_EXAMPLE)
    if not re.fullmatch(_ISO, str(value)):
        problem = "it should have at most 6 digits of days, hours and minutes, 9 of seconds, and 6 after the point"
        raise PydanticCustomError(SENTENCE, problem)
    return span


def _span(read: Callable[..., timedelta], value: object, example: str) -> timedelta:
    if not isinstance(value, str):
        problem = "it should be a duration as text: write for example {example}"
        raise PydanticCustomError(SENTENCE, problem, {"example": example})
    try:
        span = read(value, field=HERE)
    except InvalidSpec as error:
        raise PydanticCustomError(SENTENCE, "{text}", {"text": str(error)}) from None
    if len(value) > _LONGEST_TEXT:
        raise PydanticCustomError(SENTENCE, "it should have at most {most} characters", {"most": _LONGEST_TEXT})
    return span


def _timeout(span: timedelta) -> timedelta:
    if not timedelta() < span <= LONGEST_TIMEOUT:
        longest = {"longest": _LONGEST_TIMEOUT, "cure": _LONGER}
        raise PydanticCustomError(SENTENCE, "it should be more than zero and at most {longest}: {cure}", longest)
    return span


def matching(pattern: str, says: str) -> AfterValidator:
    """Text that a pattern matches as a whole; `says` what it should be."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise PydanticCustomError(SENTENCE, "{says}", {"says": says})
        return text

    return AfterValidator(check)


def _digits(value: object) -> object:
    # The proposal's examples write sequences as text.
    return int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,18}", value) else value


def _moment(value: object) -> str:
    """RFC 3339 in; out comes the server's own form: UTC, no trailing zeros."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) and re.fullmatch(_RFC3339, value) else "")
        utc = moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise PydanticCustomError(SENTENCE, "it should be RFC 3339, like 2026-01-31T09:30:00Z") from None
    text = utc.replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}Z"


def _free_keys(labels: dict[str, str]) -> dict[str, str]:
    taken = next((key for key in labels if key.startswith(_TAKEN)), None)
    if taken is not None:
        problem = "the key {key} is not yours: keys with headrace.dev/ and _nats are taken"
        raise PydanticCustomError(SENTENCE, problem, {"key": taken})
    return labels


def _text(longest: int, cel: str, says: str, **more: object) -> WithJsonSchema:
    """The schema of text that is empty or obeys a CEL expression."""
    rule = {"rule": f"self == '' || ({cel})", "message": says}
    return WithJsonSchema({"type": "string", "maxLength": longest, "x-kubernetes-validations": [rule], **more})


def _pattern(pattern: str, longest: int) -> WithJsonSchema:
    """The schema of text of a pattern, without a rule, whose cost would count for each entry of `spec.subscribers`."""
    return WithJsonSchema({"type": "string", "maxLength": longest, "pattern": f"^{pattern}$"})


def _matches(pattern: str) -> str:
    quoted = pattern.replace("\\", "\\\\")
    return f"self.matches('^({quoted})$')"


GoSpan = Annotated[
    timedelta,
    BeforeValidator(_go_span),
    _text(
        _LONGEST_TEXT,
        f"{_matches(GO)} && duration(self) < duration('{_LONGEST_SPAN // timedelta(hours=1)}h1us')"
        # Our spans are rounded to microseconds; the server has nanoseconds.
        " && (duration(self) > duration('500ns') || !self.matches('[1-9]'))",
        "it should be a duration between a microsecond and 100 years, like 500ms, 30s, 5m or 1h30m, or 0",
    ),
]
_LONGEST_TIMEOUT = f"PT{LONGEST_TIMEOUT // timedelta(minutes=1)}M"
# Advice for somebody who writes hours there.
_LONGER = (
    "it is for one request, not for all tries, which are retry's and backoffDelay's; a subscriber that works for "
    "longer answers 202 before"
)
_ISO_SAYS = "it should be an ISO 8601 duration, like PT0.5S, PT10S or PT1M"
IsoSpan = Annotated[timedelta, BeforeValidator(_iso_span), _text(_LONGEST_TEXT, _matches(_ISO), _ISO_SAYS)]
Timeout = Annotated[
    timedelta,
    BeforeValidator(_iso_span),
    AfterValidator(_timeout),
    _text(
        _LONGEST_TEXT,
        # The part below days is Go's notation in capitals, which CEL reads.
        f"{_matches(_ISO)} && self.matches('^P(0+D)?T')"
        " && duration(self.split('T')[1].lowerAscii()) > duration('0s')"
        f" && duration(self.split('T')[1].lowerAscii()) <= duration('{LONGEST_TIMEOUT // timedelta(seconds=1)}s')",
        f"it should be an ISO 8601 duration, more than zero and at most {_LONGEST_TIMEOUT}, like PT10S: {_LONGER}",
    ),
]
_PERCENTAGE_SAYS = "it should be a percentage, like 30 or 30%"
Percentage = Annotated[str, matching(_PERCENTAGE, _PERCENTAGE_SAYS), _text(4, _matches(_PERCENTAGE), _PERCENTAGE_SAYS)]
Sequence = Annotated[
    int,
    BeforeValidator(_digits),
    Field(ge=0, le=2**63 - 1),
    # A pattern and bounds instead of a rule: a rule's cost is estimated as if the text could fill a whole request.
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "pattern": "^([0-9]{1,18})?$",
        }
    ),
]
Moment = Annotated[
    str,
    BeforeValidator(_moment),
    _text(
        40,
        f"{_matches(_RFC3339)} && timestamp(self) >= timestamp('0001-01-01T00:00:00Z')",
        "it should be RFC 3339, like 2026-01-31T09:30:00Z",
    ),
]
_SUBJECT_SAYS = "it should be a NATS subject: tokens with dots between, no blanks, like orders.eu.>"
Subject = Annotated[
    str,
    Field(max_length=_LONGEST_SUBJECT),
    matching(_SUBJECT, _SUBJECT_SAYS),
    _text(_LONGEST_SUBJECT, _matches(_SUBJECT), _SUBJECT_SAYS),
]
_STREAM_SAYS = "a stream's name has at most 200 characters, no blanks and none of . * > / \\"
StreamName = Annotated[str, _text(200, _matches(_STREAM), _STREAM_SAYS)]
"""Checked with all names of streams, those of the grammar included: `headrace.core.channel.stream_config`."""
_OBJECT = r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?"
_OBJECT_SAYS = "it should be the name of an object: a-z, 0-9, - and ., at most 253 characters"
ObjectName = Annotated[
    str,
    Field(max_length=253),
    matching(_OBJECT, _OBJECT_SAYS),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 253,
            "x-kubernetes-validations": [{"rule": _matches(_OBJECT), "message": _OBJECT_SAYS}],
        }
    ),
]
_API_VERSION = r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?/)?v[0-9][a-z0-9]*"
ApiVersion = Annotated[
    str,
    Field(max_length=317),
    matching(_API_VERSION, "it should be group and version, like v1 or serving.knative.dev/v1"),
    _pattern(f"({_API_VERSION})?", 317),
]
_KIND = r"[A-Za-z][A-Za-z0-9]*"
KindName = Annotated[
    str, Field(max_length=63), matching(_KIND, "it should be a kind, like Service"), _pattern(_KIND, 63)
]
ResourceName = Annotated[str, Field(max_length=253), matching(_OBJECT, _OBJECT_SAYS), _pattern(_OBJECT, 253)]
_LABEL = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
Namespace = Annotated[
    str,
    Field(max_length=63),
    matching(_LABEL, "it should be the name of a namespace"),
    _pattern(f"({_LABEL})?", 63),
]
# Lax as to the container only: JSON knows lists, values are tuples.
Texts = Annotated[tuple[str, ...], Field(strict=False)]
_Subject = Annotated[
    str,
    Field(max_length=_LONGEST_SUBJECT),
    matching(_SUBJECT, _SUBJECT_SAYS),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": _LONGEST_SUBJECT,
            "x-kubernetes-validations": [{"rule": _matches(_SUBJECT), "message": _SUBJECT_SAYS}],
        }
    ),
]
"""An item of a list, where empty text is a mistake."""
Subjects = Annotated[tuple[_Subject, ...], Field(strict=False, max_length=256)]
# 0 and -1 both say "no limit".
Limit = Annotated[int, Field(ge=-1, le=2**63 - 1)]
Limit32 = Annotated[int, Field(ge=-1, le=2**31 - 1)]
Labels = Annotated[
    dict[str, Annotated[str, Field(max_length=1024)]],
    Field(max_length=64),
    AfterValidator(_free_keys),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 64,
            "additionalProperties": {"type": "string", "maxLength": 1024},
            "x-kubernetes-validations": [
                {
                    "rule": "!self.exists(key, key.startsWith('headrace.dev/') || key.startsWith('_nats'))",
                    "message": "keys with headrace.dev/ and _nats are taken: choose others",
                }
            ],
        }
    ),
]
