"""The words for a faulty field of a manifest: its path, its value, and what it should be.

Knows pydantic's kinds of errors and puts them into words of people. Knows no field. Called by every part that parses
some of a manifest: `headrace.core.manifest.manifest`, and `headrace up`.
"""

from __future__ import annotations

import json

from pydantic_core import ErrorDetails, PydanticCustomError

from headrace.core.event.uri import hidden
from headrace.core.manifest.part import RULE

# A sentence has this in place of the field's path, which a validator does not know.
HERE = "it"
SENTENCE = "sentence"
_QUOTED_CHARACTERS = 80
# Sentences whose subject is the field itself, not its value.
_OF_THE_FIELD = (f"{HERE} is ", f"{HERE} has ")

# Our words in place of pydantic's, which are Python's.
_WORDS = {
    "string_type": "it should be text",
    "string_unicode": "it should be text, and holds half a character",
    "int_type": "it should be a whole number",
    "int_from_float": "it should be a whole number",
    "bool_type": "it should be true or false",
    "dict_type": "it should be an object",
    "model_type": "it should be an object",
    "tuple_type": "it should be a list",
}


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
    """The fault in a field, with its value quoted and the advice."""
    if error["type"] == "missing" or error["input"] is None:
        return f"{field} is missing: give it"
    if error["type"] == "extra_forbidden":
        return f"{field} is unknown: check its spelling"
    rule = error["ctx"] if error["type"] == RULE else None
    if rule and rule["value"] in (None, ""):
        return f"{field} is missing: {rule['says']}"
    if error["msg"].startswith(_OF_THE_FIELD):
        return field + error["msg"].removeprefix(HERE)
    if rule:
        return f"{field} is {_cut(rule['value'])}: {rule['says']}"
    return f"{field} is {as_written(error['input'])}: {_problem(error)}"


def _problem(error: ErrorDetails) -> str:
    bounds = error.get("ctx", {})
    match error["type"]:
        case "greater_than_equal":
            return f"it should be at least {bounds['ge']}"
        case "less_than_equal":
            return f"it should be at most {bounds['le']}"
        case "too_short":
            return f"it should have at least {bounds['min_length']}"
        case kind:
            return _WORDS.get(kind) or error["msg"].replace("Input should", "it should")


def as_written(given: object) -> str:
    """The value as its author wrote it, without secrets, and not at length."""
    match given:
        case bool():
            return json.dumps(given)
        case dict():
            return "an object" if given else "{}"
        case list() | tuple():
            return "a list" if given else "[]"
        case _:
            return _cut(given)


def _cut(given: object) -> str:
    value = hidden(repr(given))
    return value if len(value) <= _QUOTED_CHARACTERS else value[:_QUOTED_CHARACTERS] + "…"


def refuse_bare_address(value: object) -> object:
    """For a destination: a bare URI in place of the object that holds it is a common slip."""
    if not isinstance(value, str):
        return value
    # Half a surrogate pair, which JSON can hold, would break pydantic's own message.
    example = value if value and value.isprintable() and hidden(value) == value else "http://host/path"
    raise PydanticCustomError(SENTENCE, "it should be an object: give {example}", {"example": f"{{uri: {example}}}"})
