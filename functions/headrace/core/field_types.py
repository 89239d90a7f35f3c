"""The types of a manifest's fields, beyond what JSON has, and what to say when a value is none of them.

Knows the two dialects of durations, the bounds of the server's integers and the words for people. Does not know which
field has which type: that is `headrace.core.manifest`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from pydantic_core import ErrorDetails, PydanticCustomError

from headrace.core import duration
from headrace.core.errors import InvalidSpec
from headrace.core.subscriber import LONGEST_TIMEOUT
from headrace.core.uri import hidden

# Stands in a sentence for the path of the field, which a validator does not know.
_HERE = "it"
_SENTENCE = "sentence"
_QUOTED_CHARACTERS = 80
# Go counts nanoseconds in 64 bits.
_LONGEST_SPAN = timedelta(days=292 * 365)

# For what pydantic would say in Python's words.
_WORDS = {
    "string_type": "it should be text",
    "int_type": "it should be a whole number",
    "int_from_float": "it should be a whole number",
    "bool_type": "it should be true or false",
    "dict_type": "it should be an object",
    "model_type": "it should be an object",
    "tuple_type": "it should be a list",
}


def _go_span(value: object) -> timedelta:
    span = _span(duration.from_go, value)
    if span > _LONGEST_SPAN or (not span and set(str(value)) & set("123456789")):
        raise PydanticCustomError(_SENTENCE, "it should be between a microsecond and 292 years, or 0")
    return span


def _iso_span(value: object) -> timedelta:
    return _span(duration.from_iso, value)


def _span(read: Callable[..., timedelta], value: object) -> timedelta:
    if not isinstance(value, str):
        raise PydanticCustomError(_SENTENCE, "it should be a duration as text")
    try:
        return read(value, field=_HERE)
    except InvalidSpec as error:
        raise PydanticCustomError(_SENTENCE, "{text}", {"text": str(error)}) from None


def _timeout(span: timedelta) -> timedelta:
    if not timedelta() < span <= LONGEST_TIMEOUT:
        longest = {"longest": duration.to_iso(LONGEST_TIMEOUT)}
        raise PydanticCustomError(_SENTENCE, "it should be more than zero and at most {longest}", longest)
    return span


def _percentage(text: str) -> str:
    if text and not re.fullmatch(r"\d{1,3}%?", text, re.ASCII):
        raise PydanticCustomError(_SENTENCE, "it should be a percentage, like 30 or 30%")
    return text


def _digits(value: object) -> object:
    # The proposal's examples write sequences as text.
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _moment(value: object) -> str:
    """RFC 3339 in, the form that the server gives back out: UTC, no trailing zeros."""
    try:
        moment = datetime.fromisoformat(value if isinstance(value, str) else "")
        utc = moment.astimezone(UTC) if moment.tzinfo else None
    except (ValueError, OverflowError):
        utc = None
    if utc is None:
        raise PydanticCustomError(_SENTENCE, "it should be RFC 3339, like 2026-01-31T09:30:00Z")
    text = utc.replace(tzinfo=None).isoformat()
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}Z"


_TEXT_SCHEMA = WithJsonSchema({"type": "string"})
GoSpan = Annotated[timedelta, BeforeValidator(_go_span), _TEXT_SCHEMA]
IsoSpan = Annotated[timedelta, BeforeValidator(_iso_span), _TEXT_SCHEMA]
Timeout = Annotated[IsoSpan, AfterValidator(_timeout)]
Percentage = Annotated[str, AfterValidator(_percentage)]
Sequence = Annotated[int, BeforeValidator(_digits), Field(ge=0, le=2**63 - 1)]
Moment = Annotated[str, BeforeValidator(_moment)]
# Lax as to the container only: JSON knows lists, values are tuples.
Texts = Annotated[tuple[str, ...], Field(strict=False)]
# 0 and -1 both say "no limit".
Limit = Annotated[int, Field(ge=-1, le=2**63 - 1)]
Limit32 = Annotated[int, Field(ge=-1, le=2**31 - 1)]


def path_of(start: str, location: tuple[int | str, ...]) -> str:
    """The path of a field as people write it: `spec.stream.config.sources[1].name`."""
    path = start
    for step in location:
        plain = isinstance(step, str) and not path.endswith("annotations")
        # The name of an annotation is its author's, and may be long.
        name = str(step)[:_QUOTED_CHARACTERS]
        path += (f".{name}" if path else name) if plain else f"[{name}]"
    return path or "the object"


def sentence(field: str, error: ErrorDetails) -> str:
    """What is wrong with a field, with its value quoted and what it should be."""
    if error["type"] == "missing":
        return f"{field} is missing: give it"
    value = hidden(repr(error["input"]))
    if len(value) > _QUOTED_CHARACTERS:
        value = value[:_QUOTED_CHARACTERS] + "…"
    if error["msg"].startswith(f"{_HERE} is "):
        return field + error["msg"].removeprefix(_HERE)
    problem = _WORDS.get(error["type"]) or error["msg"].replace("Input should", "it should")
    return f"{field} is {value}: {problem}"
