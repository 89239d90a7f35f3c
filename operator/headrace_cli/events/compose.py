"""Events composed of what somebody has typed: options, a file, lines. Pure; ids and the time are arguments.

Called by the command `headrace send`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.core import json_text
from headrace.core.errors import InvalidEvent, Misconfigured
from headrace.core.event import json_format
from headrace.core.event.event import Event, make_event
from headrace.core.quoting import quoted

JSON = "application/json"
TEXT = "text/plain"
BINARY = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Form:
    """The event as the options describe it.

    Attributes:
        attributes: the ones given by name, extensions included.
        content_type: of the data; None: JSON, text or bytes, as the data look.
        fields: `a.b=c` options, which make the data a JSON object.
    """

    type: str
    source: str
    id: str | None = None
    attributes: Mapping[str, str] = field(default_factory=dict)
    data: bytes = b""
    content_type: str | None = None
    fields: tuple[str, ...] = ()


def from_form(form: Form, new_id: Callable[[], str], now: str) -> Event:
    """The event that the options describe.

    Raises:
        InvalidEvent: it carries every fault. Misconfigured: a `--field` is malformed.
    """
    data = form.data
    if form.fields:
        data = json.dumps(_object(form.fields), ensure_ascii=False).encode()
    attributes = {
        "specversion": "1.0",
        "id": form.id if form.id is not None else new_id(),
        "source": form.source,
        "type": form.type,
        "time": now,
        **form.attributes,
    }
    content_type = form.content_type or (_looks_like(data) if data else None)
    if content_type:
        attributes["datacontenttype"] = content_type
    return make_event(attributes, data)


def from_lines(lines: Iterable[bytes], new_id: Callable[[], str] | None = None) -> Iterator[tuple[int, Event]]:
    """The events of a file that is one JSON value or has one on each line; each with its first line's number.

    A value is an event in CloudEvents' JSON format, a batch of them, or a line as `tail` and `peek` print it, with the
    event under `event`.

    Args:
        new_id: gives each event an id in place of its own or a missing one; None: events keep theirs.

    Raises:
        Misconfigured: the message quotes the line; the events before it have been given.
    """
    kept: list[bytes] = []
    given = False
    for number, text in enumerate(lines, 1):
        if kept or (not given and text.strip() and not _whole(text)):
            # The file has not one event a line, so it is one value.
            kept.append(text)
        elif text.strip():
            given = True
            yield from ((number, event) for event in _events(text, number, new_id))
    if kept:
        yield from ((1, event) for event in _events(b"".join(kept), 1, new_id))


def _whole(text: bytes) -> bool:
    try:
        # No number is too large.
        json.loads(text, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return True


def _events(text: bytes, number: int, new_id: Callable[[], str] | None) -> Iterator[Event]:
    try:
        found = list(_split(text.decode(json.detect_encoding(text))))
        if new_id is not None:
            found = [_with_id(each, new_id()) for each in found]
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"line {number} is no JSON ({error}): give events as JSON", field="-f") from None
    for each in found:
        yield _event(each.encode("utf-8", "surrogatepass"), number)


def _split(text: str) -> Iterator[str]:
    """Each event in its original text, so that its data are sent unchanged."""
    if text.lstrip().startswith("["):
        yield from json_text.elements(text)
        return
    members = {member.name: member.raw for member in json_text.members(text)}
    whole = members.get("event", "")
    yield whole if whole.startswith("{") and "specversion" not in members else text


def _with_id(text: str, id: str) -> str:
    """The event with another id, its data in their original text."""
    others = [f"{json.dumps(each.name)}: {each.raw}" for each in json_text.members(text) if each.name != "id"]
    return "{" + ", ".join([f'"id": {json.dumps(id)}', *others]) + "}"


def _event(text: bytes, number: int) -> Event:
    try:
        return json_format.parse(text)
    except InvalidEvent as invalid:
        raise Misconfigured(f"the event at line {number} is faulty: {invalid}", field="-f") from None


def _object(given: Iterable[str]) -> dict[str, Any]:
    """`a.b=1` options as one object; a value that is no JSON is text."""
    found: dict[str, Any] = {}
    for text in given:
        path, equals, value = text.partition("=")
        names = path.split(".")
        if not equals or not all(names):
            raise Misconfigured(f"--field is {quoted(text)}: give path=value, as in order.items=3", field="--field")
        at = found
        for name in names[:-1]:
            inner = at.setdefault(name, {})
            if not isinstance(inner, dict):
                raise Misconfigured(f"--field is {quoted(text)}, but {name} has a value already", field="--field")
            at = inner
        at[names[-1]] = _value(value)
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _looks_like(data: bytes) -> str:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return BINARY
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return TEXT
    return JSON
